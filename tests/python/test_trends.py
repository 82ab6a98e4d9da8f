"""Leaks and risks found by their trend, before any threshold; with real allocations, real limits, and callbacks that misbehave."""

import json
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from conftest import MIB, wait_until
from fake_nvml import GIB
from package import run_program

from nilometer.memory import DeviceReading, LeakDetector, MemoryDebugger, OOMDetector, RiskLevel
from nilometer.memory.delivery import Delivery
from nilometer.memory.leak_report import LeakReport
from nilometer.memory.prediction import OOMPrediction

# Half a MiB every 20 ms, kept or not, until the detector calls or the time is over: the same program but for one word.
LEAK = """
    import json, sys, threading, time
    import nilometer
    from nilometer.memory import LeakDetector
    keep, steps, warm_up_secs = sys.argv[1] == "keep", sys.argv[2] == "steps", float(sys.argv[3])
    found, kept, called = [], [], threading.Event()
    def tell(report):
        found.append([report.kind, report.mb_per_minute, report.growth_mb])
        called.set()
    detector = LeakDetector(threshold_mb=10_000, leak_callback=tell, sampling_interval=0.02, devices=["host"], warm_up_secs=warm_up_secs)
    started, step = time.monotonic(), 0
    with detector:
        # A leak ends the loop by being found; what is none is watched for a little longer than any verdict needs.
        while not called.is_set() and time.monotonic() - started < (100 if keep and warm_up_secs < 100 else 14):
            block = bytearray(512 << 10)
            step += 1
            if steps:
                nilometer.log({"loss": 1.0}, step=step)
            if keep:
                kept.append(block)
            time.sleep(0.02)
        rate = len(kept) / 2 / (time.monotonic() - started) * 60
        report = detector.check()[0]
        time.sleep(0.2)
    after = detector.check()[0]
    detector.set_baseline()
    anew = detector.check()[0].kind
    print(json.dumps({"anew": anew, "found": found, "rate": rate, "kind": report.kind, "after": after.kind, "is_leak": after.is_leak, "text": str(after)}))
"""


@pytest.mark.parametrize(("steps", "warm_up_secs"), [("steps", 99), ("no-steps", 0)])
def test_a_leak_far_below_the_threshold_is_found_by_its_trend_and_told_once(tmp_path, steps, warm_up_secs):
    told = json.loads(run_program(LEAK, tmp_path, "keep", steps, warm_up_secs).stdout)
    assert len(told["found"]) == 1
    kind, mb_per_minute, growth_mb = told["found"][0]
    assert kind == "leak" and growth_mb < 10_000
    assert mb_per_minute == pytest.approx(told["rate"], rel=0.3)
    assert (told["kind"], told["after"], told["is_leak"]) == ("leak", "leak", True)
    assert "MiB/min" in told["text"]
    # A new baseline forgets the trend.
    assert told["anew"] == "baseline"


def test_a_program_that_has_just_begun_and_makes_no_steps_grows_but_does_not_leak(tmp_path):
    told = json.loads(run_program(LEAK, tmp_path, "keep", "no-steps", 1000).stdout)
    assert (told["found"], told["after"], told["is_leak"]) == ([], "growth", False)
    assert "grows by" in told["text"]


def test_allocations_that_are_given_back_are_no_leak(tmp_path):
    told = json.loads(run_program(LEAK, tmp_path, "free", "steps", 0).stdout)
    assert (told["found"], told["after"], told["is_leak"]) == ([], "baseline", False)


# In a cgroup the level rises with every step; the process ends itself at the first warning.
RISING = """
    import json, sys, threading, time
    import nilometer
    from nilometer.memory import OOMDetector
    warned, seen, kept = threading.Event(), [], []
    def warn(prediction):
        seen.append(prediction)
        warned.set()
    with OOMDetector(threshold=99.0, warning_callback=warn, sampling_interval=0.02, devices=["host"]) as detector:
        while not warned.is_set() and len(kept) < 360:
            kept.append(bytearray(1 << 20))
            nilometer.log({"loss": 1.0}, step=len(kept))
            time.sleep(0.02)
    p = seen[0]
    print(json.dumps({
        "level": p.risk_level.value, "usage": p.current_usage, "seconds": p.predicted_oom_seconds,
        "range": p.predicted_oom_range, "confidence": p.confidence, "reason": p.reason, "cause": p.cause,
        "advice": p.recommendations, "text": str(p), "source": p.limit_source,
    }))
"""


