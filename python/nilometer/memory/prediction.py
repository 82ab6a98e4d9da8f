"""What is said of a device that may run out of memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from .. import _native
from .forecaster import Forecaster, RiskLevel
from .readings import HOST, DeviceReading, device_name


@dataclass(frozen=True)
class OOMPrediction:
    """What is known about a device running out of memory."""

    device_id: int | str
    """A GPU's index, or `host`."""
    risk_level: RiskLevel
    """The worse of what the level says and what the forecast says."""
    current_usage: float
    """Percent of the limit, without what PyTorch's cache would give back."""
    limit_source: str
    predicted_oom_seconds: float | None = None
    """Seconds until it runs out; None when nothing is forecast."""
    confidence: float | None = None
    """The share of forecasts like this that come true."""
    recommendations: list[str] = field(default_factory=list)
    predicted_oom_range: tuple[float, float] | None = None
    """In four of five cases the end lies between these."""
    reason: str = ""
    """Why the risk is what it is, in a few words."""
    cause: str | None = None
    """What drives a forecast: `growth`, `workers`, `peaks`, `fragmentation`, `swap` or `neighbour`."""
    forecast_level: RiskLevel = RiskLevel.LOW
    """What the forecast alone says."""

    @property
    def device_name(self) -> str:
        return device_name(self.device_id)

    @property
    def is_warning(self) -> bool:
        """Whether somebody should be told."""
        return self.risk_level.rank >= RiskLevel.HIGH.rank

    def __str__(self) -> str:
        return _native.warning_text(
            self.device_name,
            self.risk_level.value,
            self.current_usage,
            self.predicted_oom_seconds,
            self.confidence,
            self.recommendations,
            self.reason,
        )


def predict(reading: DeviceReading, threshold: float, forecaster: Forecaster) -> OOMPrediction:
    """What the command would say of this reading."""
    is_host = reading.device == HOST
    device_id = HOST if is_host else int(reading.device)
    said = forecaster.assess(
        device_name(device_id),
        is_gpu=not is_host,
        used_share=reading.held_percent / 100 if reading.total else None,
        threshold_percent=threshold,
    )
    span = None
    if said["seconds_low"] is not None and said["seconds_high"] is not None:
        span = (said["seconds_low"], said["seconds_high"])
    return OOMPrediction(
        device_id,
        said["level"],
        reading.held_percent,
        reading.source,
        said["seconds"],
        said["confidence"],
        said["recommendations"] if said["is_warning"] else [],
        span,
        said["reason"],
        said["cause"],
        said["forecast_level"],
    )
