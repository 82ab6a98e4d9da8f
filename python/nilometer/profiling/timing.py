"""How long a piece of code takes, as timeit measures it."""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Iterable
from typing import Any

from .._trouble import require, require_type


class Repeated(list[float]):
    """The seconds that each round took, in their order, as `timeit.repeat` gives them; with figures for one execution.

    The minimum is the figure to quote: everything above it is disturbance.
    """

    def __init__(self, seconds: Iterable[float], number: int) -> None:
        super().__init__(seconds)
        self.number = number
        """Executions in each round."""

    @property
    def rounds(self) -> list[float]:
        """Seconds for one execution in each round."""
        return [seconds / self.number for seconds in self]

    @property
    def minimum(self) -> float:
        """Seconds for one execution in the quickest round."""
        return min(self.rounds)

    @property
    def median(self) -> float:
        """... in the middle one."""
        return sorted(self.rounds)[len(self) // 2]

    @property
    def maximum(self) -> float:
        """... and in the slowest."""
        return max(self.rounds)

    @property
    def spread(self) -> float:
        """How much longer the slowest round took than the quickest, as a share: 0.05 is 5 %."""
        return self.maximum / self.minimum - 1 if self.minimum > 0 else 0.0

    def describe(self) -> str:
        """One line for people."""
        return f"{_words(self.minimum)} per call (+{100 * self.spread:.0f} % at worst, {len(self)} rounds of {self.number})"


def repeat(
    stmt: str | Callable[[], Any] = "pass",
    setup: str | Callable[[], Any] = "pass",
    timer: Callable[[], float] = time.perf_counter,
    repeat: int = 5,
    number: int | None = None,
    globals: dict[str, Any] | None = None,
    *,
    seconds: float = 0.2,
) -> Repeated:
    """Executes a statement (source text or a callable) `number` times in each of `repeat` rounds, with the garbage collector off.

    Called as `timeit.repeat`, and gives what it gives: the seconds of each round. `setup` comes before each round and is not timed.
    Without `number` it is chosen so that a round takes about `seconds`.

    >>> timing = repeat("sum(range(n))", setup="n = 100", number=100, repeat=3)
    >>> len(timing), timing.minimum == min(timing) / 100
    (3, True)
    >>> repeat(lambda: sum(range(100)), number=100, repeat=3).number
    100
    """
    require_type(repeat, int, "repeat")
    require(repeat > 0, f"repeat must be positive, not {repeat}")
    if number is not None:
        require_type(number, int, "number")
        require(number > 0, f"number must be positive, not {number}")
    require(seconds > 0, f"seconds must be positive, not {seconds}")
    rounds = timeit.Timer(stmt, setup, timer, globals)
    if number is None:
        number = 1
        while (taken := rounds.timeit(number)) < seconds / 10 and number < 1 << 40:
            number *= 2
        number = max(1, round(number * seconds / taken)) if taken > 0 else number
    return Repeated(rounds.repeat(repeat, number), number)


def _words(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
