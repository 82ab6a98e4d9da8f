"""Throughput is of training alone: set-up, evaluation and what else comes between do not count."""

import json
import threading
import time

import pytest
from package import run_program

import nilometer
from nilometer import NilometerWarning
from nilometer.profiling import ComprehensiveProfiler, ThroughputTracker


def test_set_up_is_not_in_the_throughput(run):
    tracker = ThroughputTracker()
    time.sleep(0.5)
    times = []
    for _ in range(21):
        time.sleep(0.002)
        tracker.update(num_samples=4)
        times.append(time.perf_counter())
    truth = 4 * 20 / (times[-1] - times[0])
    assert tracker.get_current_throughput()["samples_per_sec"] == pytest.approx(truth, rel=0.05)
    overall = tracker.get_overall_throughput()
    assert overall["samples_per_sec"] == pytest.approx(truth, rel=0.05)
    assert (overall["total_batches"], overall["total_samples"]) == (21, 84)
    assert overall["elapsed_sec"] == pytest.approx(times[-1] - times[0], rel=0.05)


def test_a_start_counts_the_first_batch_too(run):
    tracker = ThroughputTracker()
    tracker.start()
    began = time.perf_counter()
    time.sleep(0.05)
    tracker.update(num_samples=10)
    truth = 10 / (time.perf_counter() - began)
    assert tracker.get_overall_throughput()["samples_per_sec"] == pytest.approx(truth, rel=0.05)


def test_an_evaluation_is_left_out(run):
    tracker = ThroughputTracker()
    tracker.start()
    in_training = 0.0
    for _ in range(3):
        for _ in range(5):
            began = time.perf_counter()
            time.sleep(0.004)
            tracker.update(num_samples=2)
            in_training += time.perf_counter() - began
        with tracker.paused():
            time.sleep(0.2)
    overall = tracker.get_overall_throughput()
    assert overall["samples_per_sec"] == pytest.approx(30 / in_training, rel=0.05)
    run.finish(0)
    seen = json.loads(nilometer.read_run(run.path)._reader.summary_json())["throughput"]
    assert seen["counted_secs"] == pytest.approx(overall["elapsed_sec"], rel=0.01)
    assert seen["samples"]["mean_per_sec"] == pytest.approx(30 / in_training, rel=0.2)


def test_a_profilers_rates_are_of_its_iterations(run):
    profiler = ComprehensiveProfiler(device="cpu")
    time.sleep(0.3)
    began = time.perf_counter()
    for _ in range(3):
        for _ in range(4):
            profiler.start_iteration()
            time.sleep(0.01)
            profiler.end_iteration(num_samples=8, num_tokens=80)
        ended = time.perf_counter()
        time.sleep(0.3)
    summary = profiler.get_summary()
    mean = summary["timing"]["iteration"]["mean_sec"]
    assert summary["throughput"]["samples_per_sec"] == pytest.approx(8 / mean, rel=0.1)
    assert summary["throughput"]["tokens_per_sec"] == pytest.approx(80 / mean, rel=0.1)
    # Two evaluations lie between iterations; set-up, and what comes after the last one, do not.
    assert summary["throughput"]["outside_sec"] == pytest.approx(ended - began - 12 * mean, rel=0.05)
    run.finish(0)
    seen = json.loads(nilometer.read_run(run.path)._reader.summary_json())["throughput"]
    assert seen["samples"]["mean_per_sec"] == pytest.approx(8 / mean, rel=0.2)


def test_a_line_every_n_batches_is_printed_and_tells_of_n_batches(tmp_path):
    code = """
        import nilometer
        tracker = nilometer.ThroughputTracker(window_size=3, total_batches=40, log_every=10)
        for _ in range(40):
            tracker.update(num_samples=2)
    """
    lines = run_program(code, tmp_path).stderr.splitlines()
    assert [line.split(",")[0] for line in lines] == ["batch 10", "batch 20", "batch 30", "batch 40"]
    # Nobody said when the first batch began.
    assert [line.split(",")[1].split(" in ")[0] for line in lines] == [" last 9", " last 10", " last 10", " last 10"]
    assert lines[-1].endswith("0:00 left")


def test_a_line_goes_to_the_log_where_there_is_one(tmp_path):
    code = """
        import logging, nilometer
        logging.basicConfig(level=logging.INFO, format="LOG %(message)s")
        tracker = nilometer.ThroughputTracker(log_every=5)
        for _ in range(10):
            tracker.update()
    """
    lines = run_program(code, tmp_path).stderr.splitlines()
    assert [line.split(",")[0] for line in lines] == ["LOG batch 5", "LOG batch 10"]


def seen_of(run):
    run.finish(0)
    return json.loads(nilometer.read_run(run.path)._reader.summary_json())["throughput"]


