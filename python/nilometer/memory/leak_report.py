"""What is said of memory that is kept."""

from __future__ import annotations

from dataclasses import dataclass, field

_MB = 1 << 20


@dataclass(frozen=True)
class LeakReport:
    """How much a device's memory grew beyond its baseline, and whether it goes on."""

    device: str
    baseline_bytes: int
    current_bytes: int
    threshold_bytes: int
    object_growth: dict[str, int] = field(default_factory=dict)
    """Python types whose objects grew most in number, when objects were counted."""
    kind: str = "baseline"
    """`leak`: it rises steadily and gives nothing back; `growth`: it rises, too early to say more; `baseline`: no trend, only the comparison."""
    mb_per_minute: float | None = None
    """The trend's rate in MiB a minute; None without a trend."""
    lasted_secs: float | None = None
    """How long the trend has lasted."""
    baseline_was_set: bool = True
    """Whether somebody chose the baseline; one that monitoring began with lies before everything that is loaded."""

    @property
    def growth_bytes(self) -> int:
        return self.current_bytes - self.baseline_bytes

    @property
    def growth_mb(self) -> float:
        return self.growth_bytes / _MB

    @property
    def is_beyond_baseline(self) -> bool:
        """Whether it grew by more than the threshold beyond a baseline that was set: beyond one that nobody chose lies every model that is loaded."""
        return self.baseline_was_set and self.growth_bytes > self.threshold_bytes

    @property
    def is_leak(self) -> bool:
        """Whether it has the trend of a leak, or grew beyond the baseline."""
        return self.kind == "leak" or self.is_beyond_baseline

    def __str__(self) -> str:
        if self.baseline_was_set:
            word = "grew beyond its baseline" if self.is_beyond_baseline else "did not grow beyond its baseline"
            text = f"{self.device}: {word} by {self.growth_mb:+.1f} MiB (threshold {self.threshold_bytes / _MB:.0f} MiB)"
        else:
            text = f"{self.device}: {self.growth_mb:+.1f} MiB since monitoring began"
        if self.mb_per_minute is not None and self.lasted_secs is not None:
            word = "leaks" if self.kind == "leak" else "grows by"
            text += f"; {word} {self.mb_per_minute:.1f} MiB/min, for {self.lasted_secs:.0f} s so far"
        if self.object_growth:
            text += "; more objects: " + ", ".join(f"{name} +{more}" for name, more in self.object_growth.items())
        return text
