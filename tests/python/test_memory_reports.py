"""What the memory classes report: GPUs in the summary, trends, leaks on the host, Python objects; and thresholds as people write them."""

import json
import math
import re
import subprocess
import sys
import textwrap
import time

import pytest
from conftest import ROOT
from fake_nvml import GIB, FakeDriver
from package import QUIET, run_program

import nilometer
from nilometer.memory import LeakDetector, MemoryDebugger, MemoryProfiler, OOMDetector
from nilometer.profiling import ComprehensiveProfiler, GPUMemoryProfiler


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(folder)


def test_the_summary_of_a_report_is_of_gpus_alone(driver, tmp_path):
    """The document's report: one device of 11.5 GB, used to 69.57 %."""
    allocated, total = 8589934592, 12348030976
    driver.say(f"gpu GPU-a {total + GIB} {GIB} {allocated} 50 Fake G12")
    code = """
        import json
        from nilometer.memory import MemoryDebugger
        report = MemoryDebugger(devices=[0, "host"]).get_status_report()
        print(json.dumps(report))
    """
    report = json.loads(run_program(code, tmp_path, **driver.environment).stdout)
    assert report["summary"] == {"total_devices": 1, "total_memory_gb": 11.5, "overall_utilization": 69.57}
    assert report["devices"]["0"]["current_usage"]["allocated"] == allocated
    # A device has one name everywhere.
    names = {"0", "host"}
    assert set(report["devices"]) == names
    assert {entry["device"] for entry in report["oom"]} == names
    assert {entry["device"] for entry in report["leaks"]} == names


