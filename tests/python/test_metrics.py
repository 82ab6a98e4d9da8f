"""MetricTracker and TrainingLogger: statistics, honesty about odd values, resumed experiments."""

import json
import math
import shutil
import signal
import textwrap

import numpy
import pytest
from conftest import python
from package import run_program

import nilometer
from nilometer import NilometerError, NilometerWarning
from nilometer.metrics import MetricTracker, TrainingLogger


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NILO_STRICT", "1")
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    yield tmp_path
    nilometer.finish(0)


def test_statistics_are_numpys():
    tracker = MetricTracker()
    values = numpy.random.default_rng(1).normal(3, 2, 1001)
    for step, value in enumerate(values):
        tracker.update("x", value, step)
    for wrong in (0, -1):
        with pytest.raises(NilometerError, match="window"):
            tracker.get_mean("x", window=wrong)
    for window in (None, 1, 10, 5000):
        part = values if window is None else values[-window:]
        assert tracker.get_mean("x", window=window) == pytest.approx(part.mean())
        assert tracker.get_std("x", window=window) == pytest.approx(part.std(), abs=1e-12)
    summary = tracker.get_summary("x")
    for name, share in (("p50", 50), ("p95", 95), ("p99", 99)):
        assert summary[name] == pytest.approx(numpy.percentile(values, share))
    assert tracker.get_values("x", 3) == values[-3:].tolist()
    assert tracker.get_last("x") == values[-1]


def test_odd_values_are_counted_and_do_not_spoil_the_rest():
    tracker = MetricTracker()
    for value in (1.0, math.nan, 3.0, math.inf, -math.inf):
        tracker.update("x", value)
    summary = tracker.get_summary("x")
    assert (summary["count"], summary["nan_count"], summary["inf_count"]) == (5, 1, 2)
    assert (summary["mean"], summary["min"], summary["max"]) == (2.0, 1.0, 3.0)
    tracker.update("only nan", math.nan)
    assert math.isnan(tracker.get_mean("only nan"))


def test_huge_values_do_not_overflow():
    tracker = MetricTracker()
    for value in (1e308, 1e308, -1e308):
        tracker.update("x", value)
    assert tracker.get_mean("x") == pytest.approx(1e308 / 3)
    assert tracker.get_std("x") == pytest.approx(1e308 * (math.sqrt(8) / 3))


def test_an_unknown_metric_is_named():
    tracker = MetricTracker()
    tracker.update("loss", 1.0)
    for ask in (tracker.get_mean, tracker.get_std, tracker.get_summary, tracker.get_values, tracker.get_last):
        with pytest.raises(nilometer.NilometerError, match='no metric is called "lost"'):
            ask("lost")


def test_points_land_in_the_run_with_their_steps():
    tracker = MetricTracker()
    for step in range(5):
        tracker.update("loss", step / 2, step=step)
        tracker.update_batch({"a": 1.0, "nested": {"b": 2.0}}, step=step)
    recorded = nilometer.read_run(nilometer.current_run().path)
    assert recorded.metrics == ["a", "loss", "nested/b"]
    assert recorded.series("loss").step.tolist() == [0, 1, 2, 3, 4]
    assert tracker.names() == recorded.metrics
    assert "loss" in tracker and len(tracker) == 3
    assert set(tracker.get_summary()) == set(recorded.metrics)


def test_wrong_values_are_said_and_the_others_kept(monkeypatch):
    tracker = MetricTracker()
    with pytest.raises(NilometerError, match="loss"):
        tracker.update("loss", "low")
    with pytest.raises(NilometerError, match="dictionary"):
        tracker.update_batch([1, 2])
    monkeypatch.delenv("NILO_STRICT")
    with pytest.warns(NilometerWarning, match="bad"):
        tracker.update_batch({"good": 1.0, "bad": [1]})
    assert tracker.names() == ["good"]
    with pytest.raises(TypeError, match="run"):
        MetricTracker(run="here")


