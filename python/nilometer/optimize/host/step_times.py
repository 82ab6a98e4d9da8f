"""Times of training steps, and how often something may be done beside them."""

from __future__ import annotations

import statistics
from array import array

_KEPT = 512


class StepTimes:
    """Counts steps and keeps the times of the latest."""

    def __init__(self) -> None:
        self.count = 0
        self.last_at: float | None = None
        self._secs = array("d")

    def note(self, now: float) -> None:
        if self.last_at is not None:
            if len(self._secs) == _KEPT:
                self._secs[self.count % _KEPT] = now - self.last_at
            else:
                self._secs.append(now - self.last_at)
        self.last_at = now
        self.count += 1

    def pause(self) -> None:
        """What comes before the next step is no part of it."""
        self.last_at = None

    def leave_out(self, seconds: float) -> None:
        """What took so long within the running step is no part of it."""
        if self.last_at is not None:
            self.last_at += seconds

    def median(self) -> float | None:
        return statistics.median(self._secs) if self._secs else None


class Throttle:
    """Lets something happen again only after so long that it takes no more than a share of the time."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._not_before = 0.0

    def allows(self, now: float) -> bool:
        return now >= self._not_before

    def spend(self, begun: float, ended: float) -> None:
        self._not_before = ended + (ended - begun) / self._share

    def reset(self) -> None:
        """The next one may happen at once."""
        self._not_before = 0.0
