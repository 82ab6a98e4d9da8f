"""Verifier scores: the tracker's example as documented, and figures worked by hand or taken from scipy."""

import json
import math
import random

import numpy
import pytest
from scipy import stats

import nilometer
from nilometer.metrics import ScoreDistributionTracker


@pytest.fixture(autouse=True)
def store_nothing(monkeypatch):
    monkeypatch.setenv("NILO_MODE", "disabled")
    monkeypatch.delenv("NILO_STRICT", raising=False)
    nilometer.finish()
    yield
    nilometer.finish()


def test_the_documented_example():
    score_tracker = ScoreDistributionTracker()

    # Batch of verification scores
    scores = [1.0, 0.5, None, 1.0, 0.0]  # None = invalid
    score_tracker.update(scores)

    dist = score_tracker.get_distribution()
    promised = {
        'total': 5,
        'valid_count': 4,
        'invalid_count': 1,
        'invalid_rate': 0.2,
        'score_counts': {'0.0': 1, '0.5': 1, '1.0': 2},
        'mean_score': 0.625
    }
    assert {key: dist[key] for key in promised} == promised
    assert list(dist["score_counts"]) == ["0.0", "0.5", "1.0"]
    assert dist["std_score"] == pytest.approx(math.sqrt(0.6875 / 3), abs=1e-15)
    json.dumps(dist)


def test_counts_go_on_over_updates_and_sort_by_value():
    tracker = ScoreDistributionTracker()
    tracker.update([10, -1, 2.5])
    tracker.update([2.5, float("nan"), float("inf"), -0.0, 1e16])
    dist = tracker.get_distribution()
    assert dist["score_counts"] == {"-1.0": 1, "0.0": 1, "2.5": 2, "10.0": 1, "1e+16": 1}
    assert list(dist["score_counts"]) == ["-1.0", "0.0", "2.5", "10.0", "1e+16"]
    assert dist["invalid_count"] == 2 and dist["infinite_count"] == 1


def test_many_different_scores_are_counted_in_bins():
    tracker = ScoreDistributionTracker(exact_values=100, bins=10)
    tracker.update([index / 1000 for index in range(1000)])
    dist = tracker.get_distribution()
    assert dist["score_counts"] == {}
    bins = dist["score_bins"]
    assert sum(bins["counts"]) + bins["below"] + bins["above"] == dist["valid_count"] == 1000
    assert dist["mean_score"] == pytest.approx(0.4995)
    assert (dist["min_score"], dist["max_score"]) == (0.0, 0.999)


def test_latencies_by_verifier_and_timeouts():
    tracker = ScoreDistributionTracker()
    tracker.update([1.0, 0.0], latencies={"lean": [0.5, 1.5], "judge": 2.0}, timeouts=1)
    tracker.update([1.0, None], latencies=[3.0], timeouts=[False, True])
    dist = tracker.get_distribution()
    assert dist["latency"]["lean"]["p50"] == 1.0
    assert dist["latency"]["lean"]["p99"] == pytest.approx(1.49)
    assert dist["latency"]["judge"]["count"] == 1
    assert dist["latency"]["verifier"]["max"] == 3.0
    assert dist["timeout_count"] == 2 and dist["timeout_rate"] == 0.5


def test_drift_compares_the_last_updates_with_the_first():
    tracker = ScoreDistributionTracker(drift_updates=2)
    tracker.update([0.0, 0.0])
    tracker.update([0.0, 1.0])
    assert tracker.get_distribution()["drift"] is None
    tracker.update([0.0, 1.0])
    tracker.update([1.0, 1.0, None])
    drift = tracker.get_distribution()["drift"]
    assert drift["ks"] == 0.5
    # Half a count is added to each of the two bins: 3.5/5 and 1.5/5 turned round.
    assert drift["psi"] == pytest.approx(2 * 0.4 * math.log(3.5 / 1.5))
    assert drift["reference_invalid_rate"] == 0.0 and drift["current_invalid_rate"] == 0.2


def test_drift_is_that_of_scipy():
    generator = random.Random(3)
    before = [generator.gauss(0, 1) for _ in range(200)]
    after = [generator.gauss(0.5, 1) for _ in range(150)]
    tracker = ScoreDistributionTracker(drift_updates=1)
    tracker.update(before)
    tracker.update(after)
    drift = tracker.get_distribution()["drift"]
    assert drift["ks"] == pytest.approx(stats.ks_2samp(before, after).statistic, abs=1e-12)
    assert drift["ks"] > drift["ks_critical"]


def test_arrays_and_single_scores_are_scores():
    tracker = ScoreDistributionTracker()
    tracker.update(numpy.array([[1.0, 0.5], [float("nan"), 1.0]], dtype="float32"))
    tracker.update(0.5)
    assert tracker.get_distribution()["score_counts"] == {"0.5": 2, "1.0": 2}


def test_with_a_step_the_batch_lands_in_the_run(monkeypatch, tmp_path):
    monkeypatch.delenv("NILO_MODE")
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    run = nilometer.init(dir=tmp_path, memory=False)
    tracker = ScoreDistributionTracker(run)
    tracker.update([0.25, 0.75, None, 0.5], step=3, timeouts=1)
    tracker.update([1.0])
    run.finish()
    recorded = nilometer.read_run(run.path)
    assert recorded.series("scores/mean").step.tolist() == [3]
    assert recorded.series("scores/mean").value.tolist() == [0.5]
    assert recorded.series("scores/invalid_rate").value.tolist() == [0.25]
    assert recorded.series("scores/timeout_rate").value.tolist() == [0.25]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"scores": "1.0"}, "scores is a string"),
        ({"scores": [1.0, {}]}, r"scores\[1\] is a dictionary"),
        ({"scores": [1.0], "timeouts": -1}, "timeouts"),
        ({"scores": [1.0], "latencies": {"lean": ["slow"]}}, r"latencies\['lean'\]\[0\] is a string"),
    ],
)
def test_bad_scores_warn_at_the_users_line_and_are_not_counted(arguments, words, monkeypatch):
    tracker = ScoreDistributionTracker()
    nilometer._trouble._said.clear()
    with pytest.warns(nilometer.NilometerWarning, match=words) as caught:
        tracker.update(**arguments)
    assert caught[0].filename == __file__
    assert tracker.get_distribution()["total"] == 0
    monkeypatch.setenv("NILO_STRICT", "1")
    with pytest.raises(nilometer.NilometerError, match=words):
        tracker.update(**arguments)


@pytest.mark.parametrize("name", ["exact_values", "bins", "drift_updates"])
def test_wrong_settings_raise_at_once_and_name_the_argument(name):
    with pytest.raises(TypeError, match=name):
        ScoreDistributionTracker(**{name: "10"})
    with pytest.raises(ValueError, match=name):
        ScoreDistributionTracker(**{name: 0})
    with pytest.raises(TypeError, match="run"):
        ScoreDistributionTracker("run")


def test_nothing_seen_has_no_rate():
    dist = ScoreDistributionTracker().get_distribution()
    assert dist["total"] == 0 and dist["invalid_rate"] is None and dist["mean_score"] is None


def test_reset_forgets():
    tracker = ScoreDistributionTracker(drift_updates=1)
    tracker.update([1.0])
    tracker.reset()
    assert tracker.get_distribution()["updates"] == 0
