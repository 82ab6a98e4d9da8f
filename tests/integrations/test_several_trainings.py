"""Several trainings in one program: each is a run of its own."""

import lightning.pytorch as pl
import pytest
from test_huggingface import trainer
from test_lightning import Model, data
from transformers import TrainerCallback

import nilometer
from nilometer.integrations import lightning
from nilometer.integrations._find_run import run_of_training
from nilometer.integrations.huggingface import NiloCallback
from nilometer.integrations.lightning import NiloLogger


def all_runs(folder):
    """Every run by its name, those inside others too."""
    top = sorted(path for path in folder.iterdir() if path.is_dir())
    runs = [nilometer.read_run(path) for path in top]
    runs += [inner for run in runs for inner in run.runs]
    return {run.description.get("name"): run for run in runs}


def train_three(tmp_path, steps=(2, 3, 4), callback=NiloCallback):
    losses = {}
    for count in steps:
        training = trainer(tmp_path / f"out-{count}", callback(), max_steps=count, run_name=f"hf-{count}", learning_rate=count / 100)
        training.train()
        losses[f"hf-{count}"] = [entry["loss"] for entry in training.state.log_history if "loss" in entry]
    return losses


def check_three(runs, losses):
    for name, expected in losses.items():
        run = runs[name]
        assert run.series("train/loss").value.tolist() == expected
        assert run.config["learning_rate"] == len(expected) / 100
        assert run.phase("step").step.tolist() == list(range(1, len(expected) + 1))


def test_three_trainers_are_three_runs(tmp_path):
    losses = train_three(tmp_path)
    nilometer.finish()
    runs = all_runs(tmp_path / "runs")
    assert sorted(runs) == sorted(losses)
    check_three(runs, losses)


def test_three_trainers_below_a_job_are_three_runs_inside_it(tmp_path, monkeypatch):
    job = nilometer.run.begin("job")
    monkeypatch.setenv("NILO_RUN_DIR", str(job.path))
    losses = train_three(tmp_path)
    nilometer.finish()
    job.finish(0)
    recorded = nilometer.read_run(job.path)
    assert [run.description["name"] for run in recorded.runs] == list(losses)
    check_three(all_runs(tmp_path / "runs"), losses)
    assert recorded.metrics == []


def test_the_first_trainer_takes_the_run_of_the_program_and_the_second_does_not(tmp_path):
    own = nilometer.init(name="mine")
    losses = train_three(tmp_path, (2, 3))
    own.log({"after": 1.0})
    own.finish(0)
    runs = all_runs(tmp_path / "runs")
    assert sorted(runs) == ["hf-3", "mine"]
    assert runs["mine"].series("train/loss").value.tolist() == losses["hf-2"]
    assert runs["hf-3"].series("train/loss").value.tolist() == losses["hf-3"]


def test_a_training_after_a_late_evaluation_of_another_is_the_current_run(tmp_path):
    first, second, third = [trainer(tmp_path / name, NiloCallback(), run_name=name, max_steps=2) for name in ("a", "b", "c")]
    first.train()
    second.train()
    first.evaluate()
    third.train()
    nilometer.log({"mine": 1.0})
    nilometer.finish()
    assert "mine" in all_runs(tmp_path / "runs")["c"].metrics


def check_continued(folder):
    """Runs "a" and "b", and the late evaluation in one that continues the first."""
    runs = [nilometer.read_run(path) for path in sorted(folder.iterdir()) if path.is_dir()]
    assert sorted(run.description["name"] for run in runs) == ["a", "a", "b"]
    (late,) = [run for run in runs if "resumes" in run.description]
    (trained,) = [run for run in runs if run.path.name == late.description["resumes"]]
    assert (trained.description["name"], late.description["name"]) == ("a", "a")
    return trained, late


@pytest.mark.filterwarnings("error::nilometer.NilometerWarning")
def test_an_evaluation_after_another_training_continues_its_own(tmp_path):
    first, second = [trainer(tmp_path / name, NiloCallback(), run_name=name, max_steps=2) for name in ("a", "b")]
    first.train()
    second.train()
    first.evaluate()
    first.evaluate()
    nilometer.finish()
    trained, late = check_continued(tmp_path / "runs")
    assert "train/loss" in trained.metrics and "train/loss" not in late.metrics
    assert len(late.series("eval/loss").value) == 2


@pytest.mark.filterwarnings("error::nilometer.NilometerWarning")
def test_a_test_after_another_fit_continues_its_own(tmp_path):
    model, trainers = Model(), []
    for name in ("a", "b"):
        trainers.append(pl.Trainer(
            default_root_dir=tmp_path, accelerator="cpu", max_epochs=1, log_every_n_steps=1, logger=NiloLogger(name),
            enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        ))
        trainers[-1].fit(model, data())
    trainers[0].test(model, data(12), verbose=False)
    nilometer.finish()
    trained, late = check_continued(tmp_path / "runs")
    assert "train/loss" in trained.metrics and late.metrics == ["epoch", "test/loss"]


def test_one_callback_in_two_trainers_is_two_runs(tmp_path):
    callback = NiloCallback()
    losses = train_three(tmp_path, (2, 3), lambda: callback)
    nilometer.finish()
    runs = all_runs(tmp_path / "runs")
    assert sorted(runs) == sorted(losses)
    check_three(runs, losses)


def test_one_callback_takes_the_run_of_the_program_once(tmp_path):
    own, callback = nilometer.init(name="mine"), NiloCallback()
    losses = train_three(tmp_path, (2, 3), lambda: callback)
    assert callback.run is not own
    own.finish(0)
    runs = all_runs(tmp_path / "runs")
    assert runs["mine"].series("train/loss").value.tolist() == losses["hf-2"]
    assert runs["hf-3"].series("train/loss").value.tolist() == losses["hf-3"]