def test_the_warning_comes_before_the_threshold_with_the_time_that_is_left(tmp_path, cgroup):
    cgroup.limit(400 * MIB)
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RISING)],
        capture_output=True, text=True, preexec_fn=cgroup.enter, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["level"] == "critical" and told["usage"] < 90
    assert told["range"][0] < told["seconds"] < told["range"][1]
    assert told["cause"] == "leak" and "iB/min" in told["reason"] and "threshold" not in told["reason"]
    assert cgroup.path in told["source"] and told["advice"]
    lines = told["text"].split("\n")
    assert lines[:2] == ["[WARNING] OOM Warning: job memory", "   Risk Level: critical"]
    assert lines[3] == f"   Predicted OOM Time: {told['seconds']:.1f}seconds later"
    assert lines[4] == f"   Confidence: {told['confidence']:.2f}"
    assert [line.removeprefix("   Recommendation: ") for line in lines[5:-1]] == told["advice"]
    assert lines[-1].startswith(f"   Reason: {told['reason']}; full in ")


def test_a_warning_prints_as_in_its_document():
    advice = ["Prepare to release cache", "Consider reducing batch size"]
    block = """
[WARNING] OOM Warning: GPU 0
   Risk Level: high
   Current Usage: 87.3%
   Predicted OOM Time: 45.2seconds later
   Confidence: 0.82
   Recommendation: Prepare to release cache
   Recommendation: Consider reducing batch size
"""
    assert str(OOMPrediction(0, RiskLevel.HIGH, 87.3, "A GPU", 45.2, 0.82, advice)) == block.strip()


def test_what_is_no_warning_prints_in_calmer_words():
    low = str(OOMPrediction("host", RiskLevel.LOW, 12.0, "a limit"))
    assert low.split("\n")[:2] == ["OOM Risk: host memory", "   Risk Level: low"]
    for level in RiskLevel:
        said = OOMPrediction("host", level, 12.0, "a limit")
        assert ("WARNING" in str(said)) == said.is_warning


def test_nothing_is_made_up_where_nobody_said_how_sure_it_is():
    said = str(OOMPrediction("host", RiskLevel.HIGH, 90.0, "a limit", 45.2))
    assert "Predicted OOM Time: 45.2seconds later" in said and "Confidence" not in said


def test_a_warning_is_the_block_that_the_command_prints():
    def lines(*known, **more):
        return str(OOMPrediction("host", RiskLevel.HIGH, 90.0, "a limit", *known, reason="it grows", **more)).split("\n")[3:]

    assert lines(480.0, 0.8, predicted_oom_range=(360.0, 660.0))[-1] == "   Reason: it grows; full in 8 minutes (6–11)"
    assert lines() == ["   Predicted OOM Time: none", "   Reason: it grows"]
    assert lines(cause="above-limit") == ["   Predicted OOM Time: not known", "   Reason: it grows"]


def gpu(allocated, reserved=None, total=80 * GIB, others=0):
    """What a look at a GPU with torch on it gives."""
    used = (allocated if reserved is None else reserved) + others
    return DeviceReading("0", used, total - used, total, "A GPU", allocated, reserved)


def test_a_full_cache_with_little_allocated_is_no_risk_and_a_full_gpu_is_one():
    detector = OOMDetector(threshold=85.0)
    detector.on_reading([gpu(10 * GIB, 79 * GIB)], 0.0)
    assert detector.warnings == []
    detector.on_reading([gpu(70 * GIB, 79 * GIB)], 0.0)
    assert [(w.risk_level, w.current_usage) for w in detector.warnings] == [(RiskLevel.HIGH, 87.5)]
    assert "Prepare to release cache" in detector.warnings[0].recommendations
    assert "above the threshold of 85%" in detector.warnings[0].reason
    # What is held by others and by contexts counts.
    detector = OOMDetector(threshold=85.0)
    detector.on_reading([gpu(10 * GIB, 20 * GIB)], 0.0)
    assert detector.warnings == []
    detector.on_reading([gpu(10 * GIB, 20 * GIB, others=60 * GIB)], 0.0)
    assert [(w.device_id, w.limit_source) for w in detector.warnings] == [(0, "A GPU")]