def test_trackers_that_count_at_the_same_time_add_up(run):
    often, seldom, alike = ThroughputTracker(), ThroughputTracker(), ThroughputTracker()
    for batch in range(10):
        often.update(num_samples=8)
        alike.update(num_samples=8)
        if batch % 2:
            seldom.update(num_samples=100)
    seen = seen_of(run)
    assert (seen["batches"]["total"], seen["samples"]["total"]) == (25, 660)


def test_trackers_of_threads_add_up(run):
    def count():
        tracker = ThroughputTracker()
        for _ in range(10):
            both.wait()
            tracker.update(num_samples=1, num_tokens=5)

    both = threading.Barrier(2, timeout=60)
    threads = [threading.Thread(target=count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = seen_of(run)
    assert (seen["batches"]["total"], seen["tokens"]["total"]) == (20, 100)


def test_trackers_after_each_other_and_starts_add_up(run):
    # The second and third count no less than the one before: no total falls.
    for samples in (8, 8, 100):
        tracker = ThroughputTracker()
        tracker.update(num_samples=samples)
        tracker.start()
        tracker.update(num_samples=samples)
    seen = seen_of(run)
    assert (seen["batches"]["total"], seen["samples"]["total"]) == (6, 232)


def test_a_tracker_counts_in_each_run_what_was_done_there(tmp_path, monkeypatch):
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    tracker = ThroughputTracker()
    for batches in (3, 2):
        run = nilometer.init(dir=tmp_path, memory=False)
        for _ in range(batches):
            tracker.update(num_samples=4)
        assert seen_of(run)["samples"]["total"] == 4 * batches
    assert tracker.get_overall_throughput()["total_samples"] == 20


def test_more_trackers_than_tables_lose_nothing(run):
    for _ in range(1100):
        ThroughputTracker().update(num_samples=2)
    assert seen_of(run)["samples"]["total"] == 2200


@pytest.mark.parametrize("is_begun", [True, False])
def test_the_command_and_the_tracker_have_one_mean(nilo, run, is_begun):
    """The first batch is in the mean where it is known when it began, and where it is not, `nilo show` says so."""
    tracker = ThroughputTracker(run=run)
    if is_begun:
        tracker.start()
    for _ in range(5):
        time.sleep(0.01)
        tracker.update(num_samples=8)
    said = tracker.get_overall_throughput()
    run.finish(0)
    seen = nilometer.read_run(run.path).summary()["throughput"]["samples"]
    assert (seen["total"], seen["timed"]) == (40, 40 if is_begun else 32)
    assert seen["mean_per_sec"] == pytest.approx(said["samples_per_sec"], rel=0.01)
    assert ("MEAN excludes the first batch" in nilo("show", run.path).stdout) is not is_begun


def test_a_profilers_step_ends_with_it(run, tmp_path):
    for end in (ComprehensiveProfiler.stop, lambda it: it.__exit__(), lambda it: it.export_to_json(tmp_path / "results.json")):
        profiler = ComprehensiveProfiler(device="cpu", run=run)
        for step in (100, 101):
            profiler.start_iteration(step)
            profiler.end_iteration()
            run.log({"within": 1.0})
        end(profiler)
        run.log({"after": 1.0})
        run.log({"after": 2.0})
    # A step that somebody else has set since is theirs.
    profiler.start_iteration(7)
    profiler.end_iteration()
    run.set_step(500)
    profiler.stop()
    run.log({"theirs": 1.0})
    run.finish(0)
    recorded = nilometer.read_run(run.path)
    assert recorded.series("within").step.tolist() == [100, 101] * 3
    assert recorded.series("after").step.tolist() == [102, 103] * 3
    assert recorded.series("theirs").step.tolist() == [500]


def test_an_iteration_after_an_export_goes_on(run, tmp_path):
    profiler = ComprehensiveProfiler(device="cpu", run=run)
    with profiler:
        for epoch in range(2):
            for _ in range(2):
                profiler.start_iteration()
                run.log({"loss": 1.0})
                profiler.end_iteration()
            profiler.export_to_json(tmp_path / f"epoch{epoch}.json")
    run.finish(0)
    assert nilometer.read_run(run.path).series("loss").step.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1])
@pytest.mark.parametrize("argument", ["num_samples", "num_tokens"])
def test_a_count_that_is_none_is_refused_and_spoils_nothing(nilo, run, monkeypatch, wrong, argument):
    monkeypatch.delenv("NILO_STRICT", raising=False)
    monkeypatch.setattr("nilometer._trouble._said", set())
    tracker = ThroughputTracker(run=run)
    tracker.update(8, 16)
    with pytest.warns(NilometerWarning, match="must be finite and not negative; the batch is not counted") as said:
        tracker.update(**{argument: wrong})
        tracker.update(**{argument: wrong})
    assert len(said) == 1
    tracker.update(8, 16)
    told = tracker.get_overall_throughput()
    assert (told["total_batches"], told["total_samples"], told["total_tokens"]) == (2, 16.0, 32.0)
    run.finish(0)
    shown = nilo.show(run.path)["throughput"]
    assert (shown["samples"]["total"], shown["tokens"]["total"]) == (16, 32)
