"""Warnings before memory runs out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from .. import _native
from .._trouble import require, whole_number
from .delivery import Delivery
from .percent import OOM_PERCENT, as_percent
from .prediction import OOMPrediction
from .readings import DeviceReading
from .sampler import Sampler
from .training_steps import newest_step
from .watcher import Watcher

_log = logging.getLogger("nilometer.oom")


class OOMDetector(Watcher):
    """Warns when memory is forecast to run out within ten minutes, and when it passes `threshold`; again when it gets worse.

    It judges as `nilo oom --monitor --threshold` does: the process tree against its own limit and the machine's memory (device `host`), and GPUs.
    `threshold` is a percentage, or a fraction below 1: 85 and 0.85 are the same. A warning is over after some time of calm.
    `max_memory_bytes` is a budget of the program's own: the process tree is judged against that too, where the limit in force is larger.
    Memory in PyTorch's cache is free to PyTorch and does not count against the threshold.
    `warning_callback` gets an OOMPrediction, on a thread of its own; without one the warning is logged (logger `nilometer.oom`).
    Every `sampling_interval` seconds it looks; memory of the host is read at least ten times a second meanwhile, once for all detectors of a program.
    A callback that raises or blocks disturbs neither training nor watching.

    >>> detector = OOMDetector(threshold=85.0)
    >>> predictions = detector.check()
    >>> predictions[0].device_id, predictions[0].risk_level.value in ("low", "moderate", "high", "critical")
    ('host', True)
    """

    _is_judge = True

    def __init__(
        self,
        threshold: float = OOM_PERCENT,
        warning_callback: Callable[[OOMPrediction], object] | None = None,
        sampling_interval: float = 0.5,
        devices: Sequence[int | str] | None = None,
        *,
        max_memory_bytes: int | None = None,
    ) -> None:
        super().__init__(sampling_interval, devices)
        self.threshold = as_percent(threshold, "threshold")
        if max_memory_bytes is not None:
            max_memory_bytes = whole_number(max_memory_bytes, "max_memory_bytes", least=1)
        self.max_memory_bytes = max_memory_bytes
        require(
            warning_callback is None or callable(warning_callback),
            f"warning_callback must be callable, not {type(warning_callback).__name__}",
        )
        self.warning_callback = warning_callback
        self.warnings: list[OOMPrediction] = []
        self._delivery = Delivery(self._call_back, "warning_callback", self._say_once)
        self._added: list[Delivery] = []
        self._own_sampler()

    def _join(self, sampler: Sampler) -> None:
        self._watch = _native.OomWatch(sampler.monitor, self.threshold, self._wants_host, self.max_memory_bytes)
        # For each device that is warned of: the newest warning.
        self._standing: dict[int | str, OOMPrediction] = {}
        self._telling = threading.Lock()

    def check(self) -> list[OOMPrediction]:
        """The risk of every device, now."""
        readings = self.read()
        return [OOMPrediction.of(said) for said in self._watch.check(readings, newest_step())]

    def add_alert_callback(self, callback: Callable[[OOMPrediction], object]) -> None:
        """Calls it with every warning from here on, as `warning_callback`, and at once with those that stand."""
        require(callable(callback), f"callback must be callable, not {type(callback).__name__}")
        self._own_sampler()
        delivery = Delivery(callback, "alert callback", self._say_once)
        with self._telling:
            self._added.append(delivery)
            standing = list(self._standing.values())
        for prediction in standing:
            delivery.post(prediction)

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        for device, said in self._watch.look(readings, newest_step()):
            if said is not None:
                self._warn(device, OOMPrediction.of(said))
            else:
                with self._telling:
                    self._standing.pop(device, None)

    def _warn(self, device: int | str, prediction: OOMPrediction) -> None:
        self.warnings.append(prediction)
        with self._telling:
            self._standing[device] = prediction
            added = list(self._added)
        if self.warning_callback is not None:
            self._delivery.post(prediction)
        elif not added:
            _log.warning("%s", prediction)
        for delivery in added:
            delivery.post(prediction)

    def _call_back(self, prediction: OOMPrediction) -> None:
        if self.warning_callback is not None:
            self.warning_callback(prediction)
