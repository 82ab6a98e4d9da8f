"""Logger and callback in a real Lightning Trainer."""

import lightning.pytorch as pl
import pytest
import torch
from conftest import paused_secs
from torch.utils.data import DataLoader, TensorDataset

import nilometer
from nilometer.integrations.lightning import NiloCallback, NiloLogger


class Model(pl.LightningModule):
    def __init__(self, width=3, rate=0.05):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(width, 1)
        self.seen = []

    def training_step(self, batch, index):
        loss = self.layer(batch[0]).sub(batch[1]).square().mean()
        self.log("train/loss", loss, on_step=True, on_epoch=False)
        self.seen.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        self.log("eval/loss", self.layer(batch[0]).sub(batch[1]).square().mean())

    def test_step(self, batch, index):
        self.log("test/loss", self.layer(batch[0]).sub(batch[1]).square().mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)


def data(rows=24):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(rows, 3, generator=generator)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=6)


def fit(folder, model=None, logger=True, callbacks=True, **more):
    trainer = pl.Trainer(
        default_root_dir=folder,
        accelerator="cpu",
        max_epochs=2,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        **{"enable_checkpointing": False} | more,
        logger=NiloLogger("tiny") if logger else False,
        callbacks=[NiloCallback()] if callbacks else [],
    )
    model = model or Model()
    trainer.fit(model, data(), data(12))
    return trainer, model


def test_logged_metrics_are_in_the_run_with_lightnings_step(tmp_path, recorded):
    trainer, model = fit(tmp_path)
    expected = {name: float(value) for name, value in trainer.callback_metrics.items()}
    tested = trainer.test(model, data(12), verbose=False)[0]
    run = recorded()
    loss = run.series("train/loss")
    assert loss.step.tolist() == list(range(8))
    assert loss.value.tolist() == pytest.approx(model.seen)
    assert run.series("eval/loss").value[-1] == expected["eval/loss"]
    assert run.series("eval/loss").step.tolist() == [3, 7]
    assert run.series("test/loss").value.tolist() == [tested["test/loss"]]
    assert run.series("epoch").value[-1] == 2
    assert run.config["rate"] == 0.05
    assert run.description["name"] == "tiny"


def test_phases_throughput_and_epochs_are_in_the_run(tmp_path, recorded):
    fit(tmp_path)
    run = recorded()
    assert run.phases == ["backward", "data", "evaluate", "forward", "optimizer"]
    for name in ("data", "forward", "backward", "optimizer"):
        assert run.phase(name).step.tolist() == list(range(8)), name
    assert len(run.phase("evaluate").value) == 2
    assert run.throughput("samples").value.tolist() == [6 * count for count in range(1, 9)]
    # The first of two evaluations lies between steps; the clock stands still a little longer than it takes.
    assert paused_secs(run) >= run.phase("evaluate").value[0]
    assert [text for _, text in run.marks] == ["epoch 1", "epoch 2"]


def test_gradient_accumulation_has_the_step_of_its_metrics(tmp_path, recorded):
    fit(tmp_path, accumulate_grad_batches=2)
    run = recorded()
    assert run.phase("forward").step.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert run.phase("optimizer").step.tolist() == [0, 1, 2, 3]
    assert len(run.phase("backward").value) == 8
    # A batch of the throughput is a step, with everything that was accumulated for it.
    assert run.throughput("batches").value.tolist() == [1, 2, 3, 4]
    assert run.throughput("samples").value.tolist() == [12, 24, 36, 48]


def test_checkpoints_are_marks_and_lie_where_the_run_says(tmp_path, recorded):
    trainer, _ = fit(tmp_path, enable_checkpointing=True)
    marks = [text for _, text in recorded().marks]
    assert marks == ["epoch 1", "checkpoint 4", "epoch 2", "checkpoint 8"]
    assert "/tiny/" in trainer.checkpoint_callback.best_model_path


def test_logger_and_callback_work_alone(tmp_path, recorded):
    fit(tmp_path, callbacks=False)
    assert recorded().phases == []
    fit(tmp_path, logger=False)
    run = recorded()
    assert run.metrics == []
    assert len(run.phase("forward").value) == 8


def test_weights_are_bit_for_bit_those_of_a_bare_trainer(tmp_path):
    results = []
    for is_on in (False, True):
        torch.manual_seed(4)
        _, model = fit(tmp_path, logger=is_on, callbacks=is_on)
        results.append(model.layer.weight.detach().clone())
    assert torch.equal(*results)


def test_manual_optimization_is_timed_too(tmp_path, recorded):
    class Manual(Model):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, index):
            optimizer = self.optimizers()
            loss = self.layer(batch[0]).sub(batch[1]).square().mean()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()

    fit(tmp_path, Manual())
    run = recorded()
    for name in ("forward", "backward", "optimizer"):
        assert len(run.phase(name).value) == 8, name


def test_an_exception_in_training_takes_the_hooks_away(tmp_path):
    class Failing(Model):
        def training_step(self, batch, index):
            raise ZeroDivisionError

    callback = NiloCallback()
    trainer = pl.Trainer(
        default_root_dir=tmp_path, accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, callbacks=[callback],
    )
    with pytest.raises(ZeroDivisionError):
        trainer.fit(Failing(), data())
    assert callback._hooks == []


