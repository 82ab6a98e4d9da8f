"""Memory of single processes as the kernel counts it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkerMemory:
    """Pages of one process, in bytes."""

    private_dirty: int
    """Written, and held by nobody else: what a forked worker has copied or made."""
    pss: int
    """Its share of all pages that it has: shared ones divided by those who share them."""


def worker_memory(pid: int) -> WorkerMemory | None:
    """From `smaps_rollup`; None of a process that is gone, or where the system does not tell."""
    figures = {"Private_Dirty": 0, "Pss": 0}
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            for line in file:
                name, _, rest = line.partition(":")
                if name in figures:
                    figures[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return WorkerMemory(figures["Private_Dirty"], figures["Pss"])
