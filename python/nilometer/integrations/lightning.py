"""For PyTorch Lightning: a logger for the metrics, a callback for phases and throughput. Each works without the other.

    trainer = Trainer(logger=NiloLogger("name"), callbacks=[NiloCallback()])
"""

from __future__ import annotations

import sys
from typing import Any

try:
    from lightning.pytorch import Callback, Trainer
    from lightning.pytorch.loggers import Logger
    from lightning.pytorch.utilities import rank_zero_only
except ImportError:
    try:
        from pytorch_lightning import Callback, Trainer
        from pytorch_lightning.loggers import Logger
        from pytorch_lightning.utilities import rank_zero_only
    except ImportError as error:
        raise ImportError("nilometer.integrations.lightning needs PyTorch Lightning: pip install lightning") from error

from ..run import Run
from ..torch import batch_size
from ._find_run import next_training_is_another, run_after_training, run_of_training, training_is_over
from ._guard import guarded
from ._recorder import StepRecorder


class NiloLogger(Logger):
    """Stores what is logged with `self.log`, under the same names and with Lightning's step; hyperparameters are settings.

    Each logger has a run of its own for each `fit`; the first takes the one that `nilometer.init` began. One that is given takes them all.

    The run stays open after `fit`, so that `test` lands in it too.
    """

    def __init__(self, name: str | None = None, *, run: Run | None = None) -> None:
        super().__init__()
        self._name = name
        self._run = run
        self._is_given = run is not None
        # Whether the run has a `fit` that has ended.
        self._has_fit = False
        self._run_of_rank: Run | None = None

    @property
    def experiment(self) -> Run | None:
        """The run; None in processes that are not the first."""
        if rank_zero_only.rank != 0:
            return self._run
        if self._has_fit and not self._is_given and (trainer := _asking_trainer()) is not None:
            state = trainer.state
            if (state.fn, state.status) == ("fit", "running"):
                next_training_is_another(self._run)
                self._run, self._has_fit = None, False
        if self._run is None or self._run.finished:
            self._run = run_after_training(self, self._run, self._name, named=self._name is not None)
        return self._run

    def _run_in_rank(self) -> Run:
        """The run in any process: ranks without the logger join the one that the first rank began under its name."""
        run = self.experiment
        if run is None and self._run_of_rank is not None and self._run_of_rank._training_is_over:
            next_training_is_another(self._run_of_rank)
        self._run_of_rank = run_of_training(self, run, self._name)
        return self._run_of_rank

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
        trainer = _asking_trainer()
        self._has_fit = self._has_fit or trainer is not None and trainer.state.fn == "fit"
        training_is_over(self._run)


def _asking_trainer() -> Any:
    """The Trainer that calls: loggers are not told, and the folder of checkpoints is named after the run before any callback is."""
    frame = sys._getframe(1)
    while frame is not None:
        for name in ("trainer", "self"):
            if isinstance(caller := frame.f_locals.get(name), Trainer):
                return caller
        frame = frame.f_back
    return None


class NiloCallback(Callback):
    """Records the phases of each training batch: `data`, `forward`, `backward`, `optimizer`; also `evaluate`.

    They go to the run of every NiloLogger, or to one of the callback's own for each `fit` where there is none.
    Samples are the first dimension of the batch's first tensor, tokens its elements if they are whole numbers in two dimensions.
    Epochs and checkpoints are marks. With manual optimization the time before the first backward is `forward`.
    """

    def __init__(self, run: Run | None = None) -> None:
        self._given = run
        # One for each run: every logger has its own.
        self._recorders: list[StepRecorder] = []
        self._hooks: list[Any] = []
        # Where there is no logger.
        self._own_run: Run | None = None

    @guarded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        device = trainer.strategy.root_device
        self._recorders = [StepRecorder(run, device) for run in self._runs(trainer)]
        # Lightning says when an optimizer begins, not when it is done.
        for optimizer in trainer.optimizers:
            self._hooks.append(optimizer.register_step_post_hook(self._optimizer_is_done))
        for recorder in self._recorders:
            recorder.throughput.start()

    def _runs(self, trainer: Any) -> list[Run]:
        loggers = [logger for logger in trainer.loggers if isinstance(logger, NiloLogger)]
        if self._given is not None:
            return [run_of_training(self, self._given)]
        if not loggers:
            next_training_is_another(self._own_run)
            self._own_run = run_of_training(self, None)
            return [self._own_run]
        return [logger._run_in_rank() for logger in loggers]

    @guarded
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for recorder in self._recorders:
            recorder.end()
            training_is_over(recorder.run)

    @guarded
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self.on_train_end(trainer, pl_module)

    @guarded
    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        for recorder in self._recorders:
            if trainer.is_global_zero:
                recorder.run.mark(f"epoch {trainer.current_epoch + 1}")
            recorder.idle()

    @guarded
    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        for recorder in self._recorders:
            recorder.run.set_step(_step_of(trainer))
            recorder.busy("data")
            recorder.start("forward")

    @guarded
    def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
        for recorder in self._recorders:
            recorder.stop("forward")
            recorder.start("backward")

    @guarded
    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        for recorder in self._recorders:
            recorder.stop("backward")

    @guarded
    def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
        for recorder in self._recorders:
            recorder.start("optimizer")

    @guarded
    def _optimizer_is_done(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for recorder in self._recorders:
            recorder.stop("optimizer")

    @guarded
    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        is_accumulated = _is_accumulated(trainer)
        for recorder in self._recorders:
            for phase in ("forward", "backward", "optimizer"):
                recorder.stop(phase)
            if is_accumulated:
                recorder.accumulate(*batch_size(batch))
            else:
                recorder.step_done(*batch_size(batch))
            recorder.idle()

    @guarded
    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.sanity_checking:
            for recorder in self._recorders:
                recorder.busy(None)
                recorder.start("evaluate")

    @guarded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        for recorder in self._recorders:
            recorder.stop("evaluate")
            recorder.idle()

    @guarded
    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        if trainer.is_global_zero:
            for recorder in self._recorders:
                recorder.run.mark(f"checkpoint {trainer.global_step}")


def _is_accumulated(trainer: Any) -> bool:
    """Whether the batch's gradients wait for those of the next ones."""
    loop = getattr(trainer.fit_loop, "epoch_loop", None)
    should_accumulate = getattr(loop, "_should_accumulate", None)
    return should_accumulate is not None and should_accumulate()


def _step_of(trainer: Any) -> int:
    """The step that Lightning logs under: batches that an optimizer stepped for."""
    loop = getattr(trainer.fit_loop, "epoch_loop", None)
    return getattr(loop, "_batches_that_stepped", trainer.global_step)
