"""Alerts as dictionaries: fixed levels, forecasts and leaks, each said once until it is over."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

from .._trouble import require
from .delivery import Delivery
from .forecaster import RiskLevel
from .leak_report import LeakReport
from .percent import as_percent
from .prediction import OOMPrediction
from .readings import HOST

# A level is over only this far below its threshold.
_HYSTERESIS_PERCENT = 3.0


class Alerts:
    """Turns predictions and leak reports into alerts for any number of callbacks, each of which may raise or block by itself."""

    def __init__(
        self, host_percents: tuple[float, float], gpu_percents: tuple[float, float], complain: Callable[[str], None]
    ) -> None:
        self._host_percents = _percents(host_percents, "")
        self._gpu_percents = _percents(gpu_percents, "gpu_")
        self._complain = complain
        self._deliveries: list[Delivery] = []
        # For each device: how many of its two thresholds were said, and the forecast's level that was.
        self._levels: dict[int | str, int] = {}
        self._risks: dict[int | str, RiskLevel] = {}
        # The newest alert of each kind and device that is not over: whoever comes later is told of these.
        self._standing: dict[tuple[str, int | str], dict[str, Any]] = {}
        self._lock = threading.Lock()

    def add(self, callback: Callable[[dict[str, Any]], object]) -> None:
        require(callable(callback), f"callback must be callable, not {type(callback).__name__}")
        delivery = Delivery(callback, "alert callback", self._complain)
        with self._lock:
            self._deliveries.append(delivery)
            standing = list(self._standing.values())
        for alert in standing:
            delivery.post(dict(alert))

    def forget_leaks(self) -> None:
        """A new baseline: what leaked beyond the old one is over."""
        with self._lock:
            self._standing = {key: alert for key, alert in self._standing.items() if key[0] != "leak"}

    def on_prediction(self, prediction: OOMPrediction) -> None:
        self._judge_level(prediction)
        self._judge_risk(prediction)

    def on_leak(self, report: LeakReport) -> None:
        self._say(
            "leak",
            "memory_leak",
            report.device if report.device == HOST else int(report.device),
            str(report),
            kind=report.kind,
            growth_mb=report.growth_mb,
            mb_per_minute=report.mb_per_minute,
        )

    def _judge_level(self, prediction: OOMPrediction) -> None:
        device, percent = prediction.device_id, prediction.current_usage
        is_host = device == HOST
        percents = self._host_percents if is_host else self._gpu_percents
        before = self._levels.get(device, 0)
        reached = sum(percent >= threshold for threshold in percents)
        # Thresholds said before hold until the level is clearly below them.
        held = sum(percent >= threshold - _HYSTERESIS_PERCENT for threshold in percents[:before])
        self._levels[device] = max(reached, held)
        if self._levels[device] == 0:
            self._over("level", device)
        if reached > before:
            word = ("warning", "critical")[reached - 1]
            self._say(
                "level",
                f"{word}_memory" if is_host else f"gpu_{word}_memory",
                device,
                f"{prediction.device_name}: {percent:.1f}% used, at or above {percents[reached - 1]:g}%",
                current_usage=percent,
                threshold=percents[reached - 1],
                limit=prediction.limit_source,
            )

    def _judge_risk(self, prediction: OOMPrediction) -> None:
        device, level = prediction.device_id, prediction.forecast_level
        before = self._risks.get(device, RiskLevel.LOW)
        if level.rank > max(before.rank, RiskLevel.MODERATE.rank):
            self._risks[device] = level
            self._say(
                "risk",
                "oom_risk",
                device,
                f"{prediction.device_name}: {prediction.reason}",
                risk_level=level.value,
                current_usage=prediction.current_usage,
                predicted_oom_seconds=prediction.predicted_oom_seconds,
                predicted_oom_range=prediction.predicted_oom_range,
                confidence=prediction.confidence,
                cause=prediction.cause,
                recommendations=list(prediction.recommendations),
                limit=prediction.limit_source,
            )
        elif level is RiskLevel.LOW:
            self._risks.pop(device, None)
            self._over("risk", device)

    def _say(self, kind: str, type: str, device: int | str, message: str, /, **details: Any) -> None:
        moment = datetime.datetime.now().isoformat(timespec="seconds")
        alert = {"type": type, "device": device, "timestamp": moment, "message": message, **details}
        with self._lock:
            self._standing[kind, device] = alert
            deliveries = list(self._deliveries)
        for delivery in deliveries:
            # A dictionary each, so that one callback may change its own.
            delivery.post(dict(alert))

    def _over(self, kind: str, device: int | str) -> None:
        with self._lock:
            self._standing.pop((kind, device), None)


def _percents(thresholds: tuple[float, float], prefix: str) -> tuple[float, float]:
    warning = as_percent(thresholds[0], f"{prefix}warning_percent")
    critical = as_percent(thresholds[1], f"{prefix}critical_percent")
    names = f"{prefix}warning_percent and {prefix}critical_percent"
    require(warning <= critical, f"{names} must be percentages in this order, not {warning:g} and {critical:g}")
    return (warning, critical)