def test_a_tracker_follows_the_current_run(folder):
    tracker = MetricTracker()
    first = nilometer.init(name="first", memory=False)
    tracker.update("x", 1.0)
    first.finish(0)
    second = nilometer.init(name="second", memory=False)
    tracker.update("x", 2.0)
    assert nilometer.read_run(first.path).series("x").value.tolist() == [1.0]
    assert nilometer.read_run(second.path).series("x").value.tolist() == [2.0]
    assert tracker.get_values("x") == [1.0, 2.0]


CRASHING = """
    import os, signal, sys
    from nilometer.metrics import TrainingLogger
    first, last, factor = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    logger = TrainingLogger("logs", "exp", resume=True)
    for step in range(first, last):
        logger.log_step(step, {"loss": step * factor, "eval": {"acc": 0.5}}, scores=[factor, None])
    if sys.argv[4] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    logger.export_all()
"""


def test_a_resumed_experiment_keeps_both_histories(folder):
    run_program(CRASHING, folder, 0, 100, 1.0, "die", expect=-signal.SIGKILL)
    assert not (folder / "logs/exp_metrics.json").exists()
    run_program(CRASHING, folder, 80, 120, 2.0, "live")
    exported = json.loads((folder / "logs/exp_metrics.json").read_text())
    assert exported["steps"]["loss"] == list(range(120))
    expected = [float(step) for step in range(80)] + [2.0 * step for step in range(80, 120)]
    assert exported["raw_metrics"]["loss"] == expected
    assert exported["raw_metrics"]["eval/acc"] == [0.5] * 120
    first, second = exported["attempts"]
    assert (first["first_step"], first["last_step"]) == (0, 99)
    assert (second["first_step"], second["last_step"]) == (80, 119)
    assert first["overwritten"]["loss"] == [[step, float(step)] for step in range(80, 100)]
    assert second["overwritten"] == {}
    assert exported["metric_summaries"]["loss"]["count"] == 120
    # Scores of both attempts, the invalid ones too; of repeated steps those of the newest.
    assert exported["score_distribution"]["total"] == 2 * 120
    assert exported["score_distribution"]["invalid_count"] == 120
    assert exported["score_distribution"]["score_counts"] == {"1.0": 80, "2.0": 40}


def test_epochs_that_count_from_zero_overwrite_nothing_when_they_are_resumed(folder):
    program = """
        import json, sys
        from nilometer.metrics import TrainingLogger
        first, last = map(int, sys.argv[1:])
        logger = TrainingLogger("logs", "exp", resume=True)
        for epoch in range(first, last):
            for step in range(5):
                logger.log_step(step, {"loss": float(10 * epoch + step)}, scores=[float(epoch), None])
        print(json.dumps(logger.export_all()))
    """
    # Steps that go back raise in strict mode.
    run_program(program, folder, 0, 3, NILO_STRICT="")
    resumed = run_program(program, folder, 3, 6, NILO_STRICT="")
    exported = json.loads(resumed.stdout)
    assert exported["raw_metrics"]["loss"] == [float(10 * epoch + step) for epoch in range(6) for step in range(5)]
    assert exported["steps"]["loss"] == 6 * list(range(5))
    assert [attempt["overwritten"] for attempt in exported["attempts"]] == [{}, {}]
    scores = exported["score_distribution"]
    assert (scores["updates"], scores["total"], scores["invalid_count"]) == (30, 60, 30)
    assert scores["drift"]
    assert resumed.stderr.count("every point of each attempt counts") == 1


def test_a_third_attempt_sees_the_two_before(folder):
    for first, last in ((0, 10), (10, 20), (20, 30)):
        run_program(CRASHING, folder, first, last, 1.0, "live")
    exported = json.loads((folder / "logs/exp_metrics.json").read_text())
    assert len(exported["attempts"]) == 3
    assert exported["steps"]["loss"] == list(range(30))


