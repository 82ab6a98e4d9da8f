"""Memory watched from inside the program, with real allocations and a real limit."""

import json
import logging
import mmap
import threading
import time

import pytest
from conftest import MIB, wait_until
from package import run_program

import nilometer
from nilometer.memory import LeakDetector, MemoryDebugger, MemoryProfiler, OOMDetector, RiskLevel


def test_a_profile_sees_an_allocation_and_its_end():
    profiler = MemoryProfiler(sampling_interval=0.01, devices=["host"])
    with profiler:
        wait_until(profiler.samples, "a sample")
        before = profiler.samples()[-1][1]
        block = bytearray(100 * MIB)
        taken = len(profiler.samples())
        wait_until(lambda: len(profiler.samples()) > taken + 1, "samples of the allocation")
        during = profiler.samples()[-1][1]
        del block
    assert during - before == pytest.approx(100 * MIB, abs=5 * MIB)
    seconds = [second for second, _ in profiler.samples()]
    assert seconds == sorted(seconds)
    statistics = profiler.generate_report()["devices"]["host"]["statistics"]
    assert statistics["peak_allocated"] >= during
    assert statistics["samples_count"] == len(seconds)


def test_a_profile_counts_children_too(tmp_path):
    code = """
        import json, multiprocessing, time
        from nilometer.memory import MemoryProfiler
        def child(ready, done):
            block = bytearray(60 << 20)
            ready.set(); done.wait()
        ready, done = multiprocessing.Event(), multiprocessing.Event()
        profiler = MemoryProfiler(0.01)
        before = profiler.read()[0].allocated
        process = multiprocessing.Process(target=child, args=(ready, done)); process.start(); ready.wait()
        time.sleep(0.1)
        print(profiler.read()[0].allocated - before)
        done.set(); process.join()
    """
    grown = int(run_program(code, tmp_path).stdout)
    assert 55 * MIB < grown < 100 * MIB


def test_decorator_and_context_manager_forms():
    profiler = MemoryProfiler(sampling_interval=0.005)

    @profiler
    def work():
        assert profiler.is_monitoring
        time.sleep(0.03)
        return 7

    assert work() == 7
    assert not profiler.is_monitoring
    first = profiler.generate_report()["devices"]["host"]["statistics"]["samples_count"]
    with MemoryDebugger() as debugger:
        assert debugger.profiler.is_monitoring
    assert not debugger.profiler.is_monitoring
    work()
    assert profiler.generate_report()["devices"]["host"]["statistics"]["samples_count"] > first


def test_starting_twice_and_stopping_twice_are_harmless():
    profiler = MemoryProfiler(0.01)
    profiler.stop_monitoring()
    profiler.start_monitoring()
    threads = threading.active_count()
    profiler.start_monitoring()
    assert threading.active_count() == threads
    profiler.stop_monitoring()
    profiler.stop_monitoring()
    assert threading.active_count() == threads - 1


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: MemoryProfiler(sampling_interval=0), "sampling_interval"),
        (lambda: MemoryProfiler(sampling_interval="fast"), "sampling_interval"),
        (lambda: MemoryProfiler(devices="0"), "devices"),
        (lambda: MemoryProfiler(devices=["gpu"]), "devices"),
        (lambda: OOMDetector(threshold=0), "threshold"),
        (lambda: OOMDetector(threshold=101), "threshold"),
        (lambda: OOMDetector(threshold="high"), "threshold"),
        (lambda: OOMDetector(warning_callback=3), "warning_callback"),
        (lambda: LeakDetector(threshold_mb=-1), "threshold_mb"),
        (lambda: LeakDetector(leak_callback="f"), "leak_callback"),
        (lambda: LeakDetector(warm_up_secs=-1), "warm_up_secs"),
    ],
)
def test_wrong_arguments_raise_at_once_and_name_the_argument(make, word):
    with pytest.raises((TypeError, ValueError), match=word):
        make()


# In a cgroup of 200 MiB the level rises past the thresholds, one by one.
RISING = """
    import json, sys, time
    from nilometer.memory import OOMDetector
    seen = []
    detector = OOMDetector(threshold=60.0, warning_callback=lambda p: seen.append((p.risk_level.value, p.current_usage, p.limit_source)), sampling_interval=0.02)
    detector.start_monitoring()
    blocks = []
    for _ in range(16):
        blocks.append(bytearray(10 << 20)); time.sleep(0.06)
    time.sleep(0.2)
    levels = [p.risk_level.value for p in detector.check()]
    detector.stop_monitoring()
    print(json.dumps({"seen": seen, "levels": levels, "warnings": len(detector.warnings)}))
"""


def test_warnings_come_once_for_each_level_and_name_the_limit(tmp_path, cgroup):
    import subprocess
    import sys
    import textwrap

    cgroup.limit(200 * MIB)
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(RISING)],
        capture_output=True, text=True, preexec_fn=cgroup.enter, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [level for level, _, _ in found["seen"]] == ["high"]
    level, usage, source = found["seen"][0]
    assert 60 <= usage < 75
    assert cgroup.path in source
    assert found["levels"] == ["high"]


