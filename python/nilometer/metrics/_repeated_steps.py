"""Which steps of an earlier program a resumed one has logged again.

A step number names a point only where steps go forward. Where either program counted from the start again (each epoch, a second loop), nothing is taken for repeated.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..reading import NO_STEP


def repeated_steps(earlier: Sequence[int], later: Sequence[int]) -> set[int]:
    """The steps of `earlier` that `later` repeats, both in the order of logging."""
    if restarts(earlier) or restarts(later):
        return set()
    return set(earlier).intersection(later) - {NO_STEP}


def restarts(steps: Sequence[int]) -> bool:
    """Whether steps go back."""
    given = [step for step in steps if step != NO_STEP]
    return any(later < earlier for earlier, later in zip(given, given[1:]))
