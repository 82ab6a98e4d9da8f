"""Which runs are open in this process, and which of them is the current one: that of the thread or asyncio task, or else the latest.

A thread's new run takes the place of its last one, unless that is within its `with` block, and so does a task's. Runs of other threads and tasks that still live stay open:
each may be a training of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from contextvars import ContextVar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from typing import Any

    from ._training_run import Run

# Who began the run of NILO_RUN_DIR: a process and the run's folder.
STARTED_BY = "NILO_RUN_STARTED_BY"

lock = threading.RLock()
# The latest last.
_open: list[Run] = []
# Begun in this thread, or in this asyncio task or one that it was started from.
_begun_here: ContextVar[Run | None] = ContextVar("nilometer_run", default=None)
# Serves threads that have no run.
_latest: Run | None = None
# The current run of every thread, where only one is open: spares the look at the thread in each call of `log`.
only: Run | None = None
_last_finished: Run | None = None


def add(run: Run, *, beside: bool = False) -> None:
    """A run is open from here on, and the current one unless it lies beside it."""
    run._opened_by, run._is_beside = os.getpid(), beside
    run._thread, run._task = threading.current_thread(), _current_task()
    _open.append(run)
    if not beside:
        _begun_here.set(run)
    _note_current()


def add_for_main_thread(run: Run) -> None:
    """As if the main thread had opened it: no thread of ours holds on to it once that begins another."""
    run._opened_by, run._is_beside = os.getpid(), False
    run._thread, run._task = threading.main_thread(), None
    _open.append(run)
    _note_current()


def remove(run: Run) -> None:
    """A run has ended. Processes that are started from here on join the one that is still open, or what was around it."""
    global _last_finished
    with lock:
        run._thread = run._task = None
        if run in _open:
            _open.remove(run)
            if not run._is_beside:
                _last_finished = run
        remaining = _note_current()
        if _is_own(run) and os.environ.get("NILO_RUN_DIR") == _path(run):
            own = [other for other in remaining if _is_own(other)]
            if own:
                tell_children(_path(own[-1]), own[-1]._started_by)
            else:
                tell_children(run._outer, run._outer_started_by)


def tell_children(run_dir: str | None, started_by: str | None) -> None:
    """Says which run the processes that are started from here on are below, and who began it."""
    for name, value in (("NILO_RUN_DIR", run_dir), (STARTED_BY, started_by)):
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _note_current() -> list[Run]:
    """Gives the runs that may be the current one."""
    global _latest, only
    runs = [run for run in _open if not run._is_beside]
    _latest = runs[-1] if runs else None
    only = _latest if len(runs) == 1 else None
    return runs


def current() -> Run | None:
    """The run of this thread or task, or the latest one; None where none is open."""
    run = _begun_here.get()
    return run if run is not None and not run.finished else _latest


def last_finished() -> Run | None:
    """What is logged after its end goes on under its name."""
    return _last_finished


def make_room(*, beside: bool = False) -> None:
    """Ends the runs that a new one of this thread or task takes the place of: the current one, and of those beside it the ones whose training is over.
    A run within its `with` block ends with that, and one that a logger made for itself lies beside the new one from here on.

    A new one `beside` the current one leaves that open.
    """
    for run in list(_open):
        if run._is_entered or not (run._training_is_over if run._is_beside else not beside):
            continue
        if run._opened_by != os.getpid():
            # Inherited by a fork: it is the parent's to end.
            _open.remove(run)
        elif not _is_of_others(run):
            if run._was_made_for_training and not run._training_is_over and run._training is not None and run._training() is not None:
                # A logger made it for itself, and has not said that it is done with it.
                run._is_beside = True
            else:
                run.finish(0)


def _is_of_others(run: Run) -> bool:
    """Whether another thread or task began it that still lives."""
    if run._thread is None or run._thread is not threading.current_thread():
        return run._thread is not None and run._thread.is_alive()
    return run is not _begun_here.get() and run._task is not None and not run._task.done()


def _current_task() -> Task[Any] | None:
    # Looked up, not imported: most programs do without it.
    asyncio = sys.modules.get("asyncio")
    try:
        return None if asyncio is None else asyncio.current_task()
    except RuntimeError:
        return None


def all_open() -> list[Run]:
    """All of them, those beside the current one too."""
    return list(_open)


def started_under() -> str | None:
    """The run that this process was started under; those that it began itself are not meant."""
    own = _told_to_children()
    return (os.environ.get("NILO_RUN_DIR") or None) if own is None else own._outer


def said_of_outer_run() -> str | None:
    """What this process was told of who began the run that it was started under."""
    own = _told_to_children()
    return os.environ.get(STARTED_BY) if own is None else own._outer_started_by


def beside(path: str) -> Run | None:
    """The run in this folder, where it is open beside the current one."""
    return next((run for run in _open if run._is_beside and run._opened_by == os.getpid() and _path(run) == path), None)


def _told_to_children() -> Run | None:
    """The run of this process that NILO_RUN_DIR names."""
    path = os.environ.get("NILO_RUN_DIR") or None
    return next((run for run in _open if _is_own(run) and _path(run) == path), None)


def _is_own(run: Run) -> bool:
    # In this order: the first path loads `pathlib`, which must not happen after Ctrl-C (see `is_crash`).
    return run._begun_by == os.getpid() and run.path is not None


def _path(run: Run) -> str | None:
    return None if run.path is None else os.fspath(run.path)


def _after_fork() -> None:
    global lock
    # Another thread may have held it, and that thread is not in the child.
    lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
