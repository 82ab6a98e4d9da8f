"""Timers, throughput and the profilers: nesting, troubles, and what lands in the run."""

import json
import logging
import math
import time

import pytest

import nilometer
from nilometer import NilometerError, NilometerWarning
from nilometer.profiling import ComprehensiveProfiler, GPUMemoryProfiler, ThroughputTracker, TrainingTimer, repeat


def test_phases_nest_and_land_in_the_run_with_the_step(run):
    timer = TrainingTimer()
    for step in range(3):
        run.set_step(step)
        with timer.phase("step"):
            with timer.phase("forward"):
                time.sleep(0.002)
            timer.start("backward")
            timer.start("reduce")
            timer.stop()
            timer.stop("backward")
    recorded = nilometer.read_run(run.path)
    assert recorded.phases == ["step", "step/backward", "step/backward/reduce", "step/forward"]
    forward = recorded.phase("step/forward")
    assert forward.step.tolist() == [0, 1, 2]
    assert (forward.value >= 0.002).all()
    assert timer.get_summary()["step/forward"]["total_sec"] == pytest.approx(float(forward.value.sum()))


def test_a_timers_figures_are_those_of_its_values(run):
    timer = TrainingTimer()
    seconds = []
    for wait in (0.001, 0.003, 0.002):
        timer.start("work")
        time.sleep(wait)
        seconds.append(timer.stop("work"))
    summary = timer.get_summary()["work"]
    assert summary["count"] == 3
    assert summary["mean_sec"] == pytest.approx(sum(seconds) / 3)
    assert summary["p50_sec"] == sorted(seconds)[1]
    assert (summary["min_sec"], summary["max_sec"]) == (min(seconds), max(seconds))
    timer.reset()
    assert timer.get_summary() == {}


def test_a_phase_is_timed_when_its_block_raises(run):
    timer = TrainingTimer()
    with pytest.raises(KeyError):
        with timer.phase("work"):
            raise KeyError("x")
    assert timer.get_summary()["work"]["count"] == 1


@pytest.mark.parametrize(
    ("misuse", "word"),
    [
        (lambda timer: timer.stop("never"), "never"),
        (lambda timer: timer.stop(), "no phase is open"),
        (lambda timer: (timer.start("a"), timer.start("a")), "already running"),
        (lambda timer: (timer.start("a"), timer.start("b"), timer.stop("a")), "b was still open"),
        (lambda timer: timer.start(""), "its name is empty"),
        (lambda timer: timer.add("", 1.0), "its name is empty"),
    ],
)
def test_misuse_of_a_timer_is_said_and_survived(run, monkeypatch, misuse, word):
    with pytest.raises(NilometerError, match=word):
        misuse(TrainingTimer())
    monkeypatch.delenv("NILO_STRICT")
    timer = TrainingTimer()
    with pytest.warns(NilometerWarning, match=word):
        misuse(timer)
    timer.start("still works")
    assert timer.stop("still works") >= 0


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, -math.inf, 1e300])
def test_what_is_no_duration_is_left_out_everywhere(run, monkeypatch, seconds):
    timer = TrainingTimer()
    timer.add("a", 0.5)
    for cause in (lambda: timer.add("a", seconds), lambda: run.phase("a", seconds), lambda: run.phase("", 1.0)):
        with pytest.raises(NilometerError, match='phase "a?": .*; it is left out'):
            cause()
    monkeypatch.delenv("NILO_STRICT")
    monkeypatch.setattr(nilometer._trouble, "_said", set())
    with pytest.warns(NilometerWarning) as said:
        for _ in range(3):
            timer.add("a", seconds)
    assert len(said) == 1
    run.finish()
    told = timer.get_summary()["a"]
    assert (told["count"], told["total_sec"]) == (1, 0.5)
    assert nilometer.read_run(run.path).phase("a").value.tolist() == [0.5]


