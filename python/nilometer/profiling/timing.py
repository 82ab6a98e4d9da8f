"""How long a piece of code takes, in the spirit of timeit."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .._trouble import require, require_type


class Repeated(NamedTuple):
    """Seconds a call, from several rounds. The minimum is the figure to quote: everything above it is disturbance."""

    minimum: float
    median: float
    maximum: float
    number: int
    rounds: list[float]
    """Seconds a call of each round."""

    @property
    def spread(self) -> float:
        """How much longer the slowest round took than the quickest, as a share: 0.05 is 5 %."""
        return self.maximum / self.minimum - 1 if self.minimum > 0 else 0.0

    def __str__(self) -> str:
        return f"{_words(self.minimum)} a call (+{100 * self.spread:.0f} % at worst, {len(self.rounds)} rounds of {self.number})"


def repeat(function: Callable[[], Any], *, number: int | None = None, rounds: int = 5, seconds: float = 0.2) -> Repeated:
    """Calls a function `number` times in each of several rounds, with the garbage collector off.

    Without `number` it is chosen so that a round takes about `seconds`.

    >>> timing = repeat(lambda: sum(range(100)), number=100, rounds=3)
    >>> timing.minimum <= timing.median <= timing.maximum
    True
    """
    require(callable(function), f"function must be callable, not {type(function).__name__}")
    require_type(rounds, int, "rounds")
    require(rounds > 0, f"rounds must be positive, not {rounds}")
    if number is not None:
        require_type(number, int, "number")
        require(number > 0, f"number must be positive, not {number}")
    require(seconds > 0, f"seconds must be positive, not {seconds}")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        if number is None:
            number = 1
            while (taken := _round(function, number)) < seconds / 10 and number < 1 << 40:
                number *= 2
            number = max(1, round(number * seconds / taken)) if taken > 0 else number
        calls = sorted(_round(function, number) / number for _ in range(rounds))
    finally:
        if was_enabled:
            gc.enable()
    return Repeated(calls[0], calls[len(calls) // 2], calls[-1], number, calls)


def _round(function: Callable[[], Any], number: int) -> float:
    started = time.perf_counter()
    for _ in range(number):
        function()
    return time.perf_counter() - started


def _words(seconds: float) -> str:
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
