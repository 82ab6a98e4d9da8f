"""How long Python's garbage collections take, by `gc.callbacks`, and who asked for them."""

from __future__ import annotations

import gc
from array import array
from threading import get_ident
from time import perf_counter
from typing import Any

# Percentiles are of the latest pauses.
_KEPT = 2048
_OLDEST = 2


class PauseRecorder:
    """Counts collections while it is installed.

    The callback runs within each collection of any thread: it keeps no new objects, and writes numbers into arrays that exist already.
    A collection is automatic when more objects are waiting than the threshold says; the others were asked for by `gc.collect()`,
    by us (`own_thread` is set meanwhile) or by the program.
    What we collect to begin with (`is_start_up`) is no pause of the loop: its time is kept apart.
    Nor is what happens on a thread that writes a report (`aside_thread`), which counts nowhere.
    """

    def __init__(self) -> None:
        self.own_thread = self.aside_thread = 0
        self.is_start_up = False
        self.forget()

    def forget(self) -> None:
        """Begins anew."""
        self.begun_at = perf_counter()
        self.by_generation = [0, 0, 0]
        self.automatic = self.own = self.asked = self.full_asked = 0
        self.collected = self.uncollectable = 0
        self.total_secs = self.automatic_secs = self.own_secs = self.asked_secs = self.longest_secs = self.longest_automatic_secs = self.start_up_secs = 0.0
        # Since it was read last, for metrics.
        self.recent_longest_secs = 0.0
        self._count = 0
        self._latest = array("d", bytes(8 * _KEPT))
        self._started: float | None = None
        self._is_asked = self._is_automatic = False

    def install(self) -> None:
        if self._on_collection not in gc.callbacks:
            gc.callbacks.append(self._on_collection)

    def remove(self) -> None:
        if self._on_collection in gc.callbacks:
            gc.callbacks.remove(self._on_collection)
        self._started = None

    def percentile(self, share: float) -> float | None:
        """Of the latest pauses, by rank; None before the first."""
        pauses = sorted(self._latest[: min(self._count, _KEPT)])
        return pauses[min(len(pauses) - 1, int(share * len(pauses)))] if pauses else None

    @property
    def count(self) -> int:
        return self._count

    def _on_collection(self, phase: str, info: dict[str, Any]) -> None:
        if self.aside_thread == get_ident():
            return
        if phase == "start":
            generation = info["generation"]
            self._is_asked = self._is_automatic = False
            if self.own_thread == get_ident():
                self.own += not self.is_start_up
            elif gc.isenabled() and gc.get_count()[0] > gc.get_threshold()[0]:
                self._is_automatic = True
                self.automatic += 1
            else:
                self._is_asked = True
                self.asked += 1
                self.full_asked += generation == _OLDEST
            self._started = perf_counter()
            return
        started, self._started = self._started, None
        if started is None:
            return  # installed within a collection
        seconds = perf_counter() - started
        if self.is_start_up and self.own_thread == get_ident():
            self.start_up_secs += seconds
            return
        self.by_generation[min(info["generation"], _OLDEST)] += 1
        self.collected += info["collected"]
        self.uncollectable += info["uncollectable"]
        self.total_secs += seconds
        if self.own_thread == get_ident():
            self.own_secs += seconds
        if self._is_asked:
            self.asked_secs += seconds
        if seconds > self.longest_secs:
            self.longest_secs = seconds
        if self._is_automatic:
            self.automatic_secs += seconds
            if seconds > self.longest_automatic_secs:
                self.longest_automatic_secs = seconds
        if seconds > self.recent_longest_secs:
            self.recent_longest_secs = seconds
        self._latest[self._count % _KEPT] = seconds
        self._count += 1