def test_the_step_that_training_has_come_to_is_the_last_logged_or_the_one_said(tmp_path):
    code = """
        import nilometer
        from nilometer.run import current_step
        assert current_step() is None
        nilometer.log({"loss": 1.0})
        assert current_step() == 0
        nilometer.log({"loss": 1.0}, step=41)
        assert current_step() == 41
        nilometer.current_run().set_step(50)
        assert current_step() == 50
        nilometer.finish()
        assert current_step() is None
    """
    run_program(code, tmp_path)


# Callbacks


@pytest.mark.parametrize("bad", [ValueError("went wrong"), SystemExit("went wrong")])
def test_a_delivery_goes_on_after_a_callback_that_raises_in_order_and_leaves_no_thread(bad):
    seen, complaints = [], []

    def callback(number):
        seen.append(number)
        raise bad

    delivery = Delivery(callback, "a callback", complaints.append)
    before = threading.active_count()
    for number in range(50):
        delivery.post(number)
    wait_until(lambda: len(complaints) == 50, "all calls")
    assert seen == list(range(50)) and "went wrong" in complaints[0]
    wait_until(lambda: threading.active_count() <= before, "the thread to end")


def test_a_callback_that_never_returns_gathers_a_bounded_number_of_calls():
    release, complaints = threading.Event(), []
    delivery = Delivery(lambda _: release.wait(60), "a callback", complaints.append)
    for number in range(3000):
        delivery.post(number)
    assert complaints and "has not returned" in complaints[0]
    assert len(delivery._waiting) <= 1000
    release.set()


def test_a_leak_callback_that_raises_and_blocks_does_not_stop_the_watching():
    release = threading.Event()

    def bad(report):
        release.wait(60)
        raise ValueError("went wrong")

    looks = []

    class Counted(LeakDetector):
        def on_reading(self, readings, seconds):
            super().on_reading(readings, seconds)
            # Counted when it is over, so that what is taken after the first is growth.
            looks.append(1)

    detector = Counted(threshold_mb=10, leak_callback=bad, sampling_interval=0.01, devices=["host"])
    detector.set_baseline()
    with detector:
        wait_until(lambda: looks, "a look")
        kept = bytearray(40 * MIB)
        wait_until(lambda: detector.leaks, "a leak")
        seen = len(looks)
        wait_until(lambda: len(looks) > seen + 5, "looks while the callback blocks")
    release.set()
    wait_until(lambda: any("went wrong" in text for text in detector._failures), "the callback's error")
    assert kept


def test_a_forked_child_delivers_for_itself(tmp_path):
    code = """
        import os, threading
        from nilometer.memory.delivery import Delivery
        block = threading.Event()
        parent, called = os.getpid(), threading.Event()
        delivery = Delivery(lambda _: block.wait() if os.getpid() == parent else called.set(), "a callback", print)
        delivery.post(1)
        pid = os.fork()
        if pid == 0:
            delivery.post(2)
            os._exit(0 if called.wait(60) else 1)
        assert os.waitpid(pid, 0)[1] == 0
        block.set()
    """
    run_program(code, tmp_path)


# Alerts


def full(percent, device=0):
    """A look at a GPU that is full to a percentage."""
    used = int(percent * GIB)
    return DeviceReading(str(device), used, 100 * GIB - used, 100 * GIB, "A GPU", own=used)


