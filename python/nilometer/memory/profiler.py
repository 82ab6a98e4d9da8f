"""A profile of memory over time."""

from __future__ import annotations

import array
import datetime
import math
import os
from collections.abc import Sequence
from typing import Any

from .. import _native
from .._files import write_json
from ..run import active_run
from .readings import HOST, DeviceReading
from .watcher import Watcher

_MOST_SAMPLES = 1_000_000


class MemoryProfiler(Watcher):
    """Samples memory of the process tree and of its GPUs, and reports levels and statistics.

    `sampling_interval` is in seconds; `devices` chooses among GPU indices and `"host"`.
    A device's `trend` is `increasing`, `decreasing` or `stable` over the time watched; None when there were too few samples.

    >>> profiler = MemoryProfiler(sampling_interval=0.01)
    >>> profiler.start_monitoring()
    >>> block = bytearray(50 << 20)
    >>> profiler.stop_monitoring()
    >>> report = profiler.generate_report()
    >>> sorted(report), sorted(report["devices"]["host"])
    (['devices', 'summary', 'timestamp'], ['current_usage', 'statistics'])
    """

    def __init__(self, sampling_interval: float = 0.1, devices: Sequence[int | str] | None = None) -> None:
        super().__init__(sampling_interval, devices)
        self._levels: dict[str, _Levels] = {}
        self._own_sampler()

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        _store(readings)
        for reading in readings:
            self._levels.setdefault(reading.device, _Levels()).add(reading, seconds)

    def samples(self, device: str | int = "host") -> list[tuple[float, int]]:
        """Seconds since the start and bytes, of one device."""
        self._own_sampler()
        with self._lock:
            levels = self._levels.get(str(device))
            return [] if levels is None else list(zip(levels.seconds, levels.allocated))

    def get_status(self) -> dict[str, Any]:
        """The report as a dictionary: for each device its usage now and statistics so far. `summary` is of the GPUs, as that of `nilo profile`."""
        devices: dict[str, Any] = {}
        readings = self.read()
        with self._lock:
            for reading in readings:
                levels = self._levels.setdefault(reading.device, _Levels())
                levels.look(reading)
                devices[reading.device] = {
                    "current_usage": {
                        "allocated": reading.allocated,
                        "free": reading.free,
                        "total": reading.total,
                        "utilization_percent": round(reading.utilization_percent, 2),
                        "limit": reading.source,
                        **_own_part(reading),
                        **_torch_part(reading),
                    },
                    "statistics": levels.statistics(),
                }
        gpus = [reading for reading in readings if reading.device != HOST]
        count, total_gb, percent = _native.gpu_totals([(reading.allocated, reading.total) for reading in gpus])
        return {
            "timestamp": datetime.datetime.now().isoformat(timespec="seconds"),
            "devices": devices,
            "summary": {
                "total_devices": count,
                "total_memory_gb": total_gb,
                "overall_utilization": percent,
            },
        }

    def generate_report(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """The report; written as JSON to `path` when given."""
        report = self.get_status()
        if path is not None:
            write_json(path, report)
        return report


def _store(readings: list[DeviceReading]) -> None:
    """GPU memory goes into the run that the program is in; the host's is there already."""
    run = active_run()
    if run is None:
        return
    for reading in readings:
        if reading.torch_allocated is not None and reading.torch_reserved is not None:
            # The peaks are the allocator's own and not looked up at every sample.
            run.torch_memory(
                int(reading.device),
                allocated_bytes=reading.torch_allocated,
                reserved_bytes=reading.torch_reserved,
                device_free_bytes=reading.free,
                device_total_bytes=reading.total,
            )


class _Levels:
    """The levels of one device."""

    def __init__(self) -> None:
        self.seconds = array.array("d")
        self.allocated = array.array("Q")
        self.count = 0
        self.sum_percent = 0.0
        self.last_percent = 0.0
        self.max_percent = 0.0
        self.min_percent = math.inf
        self.peak = 0

    def look(self, reading: DeviceReading) -> None:
        """The extremes are of every look, those for a report too; mean, count and curve are of the samples."""
        self.last_percent = reading.utilization_percent
        self.max_percent = max(self.max_percent, self.last_percent)
        self.min_percent = min(self.min_percent, self.last_percent)
        self.peak = max(self.peak, reading.allocated)

    def add(self, reading: DeviceReading, seconds: float) -> None:
        self.look(reading)
        self.sum_percent += self.last_percent
        self.count += 1
        if len(self.seconds) >= _MOST_SAMPLES:
            # Every second sample is dropped: the curve keeps its shape and memory its bound.
            self.seconds = self.seconds[::2]
            self.allocated = self.allocated[::2]
        self.seconds.append(seconds)
        self.allocated.append(max(reading.allocated, 0))

    def statistics(self) -> dict[str, Any]:
        mean = self.sum_percent / self.count if self.count else self.last_percent
        return {
            "avg_utilization": round(mean, 2),
            "max_utilization": round(self.max_percent, 2),
            "min_utilization": round(self.min_percent, 2),
            "peak_allocated": self.peak,
            "samples_count": self.count,
            "trend": self.trend(),
        }

    def trend(self) -> str | None:
        # It looks at sixty points; a thousand are enough to choose them from.
        every = max(len(self.seconds) // 1000, 1)
        return _native.level_trend(self.seconds[::every], self.allocated[::every])


def _own_part(reading: DeviceReading) -> dict[str, int | str]:
    """What the program's own processes hold of a GPU, or why that is not known; the rest is other people's."""
    if reading.own_unknown is not None:
        return {"own_unknown": reading.own_unknown}
    return {} if reading.own is None else {"own": reading.own}


def _torch_part(reading: DeviceReading) -> dict[str, int]:
    if reading.torch_allocated is None or reading.torch_reserved is None:
        return {}
    others = max(reading.allocated - reading.torch_reserved, 0)
    return {
        "torch_allocated": reading.torch_allocated,
        "torch_reserved": reading.torch_reserved,
        "non_torch": others,
    }
