"""How much of a training loop's time may be spent on looking."""

from __future__ import annotations

START_SECS = 20.0
START_FACTOR = 5
"""For the first seconds of a loop the share is so many times as large: a short training gets an answer too."""
_LATEST = 3


def allowed_secs(elapsed_secs: float, share: float) -> float:
    """Of the loop's time so far, what all looking together may take."""
    seconds = max(elapsed_secs, 1e-9)
    return share * (seconds + (START_FACTOR - 1) * min(seconds, START_SECS))


class TimeRation:
    """Keeps what is done again and again to a part of what is allowed.

    Nothing is begun that would exceed it, judged by the quickest of the latest three: one that was interrupted says little about the next.

    >>> ration = TimeRation(part=0.5, expected_secs=0.1)
    >>> ration.has_left(0.1), ration.has_left(0.2)
    (False, True)
    >>> ration.spend(0.4)
    >>> ration.has_left(0.9), ration.has_left(1.1)
    (False, True)
    """

    def __init__(self, part: float, expected_secs: float) -> None:
        self.part = part
        self.expected_secs = expected_secs
        self.spent_secs = 0.0
        self._latest = [expected_secs]

    def left_secs(self, allowed: float) -> float:
        """Of its part of what is allowed."""
        return self.part * allowed - self.spent_secs

    def has_left(self, allowed: float) -> bool:
        """Whether one more is within its part of what is allowed."""
        return self.expected_secs <= self.left_secs(allowed)

    def spend(self, seconds: float, *, is_usual: bool = True) -> None:
        """One was done. One that is not usual says nothing about the next."""
        self.spent_secs += seconds
        if is_usual:
            self._latest = [*self._latest[1 - _LATEST :], seconds]
            self.expected_secs = min(self._latest)

    def expect(self, seconds: float) -> None:
        """The next takes so long, whatever those before it took."""
        self._latest = [seconds]
        self.expected_secs = seconds