def test_a_block_without_a_name_is_said_once(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    monkeypatch.setattr(nilometer._trouble, "_said", set())
    with pytest.warns(NilometerWarning) as said:
        with TrainingTimer().phase(""):
            pass
    assert len(said) == 1


def test_starts_without_stops_come_to_an_end(run):
    timer = TrainingTimer()
    with pytest.raises(NilometerError, match="64 phases are open"):
        for number in range(100):
            timer.start(f"deep {number}")


@pytest.mark.parametrize("device", [True, "gpu", 1.5, "cuda:x"])
def test_a_wrong_device_raises_at_once(device):
    for kind in (TrainingTimer, GPUMemoryProfiler, ComprehensiveProfiler):
        with pytest.raises((TypeError, ValueError), match="device"):
            kind(device=device)


def test_a_run_has_a_timer_of_its_own(run):
    with run.phase("data"):
        pass
    run.phase("imported", 1.5)
    recorded = nilometer.read_run(run.path)
    assert recorded.phase("imported").value.tolist() == [1.5]
    assert len(recorded.phase("data").value) == 1


def test_throughput_counts_what_it_is_told_and_knows_the_end(run):
    tracker = ThroughputTracker(window_size=2, total_samples=100)
    assert tracker.get_eta() is None
    for _ in range(5):
        time.sleep(0.002)
        tracker.update(num_samples=4, num_tokens=8)
    overall = tracker.get_overall_throughput()
    assert (overall["total_batches"], overall["total_samples"], overall["total_tokens"]) == (5, 20, 40)
    current = tracker.get_current_throughput()
    assert current["samples_per_sec"] == pytest.approx(4 * current["batches_per_sec"])
    assert tracker.get_eta() == pytest.approx(80 / current["samples_per_sec"])
    tracker.update(num_samples=80)
    assert tracker.get_eta() == 0.0
    totals = nilometer.read_run(run.path).throughput("tokens").value.tolist()
    assert totals == [8, 16, 24, 32, 40, 40]


def test_the_current_window_forgets_what_is_older(run):
    tracker = ThroughputTracker(window_size=3)
    tracker.start()
    time.sleep(0.3)
    for _ in range(4):
        time.sleep(0.001)
        tracker.update(1)
    # The slow start is outside the window of the last three batches.
    assert tracker.get_current_throughput()["samples_per_sec"] > 2 * tracker.get_overall_throughput()["samples_per_sec"]


def test_the_line_every_n_batches_goes_to_the_log(run, caplog):
    tracker = ThroughputTracker(log_every=2)
    with caplog.at_level(logging.INFO, "nilometer.throughput"):
        for _ in range(4):
            tracker.update(1)
    assert [record.message.split(",")[0] for record in caplog.records] == ["batch 2", "batch 4"]


def test_a_log_function_that_raises_does_not_stop_the_training(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    tracker = ThroughputTracker(log_every=1, log=lambda line: 1 / 0)
    with pytest.warns(NilometerWarning, match="division"):
        tracker.update(1)
    assert tracker.get_overall_throughput()["total_batches"] == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"window_size": 0}, "window_size"),
        ({"window_size": "ten"}, "window_size"),
        ({"total_samples": -1}, "total_samples"),
        ({"log_every": 0}, "log_every"),
        ({"log_every": 1.5}, "log_every"),
        ({"run": 3}, "run"),
    ],
)
def test_wrong_arguments_name_the_argument(arguments, word):
    with pytest.raises((TypeError, ValueError), match=word):
        ThroughputTracker(**arguments)


def test_a_batch_that_is_no_number_is_said(run, monkeypatch):
    tracker = ThroughputTracker()
    with pytest.raises(NilometerError, match="num_tokens"):
        tracker.update(1, "many")
    monkeypatch.delenv("NILO_STRICT")
    with pytest.warns(NilometerWarning, match="num_samples"):
        tracker.update(None)
    assert tracker.get_overall_throughput()["total_batches"] == 0


def test_iterations_carry_their_step_and_nest_their_phases(run, tmp_path):
    profiler = ComprehensiveProfiler(device="cpu")
    for step in (10, 11):
        profiler.start_iteration(step)
        with profiler.timer.phase("forward"):
            pass
        profiler.end_iteration(num_samples=2)
    recorded = nilometer.read_run(run.path)
    assert recorded.phase("iteration/forward").step.tolist() == [10, 11]
    assert recorded.throughput("samples").step.tolist() == [10, 11]
    summary = profiler.export_to_json(tmp_path / "deep" / "er" / "p.json")
    assert json.loads((tmp_path / "deep" / "er" / "p.json").read_text()) == summary
    assert summary["memory"]["kind"] == "host" and summary["memory"]["peak_allocated_gb"] > 0.005


def test_iterations_out_of_order_are_said(run, monkeypatch):
    profiler = ComprehensiveProfiler(device="cpu")
    with pytest.raises(NilometerError, match="no iteration"):
        profiler.end_iteration()
    profiler.start_iteration()
    with pytest.raises(NilometerError, match="not ended"):
        profiler.start_iteration()
    monkeypatch.delenv("NILO_STRICT")
    profiler = ComprehensiveProfiler(device="cpu")
    profiler.start_iteration()
    with pytest.warns(NilometerWarning, match="not ended"):
        profiler.start_iteration()
    profiler.end_iteration()
    assert profiler.iterations == 1


def test_an_export_that_cannot_be_written_leaves_what_was_there(run, tmp_path):
    profiler = ComprehensiveProfiler(device="cpu")
    with pytest.raises(OSError):
        profiler.export_to_json("/proc/nowhere/p.json")
    target = tmp_path / "p.json"
    target.write_text("before")
    profiler.timer.get_summary = None  # the export fails half-way
    with pytest.raises(TypeError):
        profiler.export_to_json(target)
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".p")] == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [({"repeat": 0}, "repeat"), ({"number": 0}, "number"), ({"number": 1.5}, "number"), ({"seconds": 0}, "seconds")],
)
def test_repeat_refuses_what_makes_no_sense(arguments, word):
    with pytest.raises((TypeError, ValueError), match=word):
        repeat(lambda: None, **arguments)
    with pytest.raises(ValueError, match="stmt"):
        repeat(3)


def test_repeat_finds_a_number_by_itself():
    timing = repeat(lambda: None, repeat=2, seconds=0.01)
    assert timing.number > 100
