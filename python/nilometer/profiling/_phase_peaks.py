"""The peak of GPU memory within a phase, from two looks at the allocator's counters; the program's own counters stay as they are.

The allocator's peak only rises, until the program resets it. If it rose within the phase, the phase's peak is the new one.
Otherwise the phase's peak lies between bounds:
at least what was allocated when the phase began and when it ended, at most the old peak, and at most what was allocated when it began and all that was allocated since.
Both bounds are stored. They meet where the phase freed nothing or allocated nothing.

A program that resets the peak (`torch.cuda.reset_peak_memory_stats`) between phases makes them narrower.
One that resets it within a phase, after which the peak rises beyond the old one, hides what was higher before.
"""

from __future__ import annotations

import time
from typing import Any

from .._allocator_figures import AllocatorFigures, read_allocator
from .._trouble import warn_once

# A look that took so long is followed by the phase's next one a thousand times as late: it costs 0.1 % of the time.
_PAUSE_PER_COST = 1000
# The first look may be a slow one.
_LONGEST_PAUSE_SECS = 1.0
# Memory rises to its peak in the first steps.
_ALWAYS_LOOKED_AT = 3
_MOST_PHASES = 1000


def peak_bounds(began: AllocatorFigures | None, ended: AllocatorFigures | None) -> tuple[int, int] | None:
    """The bytes that were allocated at the peak between two looks: at least and at most. None where no upper bound is known.

    >>> before = AllocatorFigures(10, 99, 50, 99, 0, 1000, 0, 0)
    >>> peak_bounds(before, before._replace(peak_allocated=70))
    (70, 70)
    >>> peak_bounds(before, before._replace(allocated=20, ever_allocated=1010))
    (20, 20)
    >>> peak_bounds(before, before._replace(allocated=20, ever_allocated=1900))
    (20, 50)
    """
    if began is None or ended is None:
        return None
    if ended.peak_allocated > began.peak_allocated:
        return (ended.peak_allocated, ended.peak_allocated)
    at_least = max(began.allocated, ended.allocated)
    at_most = []
    if ended.peak_allocated == began.peak_allocated:
        at_most.append(ended.peak_allocated)
    else:
        # The program reset the peak meanwhile; what it is since then was reached in the phase.
        at_least = max(at_least, ended.peak_allocated)
    if began.ever_allocated is not None and ended.ever_allocated is not None:
        came = ended.ever_allocated - began.ever_allocated
        if came >= 0:
            at_most.append(began.allocated + came)
    return (at_least, max(at_least, min(at_most))) if at_most else None


class PhasePeaks:
    """Looks at the allocator of one GPU when phases begin and end: always in the first ones of a name, then within 0.1 % of the time."""

    def __init__(self, torch: Any, device: int) -> None:
        self._torch = torch
        self._device = device
        # By phase: how often it was looked at, and when it is due again.
        self._looks: dict[str, tuple[int, float]] = {}
        self._spent = 0.0

    def look(self) -> AllocatorFigures | None:
        """The counters now; None where they cannot be read, which is said once."""
        if self._torch is None:
            return None
        began = time.perf_counter()
        try:
            figures = read_allocator(self._torch, self._device)
        except Exception as error:  # noqa: BLE001 - another allocator than PyTorch's own may refuse
            self._torch = None
            warn_once(f"the GPU memory of phases is not recorded: {error}")
            return None
        self._spent = time.perf_counter() - began
        return figures

    def begin(self, path: str) -> AllocatorFigures | None:
        """A look at the beginning of a phase; None where its turn has not come."""
        looks, due = self._looks.get(path, (0, 0.0))
        now = time.perf_counter()
        if now < due and looks >= _ALWAYS_LOOKED_AT or not looks and len(self._looks) >= _MOST_PHASES:
            return None
        figures = self.look()
        # The look at its end costs the same.
        pause = min(2 * self._spent * _PAUSE_PER_COST, _LONGEST_PAUSE_SECS)
        self._looks[path] = (looks + 1, now + pause)
        return figures
