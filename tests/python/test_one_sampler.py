"""Everything in a program that watches memory shares one thread, one process tree and the judge of the command."""

import json
import re
import sys
import textwrap

import pytest
from conftest import MIB
from package import run_program

# How many threads there are, and what is open below /proc.
COUNT = """
    import os, sys, threading, time
    from nilometer.memory import LeakDetector, MemoryDebugger, MemoryProfiler, OOMDetector
    def threads():
        return len(os.listdir("/proc/self/task"))
    def descriptors():
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return sorted(os.readlink(link) for link in links if os.path.lexists(link) and os.readlink(link).startswith("/proc/"))
    def wait_until(condition):
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)
"""


def test_however_many_watch_there_is_one_thread_and_one_process_tree(tmp_path):
    code = COUNT + """
    profiler = MemoryProfiler(0.01, devices=["host"])
    before = threads()
    profiler.start_monitoring()
    wait_until(lambda: len(profiler.samples()) > 20)
    one = (threads(), descriptors())
    assert one[0] == before + 1 and one[1]
    # A level that no machine reaches: nobody is called.
    others = [
        MemoryProfiler(0.02, devices=["host"]),
        OOMDetector(100, sampling_interval=0.02, devices=["host"]),
        OOMDetector(99, sampling_interval=0.05, devices=["host"]),
        LeakDetector(10_000, sampling_interval=0.02, devices=["host"]),
        MemoryDebugger(0.02, 100, 10_000, warning_percent=100, critical_percent=100, devices=["host"]),
    ]
    for other in others:
        other.start_monitoring()
    wait_until(lambda: len(others[0].samples()) > 20)
    assert (threads(), descriptors()) == one, (threads(), descriptors(), one)
    for other in others:
        other.stop_monitoring()
    assert threads() == before + 1 and profiler.is_monitoring
    profiler.stop_monitoring()
    # A thread that was waited for stays in /proc for a moment.
    wait_until(lambda: threads() == before)
"""
    run_program(code, tmp_path, NILO_NVML="")


def test_each_looks_at_its_own_pace(tmp_path):
    code = COUNT + """
    fast, slow = MemoryProfiler(0.01, devices=["host"]), MemoryProfiler(30, devices=["host"])
    with slow, fast:
        wait_until(lambda: len(fast.samples()) > 50)
        assert len(slow.samples()) == 1
    assert len(slow.samples()) == 2
"""
    run_program(code, tmp_path, NILO_NVML="")


def test_whoever_judges_memory_is_given_as_many_readings_as_the_recorder_takes(tmp_path):
    code = COUNT + """
    from nilometer.memory.sampler import own_sampler
    reads = []
    class CountedMonitor:
        def __init__(self, monitor):
            self._monitor = monitor
        def read(self, step):
            reads.append(step)
            return self._monitor.read(step)
    # Each looks once; what lies between two looks is read all the same, for all of them together.
    rare = [OOMDetector(sampling_interval=3600, devices=["host"]), LeakDetector(sampling_interval=3600, devices=["host"])]
    sampler = own_sampler()
    sampler.monitor = CountedMonitor(sampler.monitor)
    with MemoryProfiler(3600, devices=["host"]) as profiler:
        wait_until(lambda: profiler.samples())
        assert len(reads) == 1
        for detector in rare:
            with detector:
                before = len(reads)
                wait_until(lambda: len(reads) > before + 10)
        assert len(profiler.samples()) == 1
"""
    run_program(code, tmp_path, NILO_NVML="")


def test_one_that_raises_disturbs_no_other_and_is_reported_once(tmp_path):
    code = COUNT + """
    import logging
    records = []
    class Keep(logging.Handler):
        def emit(self, record):
            records.append(record.getMessage())
    logging.getLogger("nilometer.memory").addHandler(Keep())
    class Broken(MemoryProfiler):
        looks = 0
        def on_reading(self, readings, seconds):
            self.looks += 1
            raise ValueError("went wrong")
    broken, sound = Broken(0.01, devices=["host"]), MemoryProfiler(0.01, devices=["host"])
    with broken, sound:
        wait_until(lambda: broken.looks > 20 and len(sound.samples()) > 20)
    assert [text for text in records if "went wrong" in text] == records and len(records) == 1, records
"""
    run_program(code, tmp_path, NILO_NVML="")


def test_a_forked_child_has_no_thread_and_starts_its_own_when_asked(tmp_path):
    code = COUNT + """
    debugger = MemoryDebugger(0.01, 100, devices=["host"])
    detector = OOMDetector(1e-6, lambda _: called.set(), 0.01, devices=["host"])
    called = threading.Event()
    debugger.start_monitoring()
    detector.start_monitoring()
    assert called.wait(60)
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                called = threading.Event()
                assert threads() == 1
                assert not detector.is_monitoring and not debugger.profiler.is_monitoring
                debugger.stop_monitoring()
                assert detector.check()[0].device_id == "host" and threads() == 1
                heard = threading.Event()
                detector.add_alert_callback(lambda _: heard.set())
                debugger.start_monitoring()
                detector.start_monitoring()
                # The child's own warning, which is none that it inherited.
                assert called.wait(60) and heard.wait(60)
                detector.stop_monitoring()
                debugger.stop_monitoring()
                wait_until(lambda: threads() == 1)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
    assert detector.is_monitoring and debugger.profiler.is_monitoring
    samples = len(debugger.profiler.samples())
    wait_until(lambda: len(debugger.profiler.samples()) > samples)
"""
    run_program(code, tmp_path, NILO_NVML="")