def test_without_a_callback_the_warning_is_logged(caplog):
    detector = OOMDetector(threshold=1e-6, sampling_interval=0.01)
    with caplog.at_level(logging.WARNING, "nilometer.oom"):
        with detector:
            wait_until(lambda: caplog.records, "a warning")
    assert "[WARNING] OOM Warning: host memory" in caplog.text
    assert "Risk Level: high" in caplog.text


def test_a_callback_that_raises_or_blocks_disturbs_nothing(caplog):
    release, returned = threading.Event(), threading.Event()

    def bad(prediction):
        release.wait(120)
        returned.set()
        raise ValueError("callback went wrong")

    detector = OOMDetector(threshold=1e-6, warning_callback=bad, sampling_interval=0.01)
    with caplog.at_level(logging.WARNING, "nilometer.memory"):
        detector.start_monitoring()
        wait_until(lambda: detector.warnings, "a warning")
        detector.stop_monitoring()
        assert not returned.is_set(), "stopping waited for the callback"
        release.set()
        wait_until(lambda: "callback went wrong" in caplog.text, "the callback's error in the log")


def test_levels_are_ordered():
    assert [level.rank for level in RiskLevel] == [0, 1, 2, 3]
    assert [level.value for level in RiskLevel] == ["low", "moderate", "high", "critical"]


def test_growth_beyond_the_baseline_is_found_and_its_absence_too():
    detector = LeakDetector(threshold_mb=20)
    detector.set_baseline()
    assert not detector.check()[0].is_leak
    # Mapped by hand: what the allocator gives back when it is freed depends on what the process did before.
    kept = mmap.mmap(-1, 40 * MIB)
    kept.write(b"x" * (40 * MIB))
    found = detector.check()[0]
    assert found.is_leak and found.growth_mb == pytest.approx(40, abs=5)
    assert "grew beyond its baseline" in str(found)
    kept.close()
    assert not detector.check()[0].is_leak


def test_python_objects_that_multiply_are_named():
    class Hoarded:
        pass

    detector = LeakDetector(count_objects=True)
    detector.set_baseline()
    kept = [Hoarded() for _ in range(5000)]
    growth = detector.check()[0].object_growth
    name = Hoarded.__qualname__
    assert growth[name] == len(kept)


def test_the_leak_thread_calls_back_once():
    found = []
    detector = LeakDetector(threshold_mb=10, leak_callback=found.append, sampling_interval=0.02)
    detector.set_baseline()
    with detector:
        time.sleep(0.1)
        kept = bytearray(40 * MIB)
        wait_until(lambda: found, "a leak")
        time.sleep(0.1)
    assert len(found) == 1 and found[0].growth_bytes > 10 * MIB and kept


def test_loading_a_model_calls_no_leak_callback():
    found, looks = [], []

    class Counted(LeakDetector):
        def on_reading(self, readings, seconds):
            super().on_reading(readings, seconds)
            looks.append(readings[0].allocated)

    def looks_after(loaded):
        """So that there was time to tell of what was loaded."""
        wait_until(lambda: sum(level > before + loaded for level in looks) > 5, "looks")

    detector = Counted(threshold_mb=10, leak_callback=found.append, sampling_interval=0.02, devices=["host"])
    with detector:
        wait_until(lambda: looks, "a look")
        before = looks[0]
        model = bytearray(b"x") * (40 * MIB)
        looks_after(30 * MIB)
        assert not found and not detector.leaks
        (report,) = detector.check()
        assert report.growth_bytes > 30 * MIB and not report.is_leak
        # Beyond a baseline that somebody chose it is a leak.
        detector.set_baseline()
        kept = bytearray(b"x") * (40 * MIB)
        wait_until(lambda: found, "a leak")
    assert [report.is_leak for report in found] == [True] and model and kept


def test_after_a_fork_the_child_is_not_monitored_and_can_start_its_own(tmp_path):
    code = """
        import os, time
        from nilometer.memory import MemoryProfiler
        profiler = MemoryProfiler(0.01)
        profiler.start_monitoring()
        pid = os.fork()
        if pid == 0:
            assert not profiler.is_monitoring
            profiler.stop_monitoring()
            own = MemoryProfiler(0.01)
            with own:
                time.sleep(0.05)
            assert own.generate_report()["devices"]["host"]["statistics"]["samples_count"] > 1
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert profiler.is_monitoring
        profiler.stop_monitoring()
    """
    run_program(code, tmp_path)


def test_the_peak_is_the_kernels(tmp_path):
    code = """
        import nilometer
        bytearray(150 << 20)
        print(nilometer.peak_rss())
    """
    assert 150 * MIB < int(run_program(code, tmp_path).stdout) < 250 * MIB
    # Not inherited from a larger program that started this one, as ru_maxrss is.
    assert nilometer.peak_rss() > 0


def test_the_peak_is_not_inherited_across_exec(tmp_path):
    code = """
        import os, sys
        block = bytearray(300 << 20)
        os.execv(sys.executable, [sys.executable, "-c", "import nilometer, resource; print(nilometer.peak_rss(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"])
    """
    ours, inherited = map(int, run_program(code, tmp_path).stdout.split())
    assert inherited > 300 * MIB > 100 * MIB > ours