@pytest.mark.parametrize("begin", ["", "nilometer.init('mine', memory=False)", "nilometer.init('mine')"])
@pytest.mark.parametrize("under", ["alone", "nilo run"])
def test_a_resumed_experiment_is_a_resumed_run(nilo, begin, under):
    code = f"""
        import nilometer
        from nilometer.metrics import TrainingLogger
        {begin}
        logger = TrainingLogger("logs", "mine", resume=True)
        logger.log_step(len(logger._earlier), {{"loss": 1.0}})
    """
    for _ in range(3):
        if under == "alone":
            run_program(code, nilo.folder)
        else:
            assert nilo("run", "--", *python(textwrap.dedent(code))).returncode == 0
    mine = [one for one in nilo.runs() if under == "alone" or one["parent"] is not None]
    assert [one["resumes"] for one in mine] == [None, mine[0]["run"], mine[1]["run"]]
    assert nilo.show("mine")["resumes"] == nilo.show("last")["resumes"] == mine[1]["run"]
    head, *_ = nilo("runs").stdout.splitlines()
    assert "RESUMED FROM" in head
    drawn = nilo("plot", "last", "-x", "step", "--metric", "loss", "-o", "curve.svg")
    assert drawn.returncode == 0, drawn.stderr


def test_an_experiment_whose_earlier_run_is_gone_begins_without_it(folder):
    first = TrainingLogger("logs", "exp").run
    first.finish(0)
    shutil.rmtree(first.path)
    second = TrainingLogger("logs", "exp", resume=True).run
    assert second.resumes is None
    second.finish(0)
    third = TrainingLogger("logs", "exp", resume=True).run
    assert third.resumes == second.id == nilometer.read_run(third.path).description["resumes"]


def test_two_experiments_in_one_run_do_not_mix(folder):
    with nilometer.init(memory=False):
        one, two = TrainingLogger("logs", "one"), TrainingLogger("logs", "two")
        one.log_step(0, {"loss": 1.0})
        two.log_step(0, {"loss": 2.0})
        assert one.export_all()["raw_metrics"] == {"loss": [1.0]}
        assert two.export_all()["raw_metrics"] == {"loss": [2.0]}


def test_non_finite_values_do_not_break_the_json(folder):
    logger = TrainingLogger("logs", "exp")
    logger.log_step(0, {"loss": math.nan, "big": math.inf})
    logger.export_all()
    exported = json.loads((folder / "logs/exp_metrics.json").read_text(), parse_constant=pytest.fail)
    assert exported["raw_metrics"] == {"loss": [None], "big": [None]}
    assert exported["metric_summaries"]["loss"]["nan_count"] == 1


def test_a_list_of_attempts_that_is_garbage_is_said(folder, monkeypatch):
    (folder / "logs").mkdir()
    (folder / "logs/exp.attempts.json").write_text("{not json")
    with pytest.raises(NilometerError, match="attempts"):
        TrainingLogger("logs", "exp", resume=True)
    monkeypatch.delenv("NILO_STRICT")
    with pytest.warns(NilometerWarning, match="attempts"):
        logger = TrainingLogger("logs", "exp", resume=True)
    logger.log_step(0, {"loss": 1.0})
    assert logger.export_all()["raw_metrics"] == {"loss": [1.0]}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"log_dir": 3}, "log_dir"),
        ({"experiment_name": ""}, "experiment_name"),
        ({"experiment_name": "../up"}, "experiment_name"),
        ({"experiment_name": 5}, "experiment_name"),
        ({"run": "x"}, "run"),
    ],
)
def test_wrong_arguments_name_the_argument(arguments, word):
    with pytest.raises((TypeError, ValueError), match=word):
        TrainingLogger(**arguments)


def test_checkpoint_names_stay_in_the_folder(folder):
    logger = TrainingLogger("logs", "exp")
    path = logger.save_checkpoint_metrics("../../step 1")
    assert path.parent == folder.joinpath("logs").relative_to(folder)
    assert path.is_file()


def test_a_name_that_is_not_there_yet_does_not_stop_the_loop(monkeypatch):
    tracker = MetricTracker()
    tracker.update("loss", 1.0)
    with pytest.raises(nilometer.NilometerError, match="no metric is called \"eval/loss\""):
        tracker.get_mean("eval/loss")
    monkeypatch.delenv("NILO_STRICT")
    with pytest.warns(nilometer.NilometerWarning, match="no metric is called \"eval/loss\""):
        assert math.isnan(tracker.get_mean("eval/loss"))
    assert math.isnan(tracker.get_std("eval/loss"))
    assert tracker.get_last("eval/loss") is None
    assert tracker.get_values("eval/loss") == []
    assert tracker.get_summary("eval/loss")["count"] == 0


