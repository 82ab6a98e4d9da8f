"""Lines of the program that hold the most memory of Python objects, by tracemalloc."""

from __future__ import annotations

import collections
import os
import tracemalloc
from typing import Any

from .no_collections import no_collections
from .tracing import begin_tracing, end_tracing

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
# Lines of ours, of the import system, and of the trace itself are not the program's.
_NOT_THE_PROGRAM = (_PACKAGE, "<frozen importlib._bootstrap", tracemalloc.__file__)
_MIB = 1 << 20

Line = tuple[str, int]


def traced_lines() -> dict[Line, tuple[int, int]]:
    """Bytes and blocks that each line of the program holds; empty while nothing is traced.

    `tracemalloc.Snapshot` matches the names of files for every block, which takes 20 s for two million of them.
    Here equal blocks, of one size and one traceback, are counted first: they are few, and only these are looked at.
    """
    if not tracemalloc.is_tracing():
        return {}
    # The list of all blocks would set off collections that look at each of its entries.
    with no_collections():
        try:
            taken = tracemalloc.take_snapshot()
        except RuntimeError:
            return {}  # another thread pauses the trace
        equal: collections.Counter[Any] = collections.Counter(taken.traces._traces)  # type: ignore[attr-defined]
        del taken
    lines: dict[Line, tuple[int, int]] = {}
    for (_, size, frames, *_), count in equal.items():
        line = frames[0]
        if not line[0].startswith(_NOT_THE_PROGRAM):
            known = lines.get(line, (0, 0))
            lines[line] = (known[0] + count * size, known[1] + count)
    return lines


class AllocationLines:
    """Traces allocations while started. A trace that somebody else began goes on after `stop`."""

    def __init__(self, top_n: int = 10) -> None:
        self._top_n = top_n
        self._is_ours = False

    def start(self) -> None:
        """Begins to trace, unless that is done already."""
        self._is_ours = self._is_ours or begin_tracing(1)

    def stop(self) -> None:
        """Ends the trace if it was begun here."""
        if self._is_ours:
            end_tracing()
        self._is_ours = False

    def top(self) -> list[dict[str, Any]]:
        """The lines that hold the most, those of this package and of the import system left out; empty while nothing is traced."""
        largest = sorted(traced_lines().items(), key=lambda one: (-one[1][0], one[0]))[: self._top_n]
        return [
            {"location": f"{file}:{number}", "size_mb": round(size / _MIB, 3), "count": count}
            for (file, number), (size, count) in largest
        ]