def test_the_statistics_know_of_the_current_usage(driver, tmp_path):
    code = """
        import json, os, sys
        from nilometer.memory import MemoryDebugger
        debugger = MemoryDebugger(devices=[0], sampling_interval=0.1)
        debugger.start_monitoring()
        while not debugger.profiler.samples(0):
            pass
        debugger.stop_monitoring()
        print("watched", flush=True)
        sys.stdin.readline()
        for debugger in (debugger, MemoryDebugger(devices=[0])):
            print(json.dumps(debugger.get_status_report()["devices"]["0"]), flush=True)
    """
    say = "gpu GPU-a {0} 0 {1} 50 Fake G10"
    driver.say(say.format(10 * GIB, 4 * GIB))
    program = [sys.executable, "-c", textwrap.dedent(code)]
    job = subprocess.Popen(program, cwd=tmp_path, env=QUIET | driver.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "watched\n"
    driver.say(say.format(10 * GIB, 9 * GIB))
    watched, unwatched = map(json.loads, job.communicate("go\n", timeout=60)[0].splitlines())
    for device, least in ((watched, 40), (unwatched, 90)):
        assert device["current_usage"]["allocated"] == device["statistics"]["peak_allocated"] == 9 * GIB
        assert device["current_usage"]["utilization_percent"] == device["statistics"]["max_utilization"] == 90
        assert device["statistics"]["min_utilization"] == device["statistics"]["avg_utilization"] == least


def test_a_leak_is_detected_on_the_host(run):
    for profiler in (GPUMemoryProfiler(device=0), ComprehensiveProfiler(device="cpu")):
        profiler.set_baseline()
        assert not profiler.detect_leak(threshold_gb=0.05)
        kept = bytearray(b"x") * (100 << 20)
        assert profiler.detect_leak(threshold_gb=0.05)
        assert not profiler.detect_leak(threshold_gb=0.5)
        del kept


@pytest.mark.parametrize(("given", "percent"), [(85, 85.0), (85.0, 85.0), (0.85, 85.0), (0.5, 50.0), (1, 1.0), (100, 100.0)])
def test_a_threshold_is_a_percentage_or_a_fraction(given, percent):
    assert OOMDetector(threshold=given).threshold == percent
    assert MemoryDebugger(oom_threshold=given).oom_detector.threshold == percent


@pytest.mark.parametrize("wrong", [0, -0.5, 101, math.nan])
def test_a_threshold_that_is_neither_is_refused_with_a_sentence(wrong):
    with pytest.raises(ValueError, match="threshold must be a percentage above 0 and at most 100, or a fraction below 1"):
        OOMDetector(threshold=wrong)


def test_fractions_do_for_alerts_too():
    MemoryDebugger(warning_percent=0.75, critical_percent=0.9)
    with pytest.raises(ValueError, match="in this order, not 90 and 75"):
        MemoryDebugger(warning_percent=0.9, critical_percent=0.75)


def test_the_interval_has_the_documents_name_too():
    debugger = MemoryDebugger(monitoring_interval=0.25)
    assert debugger.profiler.sampling_interval == debugger.oom_detector.sampling_interval == 0.25
    with pytest.raises(TypeError, match="monitoring_interval"):
        MemoryDebugger(monitoring_interval="5")


def test_a_level_has_a_trend():
    profiler = MemoryProfiler(sampling_interval=0.002, devices=["host"])
    assert profiler.get_status()["devices"]["host"]["statistics"]["trend"] is None
    kept = []

    def samples():
        return len(profiler.samples())

    with profiler:
        for _ in range(40):
            kept.append(bytearray(b"x") * (4 << 20))
            target = samples() + 2
            while samples() < target:
                time.sleep(0.001)
    assert profiler.get_status()["devices"]["host"]["statistics"]["trend"] == "increasing"
    with MemoryProfiler(sampling_interval=0.002, devices=["host"]) as profiler:
        while samples() < 50:
            time.sleep(0.001)
    assert profiler.get_status()["devices"]["host"]["statistics"]["trend"] == "stable"
    with MemoryProfiler(sampling_interval=0.002, devices=["host"]) as profiler:
        while kept:
            kept.pop()
            target = samples() + 2
            while samples() < target:
                time.sleep(0.001)
    assert profiler.get_status()["devices"]["host"]["statistics"]["trend"] == "decreasing"


class Leaked:
    pass


def test_python_objects_that_are_kept_are_in_the_debuggers_report():
    debugger = MemoryDebugger(sampling_interval=0.05, devices=["host"])
    debugger.start_monitoring()
    kept = [Leaked() for _ in range(5000)]
    debugger.stop_monitoring()
    growth = debugger.get_status_report()["python_objects"]
    assert growth["Leaked"] == len(kept)
    debugger.set_baseline()
    assert "Leaked" not in debugger.get_status_report()["python_objects"]
    without = MemoryDebugger(devices=["host"], count_objects=False)
    assert without.get_status_report()["python_objects"] == {}


def test_objects_are_counted_from_the_start_of_monitoring():
    with LeakDetector(count_objects=True, devices=["host"]) as detector:
        kept = [Leaked() for _ in range(3000)]
        growth = detector.check()[0].object_growth
    assert growth["Leaked"] == len(kept)
    assert sum(growth.values()) < 4000


def test_a_report_says_what_of_the_host_is_meant():
    report = MemoryDebugger(devices=["host"]).get_status_report()
    usage, (risk,) = report["devices"]["host"]["current_usage"], report["oom"]
    assert report["resources"] == {"host": "job memory"}
    assert risk["resource"] in ("job memory", "host memory")
    (prediction,) = OOMDetector(devices=["host"]).check()
    assert prediction.resource in ("job memory", "host memory") and prediction.device_id == "host"
    assert str(prediction).startswith(f"OOM Risk: {prediction.resource}"), str(prediction)
    if risk["resource"] == "job memory":
        assert risk["current_usage"] == pytest.approx(usage["utilization_percent"], abs=1)


def test_a_report_says_which_python_objects_are_counted():
    class Kept:
        pass

    debugger = MemoryDebugger(devices=["host"])
    debugger.set_baseline()
    kept = [Kept() for _ in range(5000)]
    texts = [str(number) for number in range(100_000, 120_000)]
    report = debugger.get_status_report()
    assert next(iter(report["python_objects"].values())) == len(kept)
    assert len(texts) not in report["python_objects"].values()
    assert report["python_objects_counted"].startswith("objects tracked by the garbage collector")
    uncounted = MemoryDebugger(devices=["host"], count_objects=False).get_status_report()
    assert uncounted["python_objects"] == {} and uncounted["python_objects_counted"] is None


def test_thresholds_are_those_of_the_command(nilo):
    oom, host, gpu = nilometer._native.default_percents()
    assert f"[default: {oom:g}]" in nilo("oom", "--help").stdout
    documented = re.findall(r"^(?:memory|gpu)_(?:warning|critical) = ([\d.]+)", (ROOT / "docs/alerts.md").read_text(), re.M)
    assert [percent / 100 for percent in (*host, *gpu)] == [float(share) for share in documented]
    usual = MemoryDebugger()
    assert usual.oom_detector.threshold == OOMDetector().threshold == oom
    assert (usual._alerts._host_percents, usual._alerts._gpu_percents) == (host, gpu)
