"""`NILO_STRICT=1` turns every trouble of the training loop into an exception; without it each is one warning."""

import warnings

import pytest

import nilometer
from nilometer import NilometerError, NilometerWarning
from nilometer.metrics import MetricTracker


def log_after_finish(run):
    nilometer.log({"a": 1.0}, step=0)
    nilometer.finish()
    nilometer.log({"a": 2.0}, step=1)


def steps_back(run):
    for step in (5, 4, 3):
        run.log({"a": 1.0}, step=step)


TROUBLES = {
    "none": (lambda run: [run.log({"b": None}) for _ in range(2)], 'log: "b" is None'),
    "none beside a number": (lambda run: run.log({"a": 1.0, "b": None}, step=0), 'log: "b" is None'),
    "none in a tracker": (lambda run: [MetricTracker(run, group="g").update("b", None) for _ in range(2)], '"b" is None'),
    "none in a tracker with a step": (lambda run: MetricTracker(run).update("b", None, step=3), '"b" is None'),
    "a step back": (steps_back, "the step went back from 5 to 4"),
    "after the end": (log_after_finish, "logging after finish"),
    "a run after its end": (lambda run: (run.finish(), run.log({"a": 1.0})), "the run is finished"),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_strict_raises_what_is_otherwise_one_warning(run, monkeypatch, trouble):
    cause, words = TROUBLES[trouble]
    monkeypatch.setattr(nilometer._trouble, "_said", set())
    with pytest.raises(NilometerError, match=words):
        cause(run)
    nilometer.finish()
    monkeypatch.delenv("NILO_STRICT")
    again = nilometer.init(memory=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cause(again)
    nilometer.finish()
    assert [warning.category for warning in said] == [NilometerWarning]
    assert words in str(said[0].message)


def test_a_tracker_counts_no_step_for_none(run, monkeypatch):
    monkeypatch.delenv("NILO_STRICT")
    tracker = MetricTracker(run)
    with pytest.warns(NilometerWarning, match="None"):
        for value in (1.0, None, 2.0):
            tracker.update("a", value)
    assert tracker.get_summary("a")["count"] == 2
    run.finish()
    assert nilometer.read_run(run.path).series("a").step.tolist() == [0, 1]
