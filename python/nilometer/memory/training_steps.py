"""The step that training has come to, for everybody who judges memory: growth is not called a leak while a program may still be loading."""

from __future__ import annotations

from ..run import current_step

# Steps that this process was told of beside those that it logs, by whoever is stepped in its loop.
_counted = 0


def count_step() -> None:
    """A training step is over."""
    global _counted
    _counted += 1


def newest_step() -> int | None:
    """Of the current run, or as counted here, the larger; None before the first."""
    of_run = current_step()
    if not _counted:
        return of_run
    return _counted if of_run is None else max(of_run, _counted)
