"""A memory budget that the program set for itself, below the limit in force."""

from __future__ import annotations

from typing import Any

from .readings import DeviceReading

BUDGET = "budget"
"""Its device among alerts that stand; whoever is told hears of `host`."""
# A level is calm this far below its threshold, in percent, as in the rules of the command.
_CALM_BELOW = 3.0
_MIB = 1 << 20

Found = tuple[str, str, "dict[str, Any] | None"]


class OwnBudget:
    """Says when the program's memory reaches a percentage of its budget, and when that is over."""

    def __init__(self, max_bytes: int, warning_percent: float, critical_percent: float) -> None:
        self.max_bytes = max_bytes
        self._thresholds = {"warning_memory": warning_percent, "critical_memory": critical_percent}
        self._standing: set[str] = set()

    def look(self, reading: DeviceReading) -> list[Found]:
        """In the shape of `AlertWatch.look`. A limit in force that is smaller is the judge's affair."""
        if reading.total and reading.total <= self.max_bytes:
            return []
        percent = 100 * reading.allocated / self.max_bytes
        found: list[Found] = []
        for kind, threshold in self._thresholds.items():
            if percent >= threshold and kind not in self._standing:
                self._standing.add(kind)
                found.append((kind, BUDGET, self._details(reading, percent, threshold)))
            elif percent < threshold - _CALM_BELOW and kind in self._standing:
                self._standing.remove(kind)
                found.append((kind, BUDGET, None))
        return found

    def _details(self, reading: DeviceReading, percent: float, threshold: float) -> dict[str, Any]:
        return {
            "device": reading.device,
            "message": f"job memory is at {percent:.0f} % of the budget: {reading.allocated / _MIB:.0f} of {self.max_bytes / _MIB:.0f} MiB (threshold: {threshold:g} %)",
            "current_usage": percent,
            "limit": "the program's own budget",
            "threshold": threshold,
        }
