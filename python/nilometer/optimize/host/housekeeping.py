"""What the system does beside the program: a thread that logs figures of buffers and collects garbage where no step does."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Any

from ..._trouble import NilometerError
from ..in_run import newest_step, tell_metrics
from . import garbage

_log = logging.getLogger("nilometer.optimize")
_MIB = 1 << 20


def buffer_metrics(statistics: dict[str, Any]) -> dict[str, float]:
    """Figures of a `BufferManager` and its replay buffers under `buffer/NAME/…`; what nothing tells of is left out.

    >>> buffer_metrics({"hits": 3, "hit_rate": 0.75, "memory_bytes": 1 << 20, "compression_ratio": None, "buffers": {}})
    {'buffer/cache/hit_rate': 0.75, 'buffer/cache/memory_mb': 1.0}
    """
    found: dict[str, float] = {}
    for name, one in {"cache": statistics, **statistics.get("buffers", {})}.items():
        if not (one.get("memory_bytes") or one.get("hits") or one.get("misses") or one.get("transitions")):
            continue
        values = {
            "hit_rate": one.get("hit_rate"),
            "memory_mb": one["memory_bytes"] / _MIB if one.get("memory_bytes") is not None else None,
            "compression_ratio": _ratio(one),
        }
        found |= {f"buffer/{name}/{key}": float(value) for key, value in values.items() if value is not None}
    return found


def _ratio(one: dict[str, Any]) -> float | None:
    """Of a manager its own arrays alone; the ratio in its statistics is that of all buffers together."""
    if "stored_bytes" in one and "raw_bytes" in one:
        return float(one["raw_bytes"] / one["stored_bytes"]) if one["stored_bytes"] else None
    return one.get("compression_ratio")


def start_collector(**settings: Any) -> tuple[garbage.GarbageCollector, bool]:
    """A started garbage collector and whether it is ours: where one is started already in this process, that one serves."""
    collector = garbage.GarbageCollector(**settings)
    try:
        collector.start()
    except NilometerError:
        active = garbage._active() if garbage._active is not None else None
        return (collector if active is None else active), False
    return collector, True


class Housekeeping(threading.Thread):
    """Logs the figures of buffers once per interval, and has young garbage collected where the program makes no steps."""

    def __init__(self, collector: garbage.GarbageCollector | None, buffers: Any, interval: float, collect_every: float) -> None:
        super().__init__(name="nilo-housekeeping", daemon=True)
        self._collector = collector
        self._buffers = buffers
        self._interval = interval
        self._collect_every = collect_every
        self._ended = threading.Event()
        self.collections = 0
        self._collected_at = time.monotonic()
        self._steps = 0

    def run(self) -> None:
        while not self._ended.wait(min(self._interval, self._collect_every)):
            # Whatever goes wrong here must not disturb the training.
            try:
                self.look()
            except Exception as error:  # noqa: BLE001
                _log.warning("housekeeping failed and goes on: %s: %s", type(error).__name__, error)

    def look(self) -> None:
        """One round."""
        if self._buffers is not None:
            metrics, step = buffer_metrics(self._buffers.stats()), newest_step()
            # A figure without a step would be counted as one of the program's own.
            if metrics and step is not None:
                tell_metrics(metrics, step=step)
        if self._collector is not None and time.monotonic() - self._collected_at >= self._collect_every:
            steps = self._collector.stats()["steps"]
            # Where steps are made, they collect by the same interval.
            if steps == self._steps:
                self._collector.collect(1)
                self.collections += 1
            self._steps = steps
            self._collected_at = time.monotonic()

    def end(self) -> None:
        """Ends the thread and waits for it."""
        self._ended.set()
        if self.is_alive() and self is not threading.current_thread():
            with contextlib.suppress(RuntimeError):
                self.join(timeout=10)
