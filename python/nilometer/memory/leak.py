"""Growth beyond a baseline, and growth that does not end."""

from __future__ import annotations

import collections
import gc
import threading
import time
from collections.abc import Callable, Sequence

from .._trouble import require, require_type
from ..run import current_step
from .delivery import Delivery
from .forecaster import Forecaster, Growth
from .leak_report import LeakReport
from .readings import DeviceReading
from .watcher import Watcher

_MB = 1 << 20
# A trend is worth a word from this share of the level on ...
_LEAST_GROWTH_OF_LEVEL = 0.05
# ... and from this size on.
_LEAST_GROWTH_BYTES = 8 * _MB
# Trends are judged every sixtieth of the time watched, and at least this often.
_JUDGE_SECS = 10.0
# Types that are named in a report.
_MOST_TYPES = 5
# A program that has made so many steps has warmed up, however young it is.
_WARM_UP_STEPS = 50


class LeakDetector(Watcher):
    """Finds memory that is kept: more than at the baseline, or more and more.

    `set_baseline()` after warm-up, then `check()` whenever you like, tells what grew by more than `threshold_mb`.
    While monitoring (and with every `check()`) it also follows the trend: a rise that lasts and gives nothing back is a leak
    however small the baseline's growth is, with its rate. Programs begin by loading, which looks the same:
    within `warm_up_secs` of the start or the baseline, and before fifty logged steps, it is called growth only.
    `leak_callback` gets a LeakReport once for each of the two and each device, on a thread of its own.

    On the host it compares what is held by the process tree, on a GPU what torch has allocated (its cache may grow without a leak),
    or without torch what the program's processes hold there.
    `count_objects` also counts, by type, the objects that Python's garbage collector tracks (containers and instances,
    not numbers, texts or dictionaries of them), which takes a walk over all of them at the baseline and at each check.

    >>> detector = LeakDetector(threshold_mb=20)
    >>> detector.set_baseline()
    >>> kept = bytearray(64 << 20)
    >>> report = detector.check()[0]
    >>> report.device, report.is_leak, report.kind
    ('host', True, 'baseline')
    """

    def __init__(
        self,
        threshold_mb: float = 100.0,
        leak_callback: Callable[[LeakReport], object] | None = None,
        sampling_interval: float = 1.0,
        devices: Sequence[int | str] | None = None,
        *,
        count_objects: bool = False,
        warm_up_secs: float = 60.0,
    ) -> None:
        super().__init__(sampling_interval, devices)
        require_type(threshold_mb, (int, float), "threshold_mb")
        require(threshold_mb > 0, f"threshold_mb must be positive, not {threshold_mb}")
        require(
            leak_callback is None or callable(leak_callback),
            f"leak_callback must be callable, not {type(leak_callback).__name__}",
        )
        require_type(warm_up_secs, (int, float), "warm_up_secs")
        require(warm_up_secs >= 0, f"warm_up_secs must be at least 0, not {warm_up_secs}")
        self.warm_up_secs = float(warm_up_secs)
        self.threshold_bytes = int(threshold_mb * _MB)
        self.leak_callback = leak_callback
        self.leaks: list[LeakReport] = []
        self._count_objects = count_objects
        self._baseline: dict[str, int] | None = None
        self._objects: collections.Counter[str] | None = None
        self._told: set[tuple[str, str]] = set()
        self._lock = threading.Lock()
        self._delivery = Delivery(self._call_back, "leak_callback", self._say_once)
        self._listeners: list[Callable[[LeakReport], None]] = []
        self._forget_trends()

    def set_baseline(self) -> None:
        """Takes the present level as the one that should stay; trends begin here too."""
        gc.collect()
        baseline = {reading.device: _held(reading) for reading in self.read()}
        with self._lock:
            self._baseline = baseline
            self._objects = _object_counts() if self._count_objects else None
            self._told.clear()
            self._forget_trends()

    def start_monitoring(self) -> None:
        """Begins to look; what there is now is the baseline unless one was set."""
        if self._baseline is None:
            self._baseline = {reading.device: _held(reading) for reading in self.read()}
            self._objects = _object_counts() if self._count_objects else None
        super().start_monitoring()

    def _object_growth(self) -> dict[str, int]:
        """Types with more objects than at the baseline, the most first; empty without `count_objects`."""
        if self._objects is None:
            return {}
        more = _object_counts()
        more.subtract(self._objects)
        return {name: number for name, number in more.most_common(_MOST_TYPES) if number > 0}

    def check(self) -> list[LeakReport]:
        """The growth of every device. The first check without a baseline sets it."""
        if self._baseline is None:
            self.set_baseline()
        gc.collect()
        return self._reports(self.read(), thorough=True)

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        if self._baseline is None:
            self._baseline = {reading.device: _held(reading) for reading in readings}
        for report in self._reports(readings, thorough=False):
            finding = (report.device, "leak" if report.kind == "leak" else "baseline")
            if report.is_leak and finding not in self._told:
                self._told.add(finding)
                self.leaks.append(report)
                if self.leak_callback is not None:
                    self._delivery.post(report)
                for listen in self._listeners:
                    listen(report)

    def _reports(self, readings: list[DeviceReading], *, thorough: bool) -> list[LeakReport]:
        objects = self._object_growth() if thorough else {}
        with self._lock:
            baseline = self._baseline if self._baseline is not None else {}
            reports = []
            for reading in readings:
                held = _held(reading)
                growth = self._follow(reading, held, thorough)
                reports.append(
                    LeakReport(
                        reading.device,
                        # A device that came later begins with its first reading.
                        baseline.setdefault(reading.device, held),
                        held,
                        self.threshold_bytes,
                        objects,
                        "baseline" if growth is None else growth.kind,
                        None if growth is None else growth.bytes_per_sec * 60 / _MB,
                        None if growth is None else growth.lasted_secs,
                    )
                )
            return reports

    def _forget_trends(self) -> None:
        self._forecasters: dict[str, Forecaster] = {}
        self._first_step: int | None = None
        self._growth: dict[str, Growth | None] = {}
        # For each device: watched since, and the next judgement's time.
        self._judgements: dict[str, tuple[float, float]] = {}

    def _follow(self, reading: DeviceReading, held: int, thorough: bool) -> Growth | None:
        """Feeds the device's trend and judges it, or gives the last judgement where it is not due."""
        now, step = time.monotonic(), current_step()
        forecaster = self._forecasters.setdefault(reading.device, Forecaster())
        forecaster.observe(now, held, step=step)
        if self._first_step is None:
            self._first_step = step
        since, due = self._judgements.setdefault(reading.device, (now, now))
        if thorough or now >= due:
            least = max(_LEAST_GROWTH_OF_LEVEL * held, _LEAST_GROWTH_BYTES)
            steps = 0 if step is None or self._first_step is None else step - self._first_step
            may_be_loading = now - since < self.warm_up_secs and steps < _WARM_UP_STEPS
            growth = forecaster.growth(min(least, self.threshold_bytes), may_be_loading=may_be_loading)
            self._growth[reading.device] = growth
            self._judgements[reading.device] = (since, now + min((now - since) / 60, _JUDGE_SECS))
        return self._growth.get(reading.device)

    def _call_back(self, report: LeakReport) -> None:
        if self.leak_callback is not None:
            self.leak_callback(report)


def _held(reading: DeviceReading) -> int:
    """What can leak: the program's own, as closely as it is known."""
    if reading.torch_allocated is not None:
        return reading.torch_allocated
    return reading.allocated if reading.own is None else reading.own


def _object_counts() -> collections.Counter[str]:
    return collections.Counter(type(thing).__qualname__ for thing in gc.get_objects())
