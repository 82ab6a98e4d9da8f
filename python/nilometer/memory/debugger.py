"""Profile, warnings, leaks and alerts together."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import Any

from .._files import write_json
from .._trouble import require_type
from .alerts import Alerts
from .fragmentation import analyze_fragmentation
from .leak import LeakDetector
from .leak_report import LeakReport
from .object_counts import COUNTED_OBJECTS
from .oom import OOMDetector
from .percent import GPU_CRITICAL_PERCENT, GPU_WARNING_PERCENT, HOST_CRITICAL_PERCENT, HOST_WARNING_PERCENT, OOM_PERCENT
from .prediction import OOMPrediction
from .profiler import MemoryProfiler
from .readings import HOST, resource_name
from .watcher import Watcher


class MemoryDebugger(contextlib.ContextDecorator):
    """One thing to start before training and to ask afterwards.

    Its parts share one thread and one process tree with each other and with every other detector.
    `monitoring_interval` is another word for `sampling_interval`. Thresholds are percentages, or fractions below 1.
    `count_objects` finds Python objects that are kept, of those that the garbage collector tracks: their number by type is counted at the start (or `set_baseline`) and for a report,
    which takes a walk over all of them (a tenth of a second for a million); `count_objects=False` leaves it out.
    `max_memory_bytes` is a budget of the program's own: its level and where it goes are judged against that too, where the limit in force is larger.

    >>> debugger = MemoryDebugger()
    >>> debugger.start_monitoring()
    >>> debugger.stop_monitoring()
    >>> report = debugger.get_status_report()
    >>> sorted(report)
    ['devices', 'fragmentation', 'leaks', 'oom', 'python_objects', 'python_objects_counted', 'resources', 'summary', 'timestamp']
    """

    def __init__(
        self,
        sampling_interval: float = 0.1,
        oom_threshold: float = OOM_PERCENT,
        leak_threshold_mb: float = 100.0,
        warning_callback: Callable[[OOMPrediction], object] | None = None,
        leak_callback: Callable[[LeakReport], object] | None = None,
        devices: Sequence[int | str] | None = None,
        *,
        warning_percent: float = HOST_WARNING_PERCENT,
        critical_percent: float = HOST_CRITICAL_PERCENT,
        gpu_warning_percent: float = GPU_WARNING_PERCENT,
        gpu_critical_percent: float = GPU_CRITICAL_PERCENT,
        monitoring_interval: float | None = None,
        count_objects: bool = True,
        max_memory_bytes: int | None = None,
    ) -> None:
        if monitoring_interval is not None:
            require_type(monitoring_interval, (int, float), "monitoring_interval")
            sampling_interval = monitoring_interval
        self.profiler = MemoryProfiler(sampling_interval, devices)
        self.oom_detector = OOMDetector(
            oom_threshold, warning_callback, max(sampling_interval, 0.1), devices, max_memory_bytes=max_memory_bytes
        )
        self.leak_detector = LeakDetector(
            leak_threshold_mb, leak_callback, max(sampling_interval, 1.0), devices, count_objects=count_objects
        )
        self._alerts = Alerts(
            (warning_percent, critical_percent),
            (gpu_warning_percent, gpu_critical_percent),
            max(sampling_interval, 0.1),
            devices,
            self.oom_detector.max_memory_bytes,
        )
        self.leak_detector._listeners.append(self._on_leak)
        self.leak_detector._over_listeners.append(self._alerts.on_leak_over)

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
        self._alerts.forget_leaks()

    def check_leaks(self) -> list[LeakReport]:
        """Growth beyond the baseline, and trends."""
        return self.leak_detector.check()

    def add_alert_callback(self, callback: Callable[[dict[str, Any]], object]) -> None:
        """Calls it with a dictionary for every alert while monitoring, on a thread of its own.

        `type` is `warning_memory` or `critical_memory` when the host's usage reaches `warning_percent` or `critical_percent`,
        `gpu_warning_memory` or `gpu_critical_memory` for a GPU,
        `memory_leak` for a trend that three looks ten seconds apart have found, or for growth by more than `leak_threshold_mb` beyond a baseline that was set, and `oom_risk` when memory is forecast to run out.
        Each is said once, and again only after it was over; a callback that is added later is told at once of what stands. `device`, `timestamp` and `message` are in all of them.
        """
        self._alerts.add(callback)

    def active_alerts(self) -> list[dict[str, Any]]:
        """The alerts that are not over, as a callback is told of them."""
        return self._alerts.standing()

    def get_status_report(self) -> dict[str, Any]:
        """Usage and statistics of every device, with forecasts and growth. A device is called the same everywhere: `0`, `host`.

        `resources` says what of each is meant in `devices` and `leaks`: of the host this program's process tree (`job memory`).
        What may run out (`oom`) is that against its limit, or the memory of the whole machine (`host memory`), as its `resource` says.
        `python_objects` has the types with more objects than at the baseline, the most first, of those that `python_objects_counted` names:
        Python's garbage collector knows containers and instances, not numbers, texts, bytes, or dictionaries and tuples of these.
        `fragmentation` has what `analyze_fragmentation` says of each GPU among the devices; without a GPU it is empty.
        """
        report = self.profiler.get_status()
        report["resources"] = {device: resource_name(device) for device in report["devices"]}
        report["fragmentation"] = {
            device: analyze_fragmentation(device) for device in report["devices"] if device != HOST
        }
        report["oom"] = [
            {
                "device": str(prediction.device_id),
                "resource": prediction.resource,
                "risk_level": prediction.risk_level.value,
                "current_usage": round(prediction.current_usage, 2),
                "limit": prediction.limit_source,
                "recommendations": prediction.recommendations,
                "reason": prediction.reason,
                "cause": prediction.cause,
                "predicted_oom_seconds": prediction.predicted_oom_seconds,
                "predicted_oom_range": prediction.predicted_oom_range,
                "confidence": prediction.confidence,
            }
            for prediction in self.oom_detector.check()
        ]
        leaks = self.leak_detector.check()
        report["leaks"] = [
            {
                "device": leak.device,
                "growth_mb": round(leak.growth_mb, 2),
                "is_leak": leak.is_leak,
                "kind": leak.kind,
                "mb_per_minute": leak.mb_per_minute,
                "lasted_secs": leak.lasted_secs,
            }
            for leak in leaks
        ]
        # Objects are the program's, not a device's.
        report["python_objects"] = leaks[0].object_growth if leaks else {}
        report["python_objects_counted"] = COUNTED_OBJECTS if self.leak_detector.counts_objects else None
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

    def _on_leak(self, report: LeakReport, sentence: str | None) -> None:
        # Beyond the level at the start lies every model that is loaded; an alert takes a trend that several looks have found, or a baseline that somebody chose.
        if sentence is not None or report.baseline_was_set:
            self._alerts.on_leak(report, str(report) if sentence is None else sentence)

    def _parts(self) -> tuple[Watcher, ...]:
        return (self.profiler, self.oom_detector, self.leak_detector, self._alerts)
