"""Growth beyond a baseline."""

from __future__ import annotations

import collections
import gc
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .._trouble import require, require_type
from .readings import DeviceReading
from .watcher import Watcher

_MB = 1 << 20


@dataclass(frozen=True)
class LeakReport:
    """How much a device's memory grew beyond its baseline."""

    device: str
    baseline_bytes: int
    current_bytes: int
    threshold_bytes: int
    object_growth: dict[str, int] = field(default_factory=dict)
    """Python types whose objects grew most in number, when objects were counted."""

    @property
    def growth_bytes(self) -> int:
        return self.current_bytes - self.baseline_bytes

    @property
    def growth_mb(self) -> float:
        return self.growth_bytes / _MB

    @property
    def is_leak(self) -> bool:
        """Whether it grew by more than the threshold."""
        return self.growth_bytes > self.threshold_bytes

    def __str__(self) -> str:
        word = "grew beyond its baseline" if self.is_leak else "did not grow beyond its baseline"
        text = f"{self.device}: {word} by {self.growth_mb:+.1f} MiB (threshold {self.threshold_bytes / _MB:.0f} MiB)"
        if self.object_growth:
            text += "; more objects: " + ", ".join(f"{name} +{more}" for name, more in self.object_growth.items())
        return text


class LeakDetector(Watcher):
    """Compares memory with a baseline: `set_baseline()` after warm-up, `check()` whenever you like, or on a thread.

    On the host it compares what is held by the process tree, on a GPU what torch has allocated (its cache may grow without a leak),
    or without torch what the program's processes hold there.
    `count_objects` also counts, by type, the objects that Python's garbage collector tracks (containers and instances,
    not numbers, texts or dictionaries of them), which takes a walk over all of them at the baseline and at each check.

    >>> detector = LeakDetector(threshold_mb=20)
    >>> detector.set_baseline()
    >>> kept = bytearray(64 << 20)
    >>> report = detector.check()[0]
    >>> report.device, report.is_leak
    ('host', True)
    """

    def __init__(
        self,
        threshold_mb: float = 100.0,
        leak_callback: Callable[[LeakReport], object] | None = None,
        sampling_interval: float = 1.0,
        devices: Sequence[int | str] | None = None,
        *,
        count_objects: bool = False,
    ) -> None:
        super().__init__(sampling_interval, devices)
        require_type(threshold_mb, (int, float), "threshold_mb")
        require(threshold_mb > 0, f"threshold_mb must be positive, not {threshold_mb}")
        require(
            leak_callback is None or callable(leak_callback),
            f"leak_callback must be callable, not {type(leak_callback).__name__}",
        )
        self.threshold_bytes = int(threshold_mb * _MB)
        self.leak_callback = leak_callback
        self.leaks: list[LeakReport] = []
        self._count_objects = count_objects
        self._baseline: dict[str, int] | None = None
        self._objects: collections.Counter[str] = collections.Counter()
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def set_baseline(self) -> None:
        """Takes the present level as the one that should stay."""
        gc.collect()
        baseline = {reading.device: _held(reading) for reading in self.read()}
        with self._lock:
            self._baseline = baseline
            self._objects = _object_counts() if self._count_objects else collections.Counter()
            self._told.clear()

    def check(self) -> list[LeakReport]:
        """The growth of every device. The first check without a baseline sets it."""
        if self._baseline is None:
            self.set_baseline()
        gc.collect()
        return self._reports(self.read(), count=self._count_objects)

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        if self._baseline is None:
            self._baseline = {reading.device: _held(reading) for reading in readings}
        for report in self._reports(readings, count=False):
            if report.is_leak and report.device not in self._told:
                self._told.add(report.device)
                self.leaks.append(report)
                if self.leak_callback is not None:
                    self.leak_callback(report)

    def _reports(self, readings: list[DeviceReading], count: bool) -> list[LeakReport]:
        with self._lock:
            baseline = self._baseline if self._baseline is not None else {}
            growth = {}
            if count:
                more = _object_counts()
                more.subtract(self._objects)
                growth = {name: number for name, number in more.most_common(5) if number > 0}
            return [
                LeakReport(
                    reading.device,
                    # A device that came later begins with its first reading.
                    baseline.setdefault(reading.device, _held(reading)),
                    _held(reading),
                    self.threshold_bytes,
                    growth,
                )
                for reading in readings
            ]


def _held(reading: DeviceReading) -> int:
    """What can leak: the program's own, as closely as it is known."""
    if reading.torch_allocated is not None:
        return reading.torch_allocated
    return reading.allocated if reading.own is None else reading.own


def _object_counts() -> collections.Counter[str]:
    return collections.Counter(type(thing).__qualname__ for thing in gc.get_objects())
