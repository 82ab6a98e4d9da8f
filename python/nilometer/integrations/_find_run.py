"""Which run a callback adds to."""

from __future__ import annotations

from ..run import Run, active_run, init


def find_run(given: Run | None, name: str | None = None, *, may_make: bool = True) -> Run | None:
    """The given run, the current one, or a new one of that name. None where there is none and this process should make none."""
    return given or active_run() or (init(name=name) if may_make else None)