def test_alerts_are_said_once_for_each_threshold():
    seen = []
    debugger = MemoryDebugger()
    debugger.add_alert_callback(seen.append)
    for percent in (50, 79, 80, 85, 79, 81, 96, 94, 97, 80, 96):
        debugger._alerts.on_reading([full(percent)], 0.0)
    # Two thresholds that are passed in one look are one alert.
    debugger._alerts.on_reading([full(99, 1)], 0.0)
    expected = [("gpu_warning_memory", 0), ("gpu_critical_memory", 0), ("gpu_critical_memory", 1)]
    wait_until(lambda: len(seen) >= len(expected), "alerts")
    assert [(alert["type"], alert["device"]) for alert in seen] == expected
    assert [(alert["current_usage"], alert["threshold"]) for alert in seen] == [(80, 80), (96, 95), (99, 95)]
    assert seen[0]["message"] == "GPU 0 is at 80.0 % of its limit (80.00 GiB of 100.00 GiB), above 80 %"
    assert {"type", "device", "timestamp", "message", "threshold", "limit"} <= set(seen[0])


def test_gpus_and_the_host_have_thresholds_of_their_own_and_all_can_be_set():
    seen = []
    percents = {"warning_percent": 100, "critical_percent": 100, "gpu_warning_percent": 30, "gpu_critical_percent": 40}
    debugger = MemoryDebugger(**percents)
    debugger.add_alert_callback(seen.append)
    for device, percent in ((0, 12), (0, 35), (1, 45)):
        debugger._alerts.on_reading([full(percent, device)], 0.0)
    wait_until(lambda: len(seen) == 2, "alerts")
    assert [(alert["type"], alert["device"]) for alert in seen] == [("gpu_warning_memory", 0), ("gpu_critical_memory", 1)]
    usual = MemoryDebugger()._alerts
    assert (usual._host_percents, usual._gpu_percents) == ((75.0, 90.0), (80.0, 95.0))


# In a cgroup the level rises with every step until the debugger says that it will run out, at the first word and at the worse one.
ALERTED = """
    import json, threading, time
    import nilometer
    from nilometer.memory import MemoryDebugger
    seen, kept, critical = [], [], threading.Event()
    def handle(alert):
        if alert["type"] == "oom_risk":
            seen.append(alert)
            if alert["risk_level"] == "critical":
                critical.set()
    debugger = MemoryDebugger(0.02, 99, 10_000, lambda _: None, devices=["host"])
    debugger.add_alert_callback(handle)
    with debugger:
        while not critical.is_set() and len(kept) < 360:
            kept.append(bytearray(1 << 20))
            nilometer.log({"loss": 1.0}, step=len(kept))
            time.sleep(0.02)
    print(json.dumps(seen))
"""


def test_a_forecast_is_an_alert_too(tmp_path, cgroup):
    cgroup.limit(400 * MIB)
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ALERTED)],
        capture_output=True, text=True, preexec_fn=cgroup.enter, cwd=tmp_path, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert [alert["risk_level"] for alert in seen] in (["critical"], ["high", "critical"])
    worst = seen[-1]
    assert (worst["device"], worst["cause"]) == ("host", "leak") and cgroup.path in worst["limit"]
    assert "is likely to run out in" in worst["message"] and worst["recommendations"] and worst["confidence"] > 0
    assert worst["predicted_oom_range"][0] < worst["predicted_oom_seconds"] < worst["predicted_oom_range"][1]


def test_a_leak_is_an_alert_too():
    seen = []
    debugger = MemoryDebugger()
    debugger.add_alert_callback(seen.append)
    debugger._on_leak(LeakReport("host", 0, 5 * MIB, 100 * MIB, kind="leak", mb_per_minute=3.0, lasted_secs=100.0), "it leaks")
    wait_until(lambda: seen, "an alert")
    assert (seen[0]["type"], seen[0]["device"], seen[0]["message"]) == ("memory_leak", "host", "it leaks")
    assert (seen[0]["kind"], seen[0]["mb_per_minute"], seen[0]["growth_mb"]) == ("leak", 3.0, 5.0)


