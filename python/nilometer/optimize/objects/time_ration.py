"""How much of a training loop's time may be spent on looking."""

from __future__ import annotations

START_SECS = 20.0
START_FACTOR = 5
"""For the first seconds of a loop the share is so many times as large: a short training gets an answer too."""


class TimeRation:
    """Keeps what is done again and again to a share of the time.

    Nothing is begun that would exceed it, judged by what the last one took; where one takes longer than that, the next waits for it.

    >>> ration = TimeRation(part=1.0, expected_secs=0.1)
    >>> ration.allows(1.0, share=0.01), ration.allows(2.0, share=0.01)
    (False, True)
    >>> ration.spend(0.4)
    >>> ration.allows(10.0, share=0.01), ration.allows(16.0, share=0.01), ration.spent_secs
    (False, True, 0.4)
    """

    def __init__(self, part: float, expected_secs: float) -> None:
        self.part = part
        self.expected_secs = expected_secs
        self.spent_secs = 0.0

    def allows(self, elapsed_secs: float, share: float, *, expected_secs: float | None = None) -> bool:
        """Whether one more is within this part of the share of the loop's time so far."""
        expected = self.expected_secs if expected_secs is None else expected_secs
        seconds = max(elapsed_secs, 1e-9)
        allowed = share * (seconds + (START_FACTOR - 1) * min(seconds, START_SECS))
        return self.spent_secs + expected <= self.part * allowed

    def spend(self, seconds: float, *, is_usual: bool = True) -> None:
        """One was done. One that is not usual says nothing about the next."""
        self.spent_secs += seconds
        if is_usual:
            self.expected_secs = seconds
