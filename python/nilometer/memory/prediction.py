"""What is said of a device that may run out of memory."""

from __future__ import annotations

from dataclasses import dataclass, field

from .forecaster import Forecast, RiskLevel
from .readings import HOST, DeviceReading

_MB = 1 << 20


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


def predict(reading: DeviceReading, by_level: RiskLevel, threshold: float, forecast: Forecast) -> OOMPrediction:
    """The worse of the level's and the forecast's word, with what follows from it."""
    level = max(by_level, forecast.level, key=lambda level: level.rank)
    # Times that hardly ever come true are not worth printing.
    times = forecast.level.rank >= RiskLevel.MODERATE.rank
    cause = forecast.cause if times else None
    span = None
    if times and forecast.seconds_low is not None and forecast.seconds_high is not None:
        span = (forecast.seconds_low, forecast.seconds_high)
    reasons = []
    if reading.held_percent >= threshold:
        reasons.append(f"{reading.held_percent:.1f}% is above the threshold of {threshold:g}%")
    if times and cause is not None:
        reasons.append(_forecast_words(forecast, cause))
    return OOMPrediction(
        HOST if reading.device == HOST else int(reading.device),
        level,
        reading.held_percent,
        reading.source,
        forecast.seconds if times else None,
        forecast.confidence if times else None,
        advice(reading, cause) if level.rank >= RiskLevel.HIGH.rank else [],
        span,
        "; ".join(reasons),
        cause,
        forecast.level,
    )


def _forecast_words(forecast: Forecast, cause: str) -> str:
    rate, lasted = forecast.bytes_per_sec or 0.0, forecast.lasted_secs or 0.0
    what = {
        "workers": "worker processes grow",
        "peaks": "the base below recurring peaks grows",
        "fragmentation": "PyTorch's reserve grows although what is allocated does not",
        "swap": "memory is full and swap grows",
        "neighbour": "other programs fill the device",
    }.get(cause, "memory grows")
    return f"{what} by {rate * 60 / _MB:.1f} MiB/min, for {lasted:.0f} s so far"


_BATCH = "Consider reducing batch size"
_CACHE = "Prepare to release cache"
_WORKERS = "Use fewer DataLoader workers, or smaller prefetch_factor"

# By cause: for the host, then for a GPU.
_BY_CAUSE = {
    "growth": (
        ["Look for what is kept from step to step, such as lists of results"],
        ["Keep numbers from step to step, not tensors: loss.item() instead of loss", _BATCH],
    ),
    "workers": ([_WORKERS, "Keep datasets in arrays: workers copy Python lists as they read them"], [_BATCH]),
    "peaks": (["Lower the peaks: evaluate and save in smaller pieces"], ["Use gradient checkpointing", _BATCH]),
    "fragmentation": ([], ["Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", _CACHE]),
    "swap": (["Memory already goes to swap: use less of it, or save a checkpoint"], []),
    "neighbour": (["Other programs fill this machine: move them, or this job"], ["Other programs fill this GPU: move them, or this job"]),
}


def advice(reading: DeviceReading, cause: str | None) -> list[str]:
    """What can be done, the most fitting first."""
    if reading.device == HOST:
        by_cause = _BY_CAUSE[cause][0] if cause in _BY_CAUSE else [_WORKERS]
        return [*by_cause, f"Ask for more memory: the limit is {reading.source}"]
    said = list(_BY_CAUSE[cause][1]) if cause in _BY_CAUSE else [_BATCH]
    if reading.cached > reading.total // 20 and _CACHE not in said:
        said.insert(0, _CACHE)
    return said
