"""How much more memory this program can have of the machine."""

from __future__ import annotations

from ... import _native
from ...memory.readings import host_reading


def free_host_bytes(budget_bytes: int | None = None) -> int | None:
    """What the limit in force leaves beside what the program's processes hold, and no more than the machine has; within a budget for all that they hold, what is left of that.

    None where nothing is known.
    """
    try:
        reading = host_reading(_native.MemoryMonitor().read())
    except (OSError, ValueError):
        return None
    left = [reading.free] if reading.total else []
    if budget_bytes is not None:
        left.append(max(budget_bytes - reading.allocated, 0))
    return min(left) if left else None
