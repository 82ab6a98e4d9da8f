"""What is said of a device that may run out of memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .. import _native
from .forecaster import RiskLevel
from .readings import HOST, device_name


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
    """80 % interval of `predicted_oom_seconds`."""
    reason: str = ""
    """Why the risk is what it is, in a few words."""
    cause: str | None = None
    """What drives a forecast: `growth`, `leak`, `workers`, `peaks`, `stairs`, `fragmentation`, `swap`, `neighbour` or `above-limit`."""
    forecast_level: RiskLevel = RiskLevel.LOW
    """What the forecast alone says."""
    resource: str = ""
    """What of the device: on the host `job memory` (the process tree against its limit) or `host memory` (the whole machine), whichever is worse."""

    @classmethod
    def of(cls, said: dict[str, Any]) -> OOMPrediction:
        levels = {name: RiskLevel(said[name]) for name in ("risk_level", "forecast_level")}
        return cls(**(said | levels))

    @property
    def device_name(self) -> str:
        return self.resource if self.device_id == HOST and self.resource else device_name(self.device_id)

    @property
    def is_warning(self) -> bool:
        """Whether somebody should be told."""
        return _native.is_warning(self.risk_level.value)

    def __str__(self) -> str:
        prediction = None
        if self.predicted_oom_seconds is not None:
            prediction = (self.predicted_oom_seconds, self.predicted_oom_range, self.confidence)
        return _native.warning_text(
            self.device_name,
            self.risk_level.value,
            self.current_usage,
            prediction,
            self.cause,
            self.recommendations,
            self.reason,
        )
