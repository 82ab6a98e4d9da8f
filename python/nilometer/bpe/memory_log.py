"""Memory and CPU of the process while a tokenizer is trained."""

from __future__ import annotations

import os
import pathlib
import time

from .._files import write_text
from .._native import peak_rss
from ..memory.readings import DeviceReading
from ..memory.watcher import Watcher

_MB = 1 << 20


class MemoryLog(Watcher):
    """Samples of memory in MB (2^20 bytes) and of CPU in percent of one core."""

    def __init__(self, interval: float) -> None:
        super().__init__(interval, ["host"])
        self.rows: list[tuple[float, float, float]] = []
        self.initial_mb = self.now_mb()
        # The kernel's high-water mark, which no spike between two samples escapes.
        self._first_mark = self._last_mark = peak_rss()
        self._cpu = (time.monotonic(), time.process_time())

    def now_mb(self) -> float:
        return self.read()[0].allocated / _MB

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        before, self._cpu = self._cpu, (time.monotonic(), time.process_time())
        wall = self._cpu[0] - before[0]
        percent = 100 * (self._cpu[1] - before[1]) / wall if self.rows and wall > 0 else 0.0
        self.rows.append((seconds, readings[0].allocated / _MB, percent))

    def stop_monitoring(self) -> None:
        super().stop_monitoring()
        self._last_mark = peak_rss()

    def statistics(self) -> dict[str, float]:
        levels = [self.initial_mb, *(memory for _, memory, _ in self.rows)]
        # A mark that did not rise is older than the monitoring.
        peak = max(levels)
        if self._last_mark > self._first_mark:
            peak = max(peak, self._last_mark / _MB)
        return {
            "initial_memory_mb": self.initial_mb,
            "final_memory_mb": levels[-1],
            "peak_memory_mb": peak,
            "average_memory_mb": sum(levels) / len(levels),
            "min_memory_mb": min(levels),
            "memory_growth_mb": peak - self.initial_mb,
            "total_samples": len(self.rows),
            "duration_seconds": self.rows[-1][0] if self.rows else 0.0,
        }

    def save(self, path: str | os.PathLike[str]) -> pathlib.Path:
        rows = (f"{seconds:.3f},{memory:.2f},{percent:.1f}\n" for seconds, memory, percent in self.rows)
        return write_text(path, "timestamp_seconds,memory_mb,cpu_percent\n" + "".join(rows))


def block(stats: dict[str, float]) -> str:
    """The statistics as a block of text."""
    rule = "=" * 50
    return "\n".join([
        rule,
        "MEMORY USAGE STATISTICS",
        rule,
        f"Peak Memory Usage:    {stats['peak_memory_mb']:.2f} MB",
        f"Average Memory Usage: {stats['average_memory_mb']:.2f} MB",
        f"Minimum Memory Usage: {stats['min_memory_mb']:.2f} MB",
        f"Memory Growth:        {stats['memory_growth_mb']:+.2f} MB",
        f"Total Samples:        {stats['total_samples']:.0f}",
        f"Monitoring Duration:  {stats['duration_seconds']:.2f} seconds",
        rule,
    ])
