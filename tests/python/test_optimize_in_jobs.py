"""Optimization in a program that `nilo run` records, that has a run of its own, or that nobody records."""

import json
import sys
import textwrap

import pytest
from package import run_program

import nilometer

OPTIMIZED = """
    import threading, nilometer
    from nilometer.optimize import GarbageCollector
    from nilometer.optimize.in_run import tell_optimization
    with GarbageCollector() as collector:
        thread = threading.Thread(target=collector.emergency)
        thread.start()
        thread.join()
        for _ in range(20):
            collector.step()
        collector.boundary()
        tell_optimization("made up", applied=True, before_bytes=2.0, after_bytes=1.0)
"""


def test_a_recorded_program_tells_its_job_without_init(nilo):
    done = nilo("run", "--name", "job", "--", sys.executable, "-c", textwrap.dedent(OPTIMIZED))
    assert done.returncode == 0, done.stderr
    folder = nilo.run_folder()
    read = nilometer.read_run(folder)
    assert not (folder / "runs").exists(), "the job itself is the run"
    assert [text for _, text in read.marks if text.startswith("emergency cleanup")]
    assert len(read.series("gc/collections").value) >= 1
    assert [one["name"] for one in read.summary()["optimizations"]] == ["made up"]
    told = json.loads(nilo("optimize", "job", "--format", "json").stdout)
    [missing] = [one["missing_facts"] for one in told["not_looked_at"] if one["subject"] == "garbage collection"]
    assert missing == ["host.leak_bytes_per_second"], "what the collector measured was told"


def test_steps_that_the_system_is_told_of_are_steps_of_the_job(nilo):
    code = """
    import time
    from nilometer.optimize import MemoryOptimizationConfig, MemoryOptimizationSystem
    config = MemoryOptimizationConfig(enable_memory_profiling=False, enable_object_counting=False)
    with MemoryOptimizationSystem(config) as optimizer:
        began = time.monotonic()
        while optimizer.steps < 200 or time.monotonic() < began + 2.5:
            time.sleep(0.005)
            optimizer.step(samples=4)
    """
    done = nilo("run", "--name", "job", "--", sys.executable, "-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    read = nilometer.read_run(nilo.run_folder())
    rates = read.series("training/steps_per_second")
    assert rates.step[-1] > rates.step[0] and len(rates.value) >= 2
    assert read.series("training/samples_per_second").value[-1] == pytest.approx(4 * rates.value[-1])


def test_what_comes_before_init_goes_to_the_job_and_what_comes_after_to_the_run(nilo):
    code = OPTIMIZED + """
    run = nilometer.init(name="inner")
    marked = threading.Thread(target=lambda: GarbageCollector().emergency())
    marked.start()
    marked.join()
    nilometer.finish()
    GarbageCollector().emergency()
    assert nilometer._open_runs.all_open() == []
    """
    done = nilo("run", "--name", "job", "--", sys.executable, "-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    [inner] = [path.parent for path in nilo.run_folder().glob("runs/*/run.json")]
    assert len([text for _, text in nilometer.read_run(inner).marks if text.startswith("emergency")]) == 1


def test_a_program_that_nobody_records_makes_no_run(nilo):
    run_program(OPTIMIZED, nilo.folder)
    assert not (nilo.folder / ".nilo").exists()
