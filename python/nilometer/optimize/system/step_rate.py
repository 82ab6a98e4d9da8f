"""How fast steps are made, from the first to the last of them: what came before is no training."""

from __future__ import annotations

import time


class StepRate:
    """Steps and samples a second.

    >>> rate = StepRate()
    >>> rate.add(8)
    >>> rate.seconds_per_step is None
    True
    """

    def __init__(self) -> None:
        self._first_at = self._last_at = 0.0
        self._steps = self._samples = 0

    def add(self, samples: int) -> None:
        """A step is over. The time of the first is not known: its samples do not count."""
        now = time.perf_counter()
        if not self._first_at:
            self._first_at = self._last_at = now
            return
        self._last_at = now
        self._steps += 1
        self._samples += samples

    def leave_out(self, seconds: float) -> None:
        """What took so long since the last step is no part of the next one."""
        if self._first_at:
            self._first_at += seconds
            self._last_at += seconds

    @property
    def _seconds(self) -> float:
        return self._last_at - self._first_at

    @property
    def seconds_per_step(self) -> float | None:
        return self._seconds / self._steps if self._steps else None

    @property
    def steps_per_second(self) -> float | None:
        return self._steps / self._seconds if self._seconds else None

    @property
    def samples_per_second(self) -> float | None:
        return self._samples / self._seconds if self._seconds and self._samples else None
