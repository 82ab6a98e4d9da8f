"""Growth beyond a baseline, and growth that does not end."""

from __future__ import annotations

import collections
import dataclasses
import gc
from collections.abc import Callable, Sequence
from typing import Any

from .. import _native
from .._trouble import require, require_type
from .delivery import Delivery
from .leak_report import LeakReport
from .object_counts import count_by_name
from .readings import DeviceReading
from .sampler import Sampler
from .training_steps import newest_step
from .watcher import Watcher

_MB = 1 << 20
# Types that are named in a report.
_MOST_TYPES = 5


class LeakDetector(Watcher):
    """Finds memory that is kept: more than at the baseline, or more and more.

    `set_baseline()` after warm-up, then `check()` whenever you like, tells what grew by more than `threshold_mb`.
    Beyond the level at the start of monitoring lies every model that is loaded: without a baseline that somebody set, only a trend is a leak.
    While monitoring (and with every `check()`) it also follows the trend, as `nilo leak` does: a rise that lasts and gives nothing back is a leak
    however small the baseline's growth is, with its rate. Programs begin by loading, which looks the same:
    within `warm_up_secs` of the start or the baseline, and before fifty steps (logged, or told to a `MemoryOptimizationSystem`), it is called growth only.
    After `stop_monitoring()` a trend is what it was then, until monitoring or a baseline begins anew: a program that is over grows no more.
    `leak_callback` gets a LeakReport, on a thread of its own: once for growth beyond a baseline that was set, of each device,
    and once for a trend that three looks ten seconds apart have found, until it is over.
    Every `sampling_interval` seconds it looks; memory of the host is read at least ten times a second meanwhile, once for all detectors of a program.

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

    _is_judge = True

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
        self.counts_objects = count_objects
        self._delivery = Delivery(self._call_back, "leak_callback", self._say_once)
        # Told of each leak with its sentence (None where it is growth beyond the baseline, and no trend), and of the device of one that is over.
        self._listeners: list[Callable[[LeakReport, str | None], None]] = []
        self._over_listeners: list[Callable[[int | str], None]] = []
        self._own_sampler()

    def _join(self, sampler: Sampler) -> None:
        self._watch = _native.LeakWatch(sampler.monitor, self.warm_up_secs, self._wants_host)
        self._baseline: dict[str, int] | None = None
        self._is_chosen = False
        # The trends and the leak when monitoring ended; every reading of this process goes to the judge, also those of others who go on looking.
        self._at_end: tuple[dict[str, dict[str, Any]], dict[str, Any]] | None = None
        self._objects: collections.Counter[str] | None = None
        # Devices that were told to have grown beyond the baseline.
        self._told: set[str] = set()

    def set_baseline(self) -> None:
        """Takes the present level as the one that should stay; trends begin here too."""
        gc.collect()
        self._set_baseline(self.read(), is_chosen=True)

    def _set_baseline(self, readings: list[DeviceReading], *, is_chosen: bool) -> None:
        objects = count_by_name() if self.counts_objects else None
        with self._lock:
            self._baseline = {reading.device: _held(reading) for reading in readings}
            self._objects = objects
            self._told.clear()
            self._is_chosen, self._at_end = is_chosen, None
            self._watch.restart()

    def start_monitoring(self) -> None:
        """Begins to look; what there is now is the baseline unless one was set."""
        self._own_sampler()
        if self._baseline is None:
            self._set_baseline(self.read(), is_chosen=False)
        self._at_end = None
        super().start_monitoring()

    def stop_monitoring(self) -> None:
        """Stops looking, after a last look; trends stay as they are then."""
        if self.is_monitoring:
            super().stop_monitoring()
            with self._lock:
                self._at_end = self._growth([]), self._leak_facts([])

    def check(self) -> list[LeakReport]:
        """The growth of every device. The first check without a baseline sets it."""
        self._own_sampler()
        if self._baseline is None:
            self.set_baseline()
        gc.collect()
        readings = self.read()
        objects = self._object_growth()
        with self._lock:
            growth = self._growth(readings)
            return [self._report(reading, growth, objects) for reading in readings]

    def leak_facts(self) -> dict[str, Any]:
        """The leak of this program's processes as the rules of advice take it under `host`, judged as that of a recorded run; empty where there is none."""
        self._own_sampler()
        readings = self.read()
        with self._lock:
            return self._leak_facts(readings)

    def _leak_facts(self, readings: list[DeviceReading]) -> dict[str, Any]:
        if self._at_end is not None:
            return dict(self._at_end[1])
        found = self._watch.leak_of_program(readings, newest_step())
        names = ("leak_bytes_per_second", "leak_resource", "leak_in_shared_memory", "leak_may_be_loading")
        return {} if found is None else dict(zip(names, found))

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        found = self._watch.look(readings, newest_step())
        by_device = {reading.device: reading for reading in readings}
        for device, sentence in found:
            reading = by_device.get(str(device))
            if sentence is None:
                for listen in self._over_listeners:
                    listen(device)
            elif reading is not None:
                self._tell(reading, sentence)
        for reading in readings:
            if reading.device not in self._told and self._compare(reading).is_beyond_baseline:
                self._told.add(reading.device)
                self._tell(reading)

    def _tell(self, reading: DeviceReading, sentence: str | None = None) -> None:
        report = self._report(reading, self._growth([]), {})
        self.leaks.append(report)
        if self.leak_callback is not None:
            self._delivery.post(report)
        for listen in self._listeners:
            listen(report, sentence)

    def _growth(self, readings: list[DeviceReading]) -> dict[str, dict[str, Any]]:
        if self._at_end is not None:
            return self._at_end[0]
        growth = self._watch.growth(readings, newest_step())
        return {str(device): said for device, said in growth}

    def _report(
        self, reading: DeviceReading, growth: dict[str, dict[str, Any]], objects: dict[str, int]
    ) -> LeakReport:
        report = dataclasses.replace(self._compare(reading), object_growth=objects)
        said = growth.get(reading.device)
        if said is None:
            return report
        mb_per_minute = said["bytes_per_sec"] * 60 / _MB
        return dataclasses.replace(report, kind=said["kind"], mb_per_minute=mb_per_minute, lasted_secs=said["lasted_secs"])

    def _compare(self, reading: DeviceReading) -> LeakReport:
        """With the baseline alone."""
        return LeakReport(reading.device, self._begin(reading), _held(reading), self.threshold_bytes, baseline_was_set=self._is_chosen)

    def _begin(self, reading: DeviceReading) -> int:
        """The device's baseline; one that came later begins with its first reading."""
        if self._baseline is None:
            self._baseline = {}
        return self._baseline.setdefault(reading.device, _held(reading))

    def _object_growth(self) -> dict[str, int]:
        """Types with more objects than at the baseline, the most first; empty without `count_objects`."""
        if self._objects is None:
            return {}
        more = count_by_name()
        more.subtract(self._objects)
        return {name: number for name, number in more.most_common(_MOST_TYPES) if number > 0}

    def _call_back(self, report: LeakReport) -> None:
        if self.leak_callback is not None:
            self.leak_callback(report)


def _held(reading: DeviceReading) -> int:
    """What can leak: the program's own, as closely as it is known."""
    if reading.torch_allocated is not None:
        return reading.torch_allocated
    return reading.allocated if reading.own is None else reading.own
