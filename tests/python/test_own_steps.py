"""Steps that nobody gives: each metric of each tracker counts its own, and a call of `log` is one step."""

import asyncio
import os
import threading

import nilometer
import pytest
from nilometer import NilometerWarning
from nilometer.integrations._recorder import StepRecorder
from nilometer.metrics import GRPOMetricsTracker, MetricTracker
from nilometer.profiling import ComprehensiveProfiler


def steps(run, name, **group):
    return nilometer.read_run(run.path).series(name, **group).step.tolist()


def test_each_metric_counts_its_own_updates(run):
    tracker = MetricTracker()
    for index in range(5):
        tracker.update("loss", 1.0 - index / 10)
        tracker.update("reward", index)
        if index % 2 == 0:
            tracker.update("kl", index)
    assert steps(run, "loss") == steps(run, "reward") == [0, 1, 2, 3, 4]
    assert steps(run, "kl") == [0, 1, 2]
    assert tracker.get_values("kl") == [0.0, 2.0, 4.0]


def test_neither_log_nor_another_tracker_moves_it(run):
    one, other = MetricTracker(), MetricTracker()
    for _ in range(3):
        one.update("loss", 1.0)
        other.update("loss", 2.0)
        run.log({"x": 0.0}, step=49)
        other.update("late", 1.0, step=700)
    one.update("loss", 1.0)
    assert steps(run, "loss") == [0, 1, 2, 3]
    assert steps(run, "tracker-2/loss") == [0, 1, 2]
    assert steps(run, "x") == [49, 49, 49]
    run.log({"x": 0.0})
    assert steps(run, "x")[-1] == 50


def test_a_batch_of_metrics_that_have_come_different_ways_loses_none(run):
    tracker = MetricTracker()
    tracker.update("a", 0.0)
    for value in (1.0, 2.0, 3.0):
        tracker.update_batch({"a": value, "b": 10 * value, "nested": {"c": value}})
    recorded = nilometer.read_run(run.path)
    found = {name: (recorded.series(name).step.tolist(), recorded.series(name).value.tolist()) for name in recorded.metrics}
    assert found == {
        "a": ([0, 1, 2, 3], [0.0, 1.0, 2.0, 3.0]),
        "b": ([0, 1, 2], [10.0, 20.0, 30.0]),
        "nested/c": ([0, 1, 2], [1.0, 2.0, 3.0]),
    }
    assert tracker.get_values("a") == [0.0, 1.0, 2.0, 3.0]


def test_a_step_that_is_given_is_counted_on_from(run):
    tracker = MetricTracker()
    tracker.update("loss", 1.0)
    tracker.update("loss", 1.0, step=10)
    tracker.update("loss", 1.0)
    tracker.update("other", 1.0)
    assert steps(run, "loss") == [0, 10, 11]
    assert steps(run, "other") == [0]


def test_a_reset_forgets_values_and_counts_on(run):
    tracker = MetricTracker()
    for _ in range(2):
        tracker.update("loss", 1.0)
        tracker.update("loss", 2.0)
        tracker.reset()
        assert "loss" not in tracker and tracker.names() == [] and len(tracker) == 0
    assert steps(run, "loss") == [0, 1, 2, 3]


def test_an_update_without_a_usable_value_is_one_all_the_same(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    tracker = MetricTracker()
    for value in (1.0, "broken", 3.0):
        if value == "broken":
            with pytest.warns(NilometerWarning, match="loss"):
                tracker.update("loss", value)
        else:
            tracker.update("loss", value)
    assert steps(run, "loss") == [0, 2]


def test_another_run_begins_with_step_zero(run):
    tracker = MetricTracker()
    for _ in range(3):
        tracker.update("loss", 1.0)
    run.finish(0)
    second = nilometer.init("second", memory=False)
    tracker.update("loss", 1.0)
    tracker.update("loss", 1.0)
    second.finish(0)
    assert steps(run, "loss") == [0, 1, 2]
    assert steps(second, "loss") == [0, 1]


def test_names_that_stand_for_each_other_share_their_steps(run):
    tracker = GRPOMetricsTracker()
    for value in range(3):
        tracker.update("kl_divergence", value)
        tracker.update_group_rewards([[1.0, 0.0], [0.0, 0.0]])
    assert steps(run, "kl_divergence") == steps(run, "kl") == [0, 1, 2]
    assert steps(run, "groups/frac_reward_zero_std") == [0, 1, 2]


def test_the_step_that_training_is_said_to_be_at_counts_for_all(run):
    tracker, profiler = MetricTracker(), ComprehensiveProfiler(run=run)
    for step in (7, 8):
        profiler.start_iteration(step)
        tracker.update("loss", 1.0)
        tracker.update("twice", 1.0)
        tracker.update("twice", 1.0)
        run.log({"x": 1.0})
        profiler.end_iteration()
    assert steps(run, "loss") == steps(run, "x") == [7, 8]
    assert steps(run, "twice") == [7, 7, 8, 8]


def test_after_a_framework_has_trained_the_program_counts_by_itself_again(run):
    recorder, tracker = StepRecorder(run), MetricTracker()
    run.set_step(7)
    run.log({"loss": 1.0}, step=7)
    recorder.end()
    for _ in range(3):
        tracker.update("reward", 1.0)
        run.log({"loss": 1.0})
    assert steps(run, "reward") == [0, 1, 2]
    assert steps(run, "loss") == [7, 8, 9, 10]


def test_threads_and_tasks_that_share_a_tracker_take_each_step_once(run):
    tracker = MetricTracker()

    def log():
        for _ in range(500):
            tracker.update_batch({"loss": 1.0, "reward": 2.0})

    threads = [threading.Thread(target=log) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def task():
        for _ in range(10):
            tracker.update("loss", 1.0)
            await asyncio.sleep(0)

    async def tasks():
        await asyncio.gather(*(task() for _ in range(20)))

    asyncio.run(tasks())
    assert sorted(steps(run, "loss")) == list(range(2200))
    assert sorted(steps(run, "reward")) == list(range(2000))


def test_a_forked_worker_counts_on_and_the_parent_is_not_moved(run):
    tracker = MetricTracker()
    tracker.update("loss", 1.0)
    worker = os.fork()
    if worker == 0:
        tracker.update("loss", 2.0)
        tracker.update("loss", 2.0)
        os._exit(0)
    assert os.waitpid(worker, 0)[1] == 0
    tracker.update("loss", 3.0)
    series = nilometer.read_run(run.path).series("loss")
    assert sorted(zip(series.value.tolist(), series.step.tolist())) == [(1.0, 0), (2.0, 1), (2.0, 2), (3.0, 1)]