def test_trouble_does_not_stop_the_training(tmp_path, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    monkeypatch.setattr(nilometer.Run, "log", lambda *_: 1 / 0)
    with pytest.warns(nilometer.NilometerWarning, match="NiloLogger.log_metrics: ZeroDivisionError"):
        trainer, _ = fit(tmp_path)
    assert trainer.global_step == 8


def test_pytorch_lightning_is_taken_where_lightning_is_missing(without):
    import subprocess
    import sys

    from conftest import subprocess_environment

    code = (
        "import sys; sys.modules['lightning'] = None; import nilometer.integrations.lightning as ours; "
        "import pytorch_lightning; print(issubclass(ours.NiloLogger, pytorch_lightning.loggers.Logger))"
    )
    done = subprocess.run([sys.executable, "-c", code], env=subprocess_environment(), capture_output=True, text=True)
    assert done.stdout.strip() == "True", done.stderr
    result = without("nilometer.integrations.lightning", "lightning", "pytorch_lightning")
    assert "needs PyTorch Lightning: pip install lightning" in result.stderr


def trainings(folder):
    """The runs of a folder and those inside them, by name and age."""
    paths = sorted(folder.glob("**/run.json"), key=lambda path: path.parent.name)
    return [nilometer.read_run(path.parent) for path in paths]


def quick_trainer(folder, logger, **more):
    return pl.Trainer(
        default_root_dir=folder, accelerator="cpu", max_epochs=1, log_every_n_steps=1, logger=logger, callbacks=[NiloCallback()],
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False, **more,
    )


def test_each_of_two_loggers_has_metrics_phases_and_marks(tmp_path):
    quick_trainer(tmp_path, [NiloLogger("first"), NiloLogger("second")]).fit(Model(), data())
    nilometer.finish()
    first, second = trainings(tmp_path / "runs")
    for run, name in ((first, "first"), (second, "second")):
        assert run.description["name"] == name
        assert run.series("train/loss").step.tolist() == [0, 1, 2, 3]
        for phase in ("data", "forward", "backward", "optimizer"):
            assert run.phase(phase).step.tolist() == [0, 1, 2, 3], (name, phase)
        assert run.throughput("samples").value.tolist() == [6, 12, 18, 24]
        assert [text for _, text in run.marks] == ["epoch 1"]


def test_each_fit_is_a_run_of_its_own_also_with_the_same_logger(tmp_path):
    for _ in range(2):
        quick_trainer(tmp_path, NiloLogger("tiny")).fit(Model(), data())
    logger, ids = NiloLogger("kept"), []
    for _ in range(2):
        trainer, model = quick_trainer(tmp_path, logger), Model()
        trainer.validate(model, data(12), verbose=False)
        ids.append(logger.version)
        trainer.fit(model, data())
        # What the program logs and tests between two trainings is of the first.
        logger.experiment.log({"mine": 1.0})
        trainer.test(model, data(12), verbose=False)
        ids.append(logger.version)
    nilometer.finish()
    runs = trainings(tmp_path / "runs")
    assert [run.description["name"] for run in runs] == ["tiny", "tiny", "kept", "kept"]
    assert [len(run.series("train/loss").value) for run in runs] == [4] * 4
    assert [len(run.phase("forward").value) for run in runs] == [4] * 4
    assert [len(run.series("mine").value) for run in runs[2:]] == [1, 1]
    # The evaluation before the first training is in its run, and that before the second one in the run that is still open.
    assert ids == [runs[2].path.name] * 3 + [runs[3].path.name]
    assert [len(run.series("eval/loss").value) for run in runs[2:3]] == [2]
    assert [len(run.series("test/loss").value) for run in runs[2:]] == [1, 1]
    assert [run.summary()["status"] for run in runs] == ["exited"] * 4


def test_a_trainer_that_fits_again_has_a_further_run_and_checkpoints_of_its_own(tmp_path):
    logger, folders = NiloLogger("again"), []
    for _ in range(2):
        trainer = pl.Trainer(
            default_root_dir=tmp_path, accelerator="cpu", max_epochs=1, log_every_n_steps=1, logger=logger,
            enable_progress_bar=False, enable_model_summary=False,
        )
        trainer.fit(Model(), data())
        assert logger.version in trainer.checkpoint_callback.best_model_path
        folders.append(trainer.checkpoint_callback.best_model_path)
    trainer.fit_loop.max_epochs = 2
    trainer.fit(Model(), data())
    nilometer.finish()
    assert folders[0] != folders[1]
    runs = trainings(tmp_path / "runs")
    assert [run.series("train/loss").step.tolist() for run in runs] == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_logger_with_a_given_run_puts_every_fit_into_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    run = nilometer.init(name="mine")
    logger = NiloLogger(run=run)
    with pytest.warns(nilometer.NilometerWarning, match="step went back"):
        for _ in range(2):
            quick_trainer(tmp_path, logger).fit(Model(), data())
    run.finish(0)
    (recorded,) = trainings(tmp_path / "runs")
    assert recorded.series("train/loss").step.tolist() == [0, 1, 2, 3] * 2
