"""For Keras 3, whatever its backend.

    model.fit(x, y, batch_size=32, callbacks=[NiloCallback(batch_size=32)])
"""

from __future__ import annotations

from typing import Any

try:
    import keras
except ImportError as error:
    raise ImportError(
        "nilometer.integrations.keras needs Keras and a backend such as PyTorch: pip install keras torch"
    ) from error

from ..run import Run
from ._find_run import next_training_is_another, run_of_training, training_is_over
from ._guard import guarded
from ._recorder import StepRecorder


class NiloCallback(keras.callbacks.Callback):
    """Stores the logs of batches as `train/...` and those of epochs, validation among them, as `epoch/...`.

    A batch's figures are Keras's running means since the epoch began. The step counts batches over all epochs, from 0;
    an epoch's figures have the step of its last batch.
    Phases: `step` for a batch, `data` between batches (not with TensorFlow, which gets its data within the batch), `evaluate`.
    Each `fit` has a run of its own, unless `run` is given: then the steps of the next one go on counting.
    Keras does not tell callbacks how large a batch is: give `batch_size` for samples a second.
    """

    def __init__(self, run: Run | None = None, *, batch_size: int | None = None) -> None:
        super().__init__()
        self._given = run
        self._batch_size = batch_size
        self._recorder: StepRecorder | None = None
        self._step = 0
        self._first_batch = 0
        self._knows_data = keras.backend.backend() != "tensorflow"

    @guarded
    def on_train_begin(self, logs: Any = None) -> None:
        if self._recorder is not None and self._given is None:
            next_training_is_another(self._recorder.run)
            self._step = 0
        run = run_of_training(self, self._given)
        self._recorder = StepRecorder(run)
        run.config({"epochs": self.params.get("epochs"), "steps_per_epoch": self.params.get("steps")})
        run.config({"model": self._describe()})
        self._recorder.throughput.start()

    @guarded
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self._recorder is not None:
            self._recorder.run.mark(f"epoch {epoch + 1}")
            self._recorder.idle()

    @guarded
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self._recorder is not None:
            self._first_batch = batch
            self._recorder.run.set_step(self._step)
            self._recorder.busy("data" if self._knows_data else None)
            self._recorder.start("step")

    @guarded
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._recorder is None:
            return
        self._recorder.stop("step")
        # With `steps_per_execution` Keras calls once for several batches.
        batches = batch - self._first_batch + 1
        self._step += batches
        if logs:
            self._recorder.run.log({f"train/{name}": value for name, value in logs.items()}, self._step - 1)
        self._recorder.step_done(batches * (self._batch_size or 0))
        self._recorder.idle()

    @guarded
    def on_test_begin(self, logs: Any = None) -> None:
        if self._recorder is not None:
            self._recorder.busy(None)
            self._recorder.start("evaluate")

    @guarded
    def on_test_end(self, logs: Any = None) -> None:
        if self._recorder is not None:
            self._recorder.stop("evaluate")

    @guarded
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._recorder is not None and logs:
            values = {f"epoch/{name}": value for name, value in logs.items()}
            self._recorder.run.log(values, max(self._step - 1, 0))

    @guarded
    def on_train_end(self, logs: Any = None) -> None:
        if self._recorder is not None:
            self._recorder.end()
            training_is_over(self._recorder.run)

    def _describe(self) -> dict[str, Any]:
        found = {"name": self.model.name, "optimizer": type(self.model.optimizer).__name__}
        if self.model.built:
            found["parameters"] = self.model.count_params()
        return found
