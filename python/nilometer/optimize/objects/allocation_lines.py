"""Lines of the program that hold the most memory of Python objects, by tracemalloc."""

from __future__ import annotations

import os
import tracemalloc
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_MIB = 1 << 20


class AllocationLines:
    """Traces allocations while started. A trace that somebody else began goes on after `stop`."""

    def __init__(self, top_n: int = 10) -> None:
        self._top_n = top_n
        self._is_ours = False

    def start(self) -> None:
        """Begins to trace, unless that is done already."""
        if not tracemalloc.is_tracing():
            tracemalloc.start(1)
            self._is_ours = True

    def stop(self) -> None:
        """Ends the trace if it was begun here."""
        if self._is_ours and tracemalloc.is_tracing():
            tracemalloc.stop()
        self._is_ours = False

    def top(self) -> list[dict[str, Any]]:
        """The lines that hold the most, those of this package and of the import system left out; empty while nothing is traced."""
        if not tracemalloc.is_tracing():
            return []
        ours = tracemalloc.Filter(False, _PACKAGE + "*", all_frames=False)
        imports = tracemalloc.Filter(False, "<frozen importlib._bootstrap*>")
        snapshot = tracemalloc.take_snapshot().filter_traces((ours, imports, tracemalloc.Filter(False, tracemalloc.__file__)))
        return [
            {
                "location": f"{found.traceback[0].filename}:{found.traceback[0].lineno}",
                "size_mb": round(found.size / _MIB, 3),
                "count": found.count,
            }
            for found in snapshot.statistics("lineno")[: self._top_n]
        ]