def test_custom_alert_handling_in_a_running_program(capsys):
    def custom_alert_handler(alert_data):
        alert_type = alert_data["type"]
        if alert_type == "critical_memory":
            print("CRITICAL: Memory usage is too high!")
        elif alert_type == "warning_memory":
            print("WARNING: Memory usage is elevated")
        handled.set()

    def never_returns(alert_data):
        release.wait(60)

    handled, release = threading.Event(), threading.Event()
    # Percentages that this very process is above.
    debugger = MemoryDebugger(warning_percent=1e-6, critical_percent=2e-6, leak_threshold_mb=10)
    debugger.add_alert_callback(never_returns)
    debugger.add_alert_callback(custom_alert_handler)
    leaks = []
    debugger.add_alert_callback(lambda alert: leaks.append(alert) if alert["type"] == "memory_leak" else None)
    with debugger:
        assert handled.wait(60)
        wait_until(lambda: debugger.leak_detector._baseline, "a baseline")
        kept = [bytearray(60 * MIB)]
        taken = len(debugger.profiler.samples())
        # Leaks are looked for at every tenth of these.
        wait_until(lambda: len(debugger.profiler.samples()) > taken + 20, "looks at growth beyond the level at the start")
        assert leaks == debugger.leak_detector.leaks == []
        debugger.set_baseline()
        kept.append(bytearray(60 * MIB))
        wait_until(lambda: leaks, "growth beyond the baseline")
    release.set()
    assert capsys.readouterr().out == "CRITICAL: Memory usage is too high!\n"
    assert leaks[0]["growth_mb"] > 10 and kept


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"warning_percent": 0}, "warning_percent"),
        ({"warning_percent": 95}, "critical_percent"),
        ({"gpu_critical_percent": 101}, "gpu_critical_percent"),
        ({"gpu_warning_percent": "half"}, "gpu_warning_percent"),
    ],
)
def test_wrong_percentages_raise_at_once(arguments, word):
    with pytest.raises((TypeError, ValueError), match=word):
        MemoryDebugger(**arguments)


def test_an_alert_callback_must_be_callable():
    with pytest.raises((TypeError, ValueError), match="callable"):
        MemoryDebugger().add_alert_callback("print")


def test_the_status_report_has_forecasts_and_growth_beside_what_it_had(tmp_path):
    debugger = MemoryDebugger(devices=["host"])
    with debugger:
        time.sleep(0.3)
    report = debugger.generate_report(tmp_path / "report.json")
    added = {"resources", "python_objects", "python_objects_counted", "fragmentation"}
    assert set(report) == {"timestamp", "devices", "summary", "oom", "leaks"} | added
    assert {"device", "resource", "risk_level", "current_usage", "limit", "recommendations"} <= set(report["oom"][0])
    assert {"predicted_oom_seconds", "predicted_oom_range", "confidence", "reason", "cause"} <= set(report["oom"][0])
    assert {"device", "growth_mb", "is_leak"} <= set(report["leaks"][0])
    assert {"kind", "mb_per_minute", "lasted_secs"} <= set(report["leaks"][0])
    assert json.loads((tmp_path / "report.json").read_text())["leaks"][0]["kind"] == "baseline"


RANK = """
import os, sys, time
held = [bytearray(b"x") * (60 << 20)]
while time.monotonic() < float(sys.argv[1]):
    if os.environ["RANK"] == "2":
        held.append(bytearray(b"x") * (1 << 20))
    time.sleep(0.1)
"""

LAUNCHER = """
import os, subprocess, sys, time
end = str(time.monotonic() + 18)
ranks = [subprocess.Popen([sys.executable, "rank.py", end], env=os.environ | {"RANK": str(rank)}) for rank in range(4)]
for rank in ranks:
    rank.wait()
"""


def test_one_leaking_rank_among_healthy_ones_is_found_and_named(nilo):
    (nilo.folder / "rank.py").write_text(RANK)
    assert nilo("run", "--", sys.executable, "-c", LAUNCHER).returncode == 0
    found = nilo("leak", "last")
    assert found.returncode == 1, found.stdout
    assert "rank 2) grows" in found.stdout and "while 3 similar processes are flat" in found.stdout
    leak = next(finding for finding in nilo.show()["findings"] if finding["kind"] == "leak")
    assert "rank 2)" in leak["text"]
