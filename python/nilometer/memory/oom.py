"""Warnings before memory runs out."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from .._trouble import require
from ..run import current_step
from .delivery import Delivery
from .forecaster import Forecaster, RiskLevel
from .percent import as_percent
from .prediction import OOMPrediction, predict
from .readings import HOST, DeviceReading
from .watcher import Watcher

_log = logging.getLogger("nilometer.oom")

# A level counts as left only this far below its threshold, so that a level at the threshold does not warn again and again.
_HYSTERESIS_PERCENT = 3.0


class OOMDetector(Watcher):
    """Warns when memory is forecast to run out within ten minutes, and when it passes `threshold`; again when it gets worse.

    `threshold` is a percentage, or a fraction below 1: 85 and 0.85 are the same.
    Every look feeds a forecaster for each device, whose time of the end, interval and confidence are in the OOMPrediction.
    Memory in PyTorch's cache is free to PyTorch and does not count against the threshold.
    `warning_callback` gets an OOMPrediction, on a thread of its own; without one the warning is logged (logger `nilometer.oom`).
    A callback that raises or blocks disturbs neither training nor watching.

    >>> detector = OOMDetector(threshold=85.0)
    >>> predictions = detector.check()
    >>> predictions[0].device_id, predictions[0].risk_level.value in ("low", "moderate", "high", "critical")
    ('host', True)
    """

    def __init__(
        self,
        threshold: float = 85.0,
        warning_callback: Callable[[OOMPrediction], object] | None = None,
        sampling_interval: float = 0.5,
        devices: Sequence[int | str] | None = None,
    ) -> None:
        super().__init__(sampling_interval, devices)
        self.threshold = as_percent(threshold, "threshold")
        require(
            warning_callback is None or callable(warning_callback),
            f"warning_callback must be callable, not {type(warning_callback).__name__}",
        )
        self.warning_callback = warning_callback
        self.warnings: list[OOMPrediction] = []
        # For each device that is warned of: the newest warning.
        self._standing: dict[str, OOMPrediction] = {}
        self._forecasters: dict[str, Forecaster] = {}
        self._delivery = Delivery(self._call_back, "warning_callback", self._say_once)
        self._added: list[Delivery] = []
        self._lock = threading.Lock()
        self._listeners: list[Callable[[OOMPrediction], None]] = []

    def check(self) -> list[OOMPrediction]:
        """The risk of every device, now."""
        return [self._judge(reading) for reading in self.read()]

    def add_alert_callback(self, callback: Callable[[OOMPrediction], object]) -> None:
        """Calls it with every warning from here on, as `warning_callback`, and at once with those that stand."""
        require(callable(callback), f"callback must be callable, not {type(callback).__name__}")
        delivery = Delivery(callback, "alert callback", self._say_once)
        with self._lock:
            self._added.append(delivery)
            standing = list(self._standing.values())
        for prediction in standing:
            delivery.post(prediction)

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        for reading in readings:
            prediction = self._judge(reading)
            before = self._standing.get(reading.device)
            if prediction.is_warning and (before is None or prediction.risk_level.rank > before.risk_level.rank):
                self._warn(reading.device, prediction)
            elif (
                reading.held_percent < self.threshold - _HYSTERESIS_PERCENT
                and prediction.forecast_level is RiskLevel.LOW
            ):
                with self._lock:
                    self._standing.pop(reading.device, None)
            for listen in self._listeners:
                listen(prediction)

    def _judge(self, reading: DeviceReading) -> OOMPrediction:
        forecaster = self._forecasters.setdefault(reading.device, Forecaster())
        # Not the watcher's seconds, which begin anew with every start.
        _feed(forecaster, reading, time.monotonic())
        return predict(reading, self.threshold, forecaster)

    def _warn(self, device: str, prediction: OOMPrediction) -> None:
        self.warnings.append(prediction)
        with self._lock:
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


def _feed(forecaster: Forecaster, reading: DeviceReading, seconds: float) -> None:
    step = current_step()
    limit = float(reading.total) if reading.total else None
    if reading.torch_allocated is not None and reading.torch_reserved is not None:
        # What torch can come to have: what it has, and what nobody has.
        forecaster.observe(
            seconds,
            reading.torch_reserved,
            reading.free + reading.torch_reserved,
            held_bytes=reading.torch_allocated,
            step=step,
        )
    elif reading.device == HOST:
        # What others took of the machine is gone for this program too.
        used = reading.total - reading.free if reading.total else reading.allocated
        forecaster.observe(
            seconds, used, limit, own_bytes=reading.allocated, children_bytes=reading.children, step=step
        )
    else:
        forecaster.observe(seconds, reading.allocated, limit, own_bytes=reading.own, step=step)
