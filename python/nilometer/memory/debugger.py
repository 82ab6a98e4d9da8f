"""Profile, warnings and leaks together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from .._files import write_json
from .leak import LeakDetector, LeakReport
from .oom import OOMDetector, OOMPrediction
from .profiler import MemoryProfiler


class MemoryDebugger(contextlib.ContextDecorator):
    """One thing to start before training and to ask afterwards.

    >>> debugger = MemoryDebugger()
    >>> debugger.start_monitoring()
    >>> debugger.stop_monitoring()
    >>> report = debugger.get_status_report()
    >>> sorted(report)
    ['devices', 'leaks', 'oom', 'summary', 'timestamp']
    """

    def __init__(
        self,
        sampling_interval: float = 0.1,
        oom_threshold: float = 85.0,
        leak_threshold_mb: float = 100.0,
        warning_callback: Callable[[OOMPrediction], object] | None = None,
        leak_callback: Callable[[LeakReport], object] | None = None,
        devices: Sequence[int | str] | None = None,
    ) -> None:
        self.profiler = MemoryProfiler(sampling_interval, devices)
        self.oom_detector = OOMDetector(oom_threshold, warning_callback, max(sampling_interval, 0.1), devices)
        self.leak_detector = LeakDetector(leak_threshold_mb, leak_callback, max(sampling_interval, 1.0), devices)

    def start_monitoring(self) -> None:
        """Begins to look."""
        for part in self._parts():
            part.start_monitoring()

    def stop_monitoring(self) -> None:
        """Stops looking."""
        for part in self._parts():
            part.stop_monitoring()

    def set_baseline(self) -> None:
        """Takes the present level as the one that should stay; without this call it is the level at the start."""
        self.leak_detector.set_baseline()

    def check_leaks(self) -> list[LeakReport]:
        """Growth beyond the baseline."""
        return self.leak_detector.check()

    def get_status_report(self) -> dict[str, Any]:
        """Usage and statistics of every device, with risks and growth."""
        report = self.profiler.get_status()
        report["oom"] = [
            {
                "device": prediction.device_id,
                "risk_level": prediction.risk_level.value,
                "current_usage": round(prediction.current_usage, 2),
                "limit": prediction.limit_source,
                "recommendations": prediction.recommendations,
            }
            for prediction in self.oom_detector.check()
        ]
        report["leaks"] = [
            {"device": leak.device, "growth_mb": round(leak.growth_mb, 2), "is_leak": leak.is_leak}
            for leak in self.leak_detector.check()
        ]
        return report

    def generate_report(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """The same, written as JSON."""
        report = self.get_status_report()
        write_json(path, report)
        return report

    def __enter__(self) -> MemoryDebugger:
        self.start_monitoring()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_monitoring()

    def _parts(self) -> tuple[MemoryProfiler, OOMDetector, LeakDetector]:
        return (self.profiler, self.oom_detector, self.leak_detector)
