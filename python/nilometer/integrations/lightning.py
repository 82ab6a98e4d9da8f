"""For PyTorch Lightning: a logger for the metrics, a callback for phases and throughput. Each works without the other.

    trainer = Trainer(logger=NiloLogger("name"), callbacks=[NiloCallback()])
"""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch import Callback
    from lightning.pytorch.loggers import Logger
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:
    try:
        from pytorch_lightning import Callback
        from pytorch_lightning.loggers import Logger
        from pytorch_lightning.utilities import rank_zero_only
    except ImportError as error:
        raise ImportError("nilometer.integrations.lightning needs PyTorch Lightning: pip install lightning") from error

from ..run import Run
from ..torch import batch_size
from ._find_run import run_of_training, training_is_over
from ._guard import guarded
from ._recorder import StepRecorder


class NiloLogger(Logger):
    """Stores what is logged with `self.log`, under the same names and with Lightning's step; hyperparameters are settings.

    Each logger has a run of its own; the first takes the one that `nilometer.init` began.

    The run stays open after `fit`, so that `test` lands in it too.
    """

    def __init__(self, name: str | None = None, *, run: Run | None = None) -> None:
        super().__init__()
        self._name = name
        self._run = run

    @property
    def experiment(self) -> Run | None:
        """The run; None in processes that are not the first."""
        if (self._run is None or self._run.finished) and rank_zero_only.rank == 0:
            self._run = run_of_training(self, None, self._name, named=self._name is not None)
        return self._run

    @property
    def name(self) -> str:
        return self._name or "nilometer"

    @property
    def version(self) -> str:
        run = self.experiment
        return (run.id if run is not None else None) or ""

    @rank_zero_only
    @guarded
    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        self.experiment.log(metrics, step)

    @rank_zero_only
    @guarded
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        self.experiment.config(params)

    @rank_zero_only
    @guarded
    def finalize(self, status: str) -> None:
        training_is_over(self._run)


class NiloCallback(Callback):
    """Records the phases of each training batch: `data`, `forward`, `backward`, `optimizer`; also `evaluate`.

    Samples are the first dimension of the batch's first tensor, tokens its elements if they are whole numbers in two dimensions.
    Epochs and checkpoints are marks. With manual optimization the time before the first backward is `forward`.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._given = run
        self._recorder: StepRecorder | None = None
        self._hooks: list[Any] = []

    @guarded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        logger = _logger_of(trainer)
        # In ranks without the logger, the run of its name is that of the first rank.
        name = logger._name if logger is not None else None
        run = run_of_training(logger or self, self._given or (logger.experiment if logger else None), name)
        self._recorder = StepRecorder(run, trainer.strategy.root_device)
        # Lightning says when an optimizer begins, not when it is done.
        for optimizer in trainer.optimizers:
            self._hooks.append(optimizer.register_step_post_hook(self._optimizer_is_done))
        self._recorder.throughput.start()

    @guarded
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        if self._recorder is not None:
            self._recorder.end()
            training_is_over(self._recorder.run)

    @guarded
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)

    @guarded
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self._recorder is not None:
            if trainer.is_global_zero:
                self._recorder.run.mark(f"epoch {trainer.current_epoch + 1}")
            self._recorder.idle()

    @guarded
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._recorder is not None:
            self._recorder.run.set_step(_step_of(trainer))
            self._recorder.busy("data")
            self._recorder.start("forward")

    @guarded
    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        if self._recorder is not None:
            self._recorder.stop("forward")
            self._recorder.start("backward")

    @guarded
    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        if self._recorder is not None:
            self._recorder.stop("backward")

    @guarded
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        if self._recorder is not None:
            self._recorder.start("optimizer")

    @guarded
    def _optimizer_is_done(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._recorder is not None:
            self._recorder.stop("optimizer")

    @guarded
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if self._recorder is not None:
            for phase in ("forward", "backward", "optimizer"):
                self._recorder.stop(phase)
            self._recorder.step_done(*batch_size(batch))
            self._recorder.idle()

    @guarded
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self._recorder is not None and not trainer.sanity_checking:
            self._recorder.busy(None)
            self._recorder.start("evaluate")

    @guarded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        if self._recorder is not None:
            self._recorder.stop("evaluate")
            self._recorder.idle()

    @guarded
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if self._recorder is not None and trainer.is_global_zero:
            self._recorder.run.mark(f"checkpoint {trainer.global_step}")


def _logger_of(trainer: Any) -> NiloLogger | None:
    return next((logger for logger in trainer.loggers if isinstance(logger, NiloLogger)), None)


def _step_of(trainer: Any) -> int:
    """The step that Lightning logs under: batches that an optimizer stepped for."""
    loop = getattr(trainer.fit_loop, "epoch_loop", None)
    return getattr(loop, "_batches_that_stepped", trainer.global_step)