@pytest.mark.parametrize("end", ["pass", "sys.exit(0)", "threading.Thread(target=lambda: time.sleep(0.1)).start()"])
def test_a_program_may_end_while_it_is_watched(tmp_path, end):
    code = COUNT + f"""
    for interval in (0.001, 0.002):
        MemoryDebugger(interval, 1e-6, warning_callback=lambda _: None, devices=["host"]).start_monitoring()
    time.sleep(0.05)
    {end}
"""
    for _ in range(5):
        assert run_program(code, tmp_path, NILO_NVML="").stderr == ""


# A leak that has come two thirds of the way to its limit, below what a step takes and gives back, while `nilo run` records the same program.
LEAK = """
    import json, sys, time
    import nilometer
    from nilometer.memory import LeakDetector, OOMDetector
    kept = []
    oom = OOMDetector(95, lambda _: None, devices=["host"])
    leak = LeakDetector(10_000, devices=["host"])
    with oom, leak:
        for step in range(104):
            kept.append(bytearray(b"x") * (2560 << 10))
            temporary = bytearray(b"x") * (20 << 20)
            nilometer.log({"loss": 1.0}, step=step)
            time.sleep(0.15)
            temporary = None
            time.sleep(0.1)
        (risk,), (report,) = oom.check(), leak.check()
    with open("said.json", "w") as file:
        json.dump({
            "level": risk.risk_level.value, "cause": risk.cause, "seconds": risk.predicted_oom_seconds, "reason": risk.reason,
            "usage": risk.current_usage, "advice": risk.recommendations, "kind": report.kind, "mb_per_minute": report.mb_per_minute,
        }, file)
"""


def test_python_and_the_command_judge_a_leak_alike(nilo, cgroup):
    cgroup.limit(400 * MIB)
    command = ["run", "-q", "--interval", "0.1", "--", sys.executable, "-c", textwrap.dedent(LEAK)]
    ran = nilo(*command, preexec_fn=cgroup.enter, extra_env={"NILO_NVML": ""})
    assert ran.returncode == 0, ran.stderr
    said = json.loads((nilo.folder / "said.json").read_text())
    oom, leak = (json.loads(nilo(verb, "--format", "json").stdout) for verb in ("oom", "leak"))
    (risk,) = [one for one in oom["resources"] if one["name"] == "job memory"]
    (growth,) = [one for one in leak["resources"] if one["name"] == "job memory"]
    assert (said["level"], said["cause"], said["kind"]) == (risk["level"], risk["cause"], growth["kind"])
    assert (risk["level"], risk["cause"], growth["kind"]) == ("critical", "leak", "leak")
    assert said["mb_per_minute"] == pytest.approx(growth["growth_bytes_per_sec"] * 60 / MIB, rel=0.05)
    assert said["seconds"] == pytest.approx(risk["predicted_secs"], rel=0.1)
    assert said["usage"] == pytest.approx(risk["used_percent"], abs=2)
    assert said["advice"] == risk["recommendations"]
    # The same sentence, but for its figures.
    assert re.sub(r"[0-9.]+", "", said["reason"]) == re.sub(r"[0-9.]+", "", risk["reason"])


# A level between the thresholds, then one above both; each is held until the callback and the recorder's alerts have seen it.
LEVELS = """
    import json, os, pathlib, time
    from nilometer.memory import MemoryDebugger
    seen, kept = [], []
    debugger = MemoryDebugger(0.05, 100, 10_000, lambda _: None, devices=["host"])
    debugger.add_alert_callback(seen.append)
    def is_recorded(kind):
        marks = pathlib.Path(os.environ["NILO_RUN_DIR"], "marks.nilo")
        return marks.exists() and kind in marks.read_bytes()
    def hold_until(mib, kind, recorded):
        kept.append(bytearray(b"x") * (mib << 20))
        deadline = time.monotonic() + 60
        while not (any(alert["type"] == kind for alert in seen) and is_recorded(recorded)):
            assert time.monotonic() < deadline, (kind, seen)
            time.sleep(0.05)
    with debugger:
        hold_until(290, "warning_memory", b"memory-warning")
        hold_until(65, "critical_memory", b"memory-critical")
    json.dump(seen, open("said.json", "w"))
"""


def test_python_and_the_recorder_raise_the_same_alerts(nilo, cgroup):
    cgroup.limit(400 * MIB)
    command = ["run", "-q", "--interval", "0.05", "--", sys.executable, "-c", textwrap.dedent(LEVELS)]
    ran = nilo(*command, preexec_fn=cgroup.enter, extra_env={"NILO_NVML": ""})
    assert ran.returncode == 0, ran.stderr
    said = [alert for alert in json.loads((nilo.folder / "said.json").read_text()) if alert["type"] != "oom_risk"]
    alerts = [alert for alert in nilo.show()["alerts"] if alert["kind"] != "oom-risk" and alert["raised"]]
    assert [alert["kind"] for alert in alerts] == ["memory-warning", "memory-critical"], alerts
    assert [alert["type"] for alert in said] == ["warning_memory", "critical_memory"], said
    for ours, theirs in zip(said, alerts):
        assert ours["current_usage"] == pytest.approx(theirs["used_percent"], abs=5)
        # The same sentence, but for what was read.
        figures = re.compile(r"at [0-9.]+ % of its limit \([0-9.]+ MiB")
        assert figures.sub("", ours["message"]) == figures.sub("", theirs["text"])
        assert cgroup.path in ours["limit"]
