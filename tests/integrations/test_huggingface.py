"""The callback in a real Trainer: what the run holds is what the Trainer itself reports."""

import numpy
import pytest
from conftest import paused_secs
from tiny import Sentences, language_model
from transformers import Trainer, TrainerCallback, TrainingArguments

import nilometer
from nilometer.integrations.huggingface import NiloCallback

# The Trainer adds these to its history, not to what it logs.
NOT_LOGGED = {"step"}


def arguments(folder, **more):
    usual = {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_train_epochs": 2,
        "logging_steps": 1,
        "learning_rate": 1e-2,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 5,
    }
    return TrainingArguments(output_dir=str(folder), **(usual | more))


def trainer(folder, callback, **more):
    return Trainer(
        language_model(),
        arguments(folder, **more),
        train_dataset=Sentences(16),
        eval_dataset=Sentences(8),
        callbacks=[callback],
    )


def check_history(run, history, name_of):
    """Every number of the Trainer's history is in the run, under its name and step, in order; and nothing else is."""
    expected = {}
    for entry in history:
        for name, value in entry.items():
            if name not in NOT_LOGGED:
                expected.setdefault(name_of(name), []).append((entry["step"], value))
    assert run.metrics == sorted(expected)
    for name, points in expected.items():
        series = run.series(name)
        assert list(zip(series.step.tolist(), series.value.tolist())) == points, name


def slash(name):
    for part in ("eval_", "test_"):
        if name.startswith(part):
            return part[:-1] + "/" + name.removeprefix(part)
    return "train/" + name


def test_the_run_holds_the_trainers_own_history(tmp_path, recorded):
    training = trainer(tmp_path / "out", NiloCallback(), eval_strategy="epoch", run_name="tiny")
    training.train()
    run = recorded()
    check_history(run, training.state.log_history, slash)
    assert len(run.series("train/loss").value) == 4
    assert run.description["name"] == "tiny"


def test_names_can_stay_as_they_are(tmp_path, recorded):
    training = trainer(tmp_path / "out", NiloCallback(prefix=False), eval_strategy="epoch")
    training.train()
    check_history(recorded(), training.state.log_history, str)


def test_phases_marks_and_throughput_come_along(tmp_path, recorded):
    callback = NiloCallback()
    training = trainer(
        tmp_path / "out",
        callback,
        eval_strategy="epoch",
        save_strategy="epoch",
        include_num_input_tokens_seen=True,
    )
    training.train()
    run = recorded()
    assert run.phases == ["data", "evaluate", "save", "step", "step/optimizer"]
    for name in ("data", "step", "step/optimizer"):
        assert run.phase(name).step.tolist() == [1, 2, 3, 4], name
    assert (run.phase("step").value > run.phase("step/optimizer").value).all()
    # The Trainer rounds its own figure to four places.
    reported = [entry["eval_runtime"] for entry in training.state.log_history if "eval_runtime" in entry]
    assert run.phase("evaluate").value.tolist() == pytest.approx(reported)
    assert len(run.phase("save").value) == 2
    assert [text for _, text in run.marks] == ["epoch 1", "checkpoint 2", "epoch 2", "checkpoint 4"]
    assert run.throughput("samples").value.tolist() == [8, 16, 24, 32]
    batches = run.summary()["throughput"]["batches"]
    assert batches["total"] == batches["timed"] == 4, "the first step is in the mean, too"
    assert run.throughput("tokens").value.tolist() == [64, 128, 192, 256]
    assert run.throughput("tokens").value[-1] == training.state.num_input_tokens_seen
    # The first of two evaluations lies between steps.
    assert paused_secs(run) == pytest.approx(reported[0], rel=0.01)


def test_settings_of_training_and_model_are_stored(tmp_path, recorded):
    training = trainer(tmp_path / "out", NiloCallback())
    training.train()
    config = recorded().config
    assert config["learning_rate"] == 0.01
    assert config["model/n_embd"] == 32
    assert config["model/num_parameters"] == training.model.num_parameters()


def test_training_is_bit_for_bit_the_same(tmp_path):
    losses = []
    for callbacks in ([], [NiloCallback()]):
        training = Trainer(
            language_model(), arguments(tmp_path / "out"), train_dataset=Sentences(16), callbacks=callbacks
        )
        training.train()
        losses.append([entry["loss"] for entry in training.state.log_history if "loss" in entry])
    assert losses[0] == losses[1]


def test_evaluation_and_prediction_alone_are_recorded(tmp_path, recorded):
    training = trainer(tmp_path / "out", NiloCallback())
    metrics = training.evaluate()
    predicted = training.predict(Sentences(4)).metrics
    run = recorded()
    assert run.series("eval/loss").value.tolist() == [metrics["eval_loss"]]
    assert run.series("test/loss").value.tolist() == [predicted["test_loss"]]


def test_a_resumed_training_goes_on_where_it_was_in_a_run_of_its_own(tmp_path, recorded):
    callback = NiloCallback()
    trainer(tmp_path / "out", callback, save_strategy="epoch").train()
    before = callback.run.path
    training = trainer(tmp_path / "out", NiloCallback())
    training.train(resume_from_checkpoint=str(tmp_path / "out/checkpoint-2"))
    first, second = nilometer.read_run(before).series("train/loss"), recorded().series("train/loss")
    assert (first.step.tolist(), second.step.tolist()) == ([1, 2, 3, 4], [3, 4])
    assert numpy.allclose(first.value[2:], second.value, rtol=1e-4)


def test_an_exception_in_training_leaves_a_callback_that_still_works(tmp_path, recorded):
    class Stop(TrainerCallback):
        is_on = True

        def on_substep_end(self, *_, **__):
            if self.is_on:
                raise ZeroDivisionError

    stop, callback = Stop(), NiloCallback()
    training = trainer(tmp_path / "out", callback)
    training.add_callback(stop)
    with pytest.raises(ZeroDivisionError):
        training.train()
    stop.is_on = False
    training.train()
    assert recorded().phase("step").step.tolist() == [1, 2, 3, 4]


def test_trouble_does_not_stop_the_training(tmp_path, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    callback = NiloCallback()
    training = trainer(tmp_path / "out", callback)
    monkeypatch.setattr(callback, "_name", None)
    with pytest.warns(nilometer.NilometerWarning, match="NiloCallback.on_log: TypeError"):
        training.train()
    assert training.state.global_step == 4


def test_other_processes_add_no_metrics(tmp_path, recorded):
    """The state of a second process, as the Trainer shows it to callbacks."""
    callback = NiloCallback()
    training = trainer(tmp_path / "out", callback)
    training.state.is_world_process_zero = False
    callback.on_train_begin(training.args, training.state, training.control)
    assert callback.run is None
    run = nilometer.init()
    callback.on_train_begin(training.args, training.state, training.control)
    callback.on_step_begin(training.args, training.state, training.control)
    callback.on_step_end(training.args, training.state, training.control)
    callback.on_log(training.args, training.state, training.control, logs={"loss": 1.0})
    assert callback.run is run
    read = recorded()
    assert read.metrics == []
    assert "step" in read.phases


def test_a_run_can_be_given(tmp_path):
    # Not the current one.
    run = nilometer.run.begin("given")
    training = trainer(tmp_path / "out", NiloCallback(run))
    training.train()
    run.finish()
    assert len(nilometer.read_run(run.path).series("train/loss").value) == 4


def test_without_transformers_the_import_says_what_to_install(without):
    result = without("nilometer.integrations.huggingface", "transformers")
    assert "needs Transformers: pip install transformers" in result.stderr
