"""Alerts as dictionaries, each told once until it is over."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .. import _native
from .._trouble import require
from .delivery import Delivery
from .leak_report import LeakReport
from .percent import GPU_CRITICAL_PERCENT, GPU_WARNING_PERCENT, HOST_CRITICAL_PERCENT, HOST_WARNING_PERCENT, as_percent
from .readings import HOST, DeviceReading
from .sampler import Sampler
from .training_steps import newest_step
from .watcher import Watcher

# Whoever is told of an alert of the second type is not told of one of the first.
_WORSE = {"warning_memory": "critical_memory", "gpu_warning_memory": "gpu_critical_memory"}


class Alerts(Watcher):
    """Alerts by the rules of `nilo run`, for any number of callbacks, each of which may raise or block by itself; leaks come from outside."""

    _is_judge = True

    def __init__(
        self,
        host_percents: tuple[float, float] = (HOST_WARNING_PERCENT, HOST_CRITICAL_PERCENT),
        gpu_percents: tuple[float, float] = (GPU_WARNING_PERCENT, GPU_CRITICAL_PERCENT),
        sampling_interval: float = 0.5,
        devices: Sequence[int | str] | None = None,
        max_bytes: int | None = None,
    ) -> None:
        super().__init__(sampling_interval, devices)
        self._host_percents = _percents(host_percents, "")
        self._gpu_percents = _percents(gpu_percents, "gpu_")
        self._max_bytes = max_bytes
        self._deliveries: list[Delivery] = []
        self._own_sampler()

    def _join(self, sampler: Sampler) -> None:
        self._watch = _native.AlertWatch(
            sampler.monitor, self._host_percents, self._gpu_percents, self._wants_host, self._max_bytes
        )
        # The newest alert of each type and device that is not over: whoever comes later is told of these.
        self._standing: dict[tuple[str, int | str], dict[str, Any]] = {}
        self._telling = threading.Lock()

    def add(self, callback: Callable[[dict[str, Any]], object]) -> None:
        require(callable(callback), f"callback must be callable, not {type(callback).__name__}")
        self._own_sampler()
        delivery = Delivery(callback, "alert callback", self._say_once)
        with self._telling:
            self._deliveries.append(delivery)
            standing = [
                alert
                for (kind, device), alert in self._standing.items()
                if (_WORSE.get(kind), device) not in self._standing
            ]
        for alert in standing:
            delivery.post(dict(alert))

    def standing(self) -> list[dict[str, Any]]:
        """The alerts that are not over, each as it was told."""
        self._own_sampler()
        with self._telling:
            return [dict(alert) for alert in self._standing.values()]

    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        found = self._watch.look(readings, newest_step())
        raised = {(kind, device) for kind, device, details in found if details is not None}
        for kind, device, details in found:
            if details is None:
                self._over(kind, device)
            else:
                self._raise(kind, device, details, is_told=(_WORSE.get(kind), device) not in raised)

    def on_leak(self, report: LeakReport, message: str) -> None:
        """A leak, which is told once until it is over: growth beyond a baseline may have the trend of one later."""
        device: int | str = report.device if report.device == HOST else int(report.device)
        with self._telling:
            if ("memory_leak", device) in self._standing:
                return
        self._raise(
            "memory_leak",
            device,
            {
                "message": message,
                "kind": report.kind,
                "growth_mb": report.growth_mb,
                "mb_per_minute": report.mb_per_minute,
            },
        )

    def on_leak_over(self, device: int | str) -> None:
        self._over("memory_leak", device)

    def forget_leaks(self) -> None:
        """A new baseline: what leaked beyond the old one is over."""
        self._own_sampler()
        with self._telling:
            self._standing = {key: alert for key, alert in self._standing.items() if key[0] != "memory_leak"}

    def _raise(self, kind: str, device: int | str, details: dict[str, Any], *, is_told: bool = True) -> None:
        moment = datetime.datetime.now().isoformat(timespec="seconds")
        alert = {"type": kind, "device": device, "timestamp": moment, **details}
        with self._telling:
            self._standing[kind, device] = alert
            deliveries = list(self._deliveries) if is_told else []
        for delivery in deliveries:
            # A dictionary each, so that one callback may change its own.
            delivery.post(dict(alert))

    def _over(self, kind: str, device: int | str) -> None:
        with self._telling:
            self._standing.pop((kind, device), None)


def _percents(thresholds: tuple[float, float], prefix: str) -> tuple[float, float]:
    warning = as_percent(thresholds[0], f"{prefix}warning_percent")
    critical = as_percent(thresholds[1], f"{prefix}critical_percent")
    names = f"{prefix}warning_percent and {prefix}critical_percent"
    require(warning <= critical, f"{names} must be percentages in this order, not {warning:g} and {critical:g}")
    return (warning, critical)
