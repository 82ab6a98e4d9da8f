"""Warnings before memory runs out."""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .._trouble import require, require_type
from .readings import HOST, DeviceReading
from .watcher import Watcher

_log = logging.getLogger("nilometer.oom")

# Above this the next allocation of a usual size fails.
_CRITICAL_PERCENT = 95.0
# A level counts as left only this far below its threshold, so that a level at the threshold does not warn again and again.
_HYSTERESIS_PERCENT = 3.0


class RiskLevel(enum.Enum):
    """How near the end is."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(RiskLevel).index(self)


@dataclass(frozen=True)
class OOMPrediction:
    """What is known about a device running out of memory."""

    device_id: int | str
    """A GPU's index, or `host`."""
    risk_level: RiskLevel
    current_usage: float
    """Percent of the limit."""
    limit_source: str
    predicted_oom_seconds: float | None = None
    """Seconds until it runs out; None when nothing is forecast."""
    confidence: float | None = None
    recommendations: list[str] = field(default_factory=list)

    @property
    def device_name(self) -> str:
        return "host memory" if self.device_id == HOST else f"GPU {self.device_id}"

    def __str__(self) -> str:
        lines = [
            f"[WARNING] OOM Warning: {self.device_name}",
            f"   Risk Level: {self.risk_level.value}",
            f"   Current Usage: {self.current_usage:.1f}%",
        ]
        if self.predicted_oom_seconds is not None:
            lines.append(f"   Predicted OOM Time: {self.predicted_oom_seconds:.1f}seconds later")
        if self.confidence is not None:
            lines.append(f"   Confidence: {self.confidence:.2f}")
        lines.extend(f"   Recommendation: {text}" for text in self.recommendations)
        return "\n".join(lines)


class OOMDetector(Watcher):
    """Watches the level against the limit and warns when it passes `threshold` percent, and again when it gets worse.

    `warning_callback` gets an OOMPrediction, on the watching thread; without one the warning is logged (logger `nilometer.oom`).
    A callback that raises or blocks disturbs neither training nor its own next call. Risk is judged by the level; the time of the end is not forecast.

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
        require_type(threshold, (int, float), "threshold")
        require(0 < threshold <= 100, f"threshold must be a percentage above 0 and at most 100, not {threshold}")
        require(
            warning_callback is None or callable(warning_callback),
            f"warning_callback must be callable, not {type(warning_callback).__name__}",
        )
        self.threshold = float(threshold)
        self.warning_callback = warning_callback
        self.warnings: list[OOMPrediction] = []
        self._warned: dict[str, RiskLevel] = {}
        self._busy = threading.Lock()

    def check(self) -> list[OOMPrediction]:
        """The risk of every device, now."""
        return [self._judge(reading) for reading in self.read()]

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        for reading in readings:
            prediction = self._judge(reading)
            before = self._warned.get(reading.device, RiskLevel.LOW)
            if prediction.risk_level.rank > max(before.rank, RiskLevel.MODERATE.rank):
                self._warned[reading.device] = prediction.risk_level
                self._warn(prediction)
            elif reading.utilization_percent < self.threshold - _HYSTERESIS_PERCENT:
                self._warned.pop(reading.device, None)

    def _judge(self, reading: DeviceReading) -> OOMPrediction:
        percent = reading.utilization_percent
        critical = max(_CRITICAL_PERCENT, self.threshold)
        if percent >= critical:
            level = RiskLevel.CRITICAL
        elif percent >= self.threshold:
            level = RiskLevel.HIGH
        elif percent >= self.threshold - 10:
            level = RiskLevel.MODERATE
        else:
            level = RiskLevel.LOW
        device: int | str = HOST if reading.device == HOST else int(reading.device)
        advice = _advice(reading) if level.rank >= RiskLevel.HIGH.rank else []
        return OOMPrediction(device, level, percent, reading.source, recommendations=advice)

    def _warn(self, prediction: OOMPrediction) -> None:
        self.warnings.append(prediction)
        if self.warning_callback is None:
            _log.warning("%s", prediction)
            return
        # On a thread of its own, so that a slow callback does not blind the watcher; one at a time.
        threading.Thread(target=self._call_back, args=(prediction,), name="nilo-oom-callback", daemon=True).start()

    def _call_back(self, prediction: OOMPrediction) -> None:
        with self._busy:
            try:
                assert self.warning_callback is not None
                self.warning_callback(prediction)
            except Exception as error:  # noqa: BLE001 - the user's function
                self._say_once(f"warning_callback: {type(error).__name__}: {error}")


def _advice(reading: DeviceReading) -> list[str]:
    if reading.device == HOST:
        return [
            "Use fewer DataLoader workers, or smaller prefetch_factor",
            f"Ask for more memory: the limit is {reading.source}",
        ]
    advice = ["Consider reducing batch size"]
    if reading.torch_allocated is not None and reading.torch_reserved is not None:
        cached = reading.torch_reserved - reading.torch_allocated
        if cached > reading.total // 20:
            advice.insert(0, "Prepare to release cache")
    return advice