@pytest.mark.filterwarnings("error::nilometer.NilometerWarning")
def test_a_trainer_that_trains_again_has_a_further_run_and_evaluates_into_it(tmp_path):
    callback = NiloCallback()
    training = trainer(tmp_path / "out", callback, max_steps=2)
    paths = []
    for _ in range(2):
        training.train()
        training.evaluate()
        paths.append(callback.run.path)
    nilometer.finish()
    assert paths[0] != paths[1]
    for path in paths:
        run = nilometer.read_run(path)
        assert run.series("train/loss").step.tolist() == [1, 2]
        assert len(run.series("eval/loss").value) == 1 and run.summary()["exit_code"] == 0


def test_a_training_after_one_that_failed_is_a_run_of_its_own(tmp_path):
    class Fail(TrainerCallback):
        def on_step_end(self, *_, **__):
            raise RuntimeError("too large")

    callback, fail = NiloCallback(), Fail()
    training = trainer(tmp_path / "out", callback, max_steps=2)
    training.add_callback(fail)
    with pytest.raises(RuntimeError, match="too large"):
        training.train()
    failed = callback.run
    training.remove_callback(fail)
    training.train()
    assert failed.finished and callback.run is not failed
    assert nilometer.read_run(callback.run.path).series("train/loss").step.tolist() == [1, 2]


def test_trainings_of_a_run_that_is_given_all_add_to_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    run = nilometer.init(name="mine")
    training = trainer(tmp_path / "out", NiloCallback(run), max_steps=2)
    with pytest.warns(nilometer.NilometerWarning, match="step went back"):
        training.train()
        training.train()
    assert nilometer.read_run(run.path).series("train/loss").step.tolist() == [1, 2, 1, 2]


def test_a_new_callback_is_not_taken_for_one_that_is_gone(tmp_path):
    class Training:
        pass

    run = run_of_training(Training(), None, "first")
    # One that lies where the first was has the same id.
    others = [Training() for _ in range(100)]
    assert all(run_of_training(other, None, "next") is not run for other in others)


def test_each_fit_of_one_callback_without_a_logger_is_a_run(tmp_path):
    callback, paths = lightning.NiloCallback(), []
    for _ in range(2):
        fitting = pl.Trainer(
            default_root_dir=tmp_path,
            accelerator="cpu",
            max_epochs=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            logger=False,
            callbacks=[callback],
        )
        fitting.fit(Model(), data())
        paths.append(nilometer.current_run().path)
    nilometer.finish()
    assert paths[0] != paths[1]
    for path in paths:
        assert nilometer.read_run(path).phase("forward").step.tolist() == [0, 1, 2, 3]


def test_two_loggers_side_by_side_are_two_runs(tmp_path):
    loggers = [NiloLogger("left"), NiloLogger("right")]
    for logger, value in zip(loggers, (1.0, 2.0)):
        logger.log_metrics({"loss": value}, step=0)
        logger.log_hyperparams({"value": value})
    for logger, value in zip(loggers, (3.0, 4.0)):
        logger.log_metrics({"loss": value}, step=1)
    nilometer._end_of_runs.end_all(None, None)
    runs = all_runs(tmp_path / "runs")
    assert runs["left"].series("loss").value.tolist() == [1.0, 3.0]
    assert runs["right"].series("loss").value.tolist() == [2.0, 4.0]
    assert runs["right"].config == {"value": 2.0}


def test_the_runs_of_all_loggers_end_before_the_next_training(tmp_path):
    def fit(*names):
        fitting = pl.Trainer(
            default_root_dir=tmp_path,
            accelerator="cpu",
            max_epochs=1,
            log_every_n_steps=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            logger=[NiloLogger(name) for name in names],
        )
        fitting.fit(Model(), data())

    fit("left", "right")
    fit("next", "final")
    # The program goes on: only the first training is over for good.
    folder = tmp_path / "runs"
    top = {nilometer.read_run(path).description["name"]: nilometer.read_run(path) for path in folder.iterdir() if path.is_dir()}
    assert sorted(top) == ["final", "left", "next", "right"], "none lies inside another"
    assert {name for name, run in top.items() if "ending" in run.description} == {"left", "right"}
    nilometer._end_of_runs.end_all(None, 0)
    for run in all_runs(folder).values():
        summary = run.summary()
        assert summary["exit_code"] == 0 and summary["memory"]["peak_bytes"] > 0
        assert len(run.series("train/loss").value) == 4


def test_a_logger_beside_the_programs_own_run_ends_before_the_next_training(tmp_path):
    own = nilometer.init(name="mine")
    first, second = NiloLogger("first"), NiloLogger("second")
    first.log_metrics({"loss": 1.0}, step=0)
    first.finalize("success")
    run = first.experiment
    second.log_metrics({"loss": 2.0}, step=0)
    assert run.finished and not own.finished and not second.experiment.finished
    assert [inner.description["name"] for inner in nilometer.read_run(own.path).runs] == ["first", "second"]
    nilometer._end_of_runs.end_all(None, 0)


def test_two_fits_with_a_logger_each_are_two_runs(tmp_path):
    for name, epochs in (("short", 1), ("long", 2)):
        fitting = pl.Trainer(
            default_root_dir=tmp_path,
            accelerator="cpu",
            max_epochs=epochs,
            log_every_n_steps=1,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            logger=NiloLogger(name),
        )
        fitting.fit(Model(), data(), data(12))
    nilometer.finish()
    runs = all_runs(tmp_path / "runs")
    assert len(runs["short"].series("train/loss").value) == 4
    assert len(runs["long"].series("train/loss").value) == 8