def test_a_window_of_nothing_does_not_stop_the_loop(monkeypatch):
    tracker = MetricTracker()
    tracker.update("loss", 1.0)
    with pytest.raises(nilometer.NilometerError, match="window must be positive, not 0"):
        tracker.get_mean("loss", window=0)
    monkeypatch.delenv("NILO_STRICT")
    with pytest.warns(nilometer.NilometerWarning, match="window must be positive, not -1"):
        assert tracker.get_values("loss", window=-1) == []
    with pytest.warns(nilometer.NilometerWarning, match="window must be positive, not 0"):
        assert math.isnan(tracker.get_mean("loss", window=0))
    assert tracker.get_summary("loss", window=0)["count"] == 0
    assert tracker.get_mean("loss", window=1) == 1.0


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_second_experiment_of_a_name_keeps_the_files_of_the_first(folder):
    program = """
        import sys, warnings
        from nilometer.metrics import TrainingLogger
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            logger = TrainingLogger("logs", "exp")
            for step in range(3):
                logger.log_step(step, {"loss": float(sys.argv[1])})
                # Its own files it replaces.
                logger.export_all()
                logger.save_checkpoint_metrics("best")
        print(len(warned), *[warning.message for warning in warned])
    """
    said = [run_program(program, folder, number).stdout for number in (1, 2, 3)]
    assert said[0].strip() == "0"
    assert said[1].startswith("1 ") and "exp.attempts.1.json" in said[1] and "resume=True" in said[1]
    assert said[2].startswith("1 ") and "exp.attempts.2.json" in said[2]
    logs = folder / "logs"
    stems = ("exp.attempts", "exp_best", "exp_metrics")
    assert files_of(logs) == sorted(f"{stem}{number}.json" for stem in stems for number in ("", ".1", ".2"))
    for name, number in (("exp_metrics.1", 1), ("exp_metrics.2", 2), ("exp_metrics", 3)):
        assert json.loads((logs / f"{name}.json").read_text())["raw_metrics"] == {"loss": [float(number)] * 3}
    for name, number in (("exp_best.1", 1), ("exp_best.2", 2), ("exp_best", 3)):
        assert json.loads((logs / f"{name}.json").read_text())["metric_summaries"]["loss"]["mean"] == number
    runs = [json.loads((logs / f"exp.attempts{number}.json").read_text())["attempts"] for number in (".1", ".2", "")]
    assert [len(attempts) for attempts in runs] == [1, 1, 1] and len({attempts[0]["run"] for attempts in runs}) == 3


def test_two_open_loggers_of_a_name_do_not_replace_each_others_files(folder, monkeypatch):
    monkeypatch.setattr(nilometer._trouble, "_said", set())
    with pytest.warns(NilometerWarning, match="of an earlier experiment"):
        one, two = TrainingLogger("logs", "exp"), TrainingLogger("logs", "exp")
        for step in range(3):
            one.log_step(step, {"loss": 1.0})
            one.export_all()
            two.log_step(step, {"loss": 2.0})
            two.export_all()
    kept = {name: json.loads((folder / "logs" / f"{name}.json").read_text())["raw_metrics"]["loss"] for name in ("exp_metrics", "exp_metrics.1")}
    assert kept == {"exp_metrics": [2.0] * 3, "exp_metrics.1": [1.0] * 3}
    assert files_of(folder / "logs") == ["exp.attempts.1.json", "exp.attempts.json", "exp_metrics.1.json", "exp_metrics.json"]
    one.run.finish(0)
    two.run.finish(0)


def test_a_resumed_experiment_replaces_its_own_export(folder):
    for number in range(2):
        logger = TrainingLogger("logs", "exp", resume=True)
        logger.log_step(number, {"loss": float(number)})
        exported = logger.export_all()
        logger.run.finish(0)
    assert exported["raw_metrics"]["loss"] == [0.0, 1.0]
    assert files_of(folder / "logs") == ["exp.attempts.json", "exp_metrics.json"]
