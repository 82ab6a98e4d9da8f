"""How this program ends, for the runs that are open then.

Python's exit handlers are enough for most programs. Children of multiprocessing that were forked leave without them (`os._exit`),
but run multiprocessing's own finalizers first, while the exception that ends them, if any, is being handled.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading

from ._exceptions import unhandled_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Finalizers run from high to low: whatever else a program finalizes may still log.
_LAST = -1000

# Not from `signal`: nothing may be imported after Ctrl-C (see `is_crash`).
_SIGINT = 2
# As shells have it: the exit code of what Ctrl-C stopped.
INTERRUPTED = 128 + _SIGINT
# Where an interrupt keeps the runs that it ended.
_RUNS = "_nilometer_runs"

_has_exit_handler = False
_child_with_finalizer: int | None = None


def exit_code_of(error: BaseException | None) -> int:
    """The exit status of a program that this exception ends; 0 without one.

    As `subprocess` has it: -2 after Ctrl-C, because Python then ends by that signal, whatever the shell makes of it.
    """
    if error is None or isinstance(error, GeneratorExit):
        return 0
    if isinstance(error, SystemExit):
        code = error.code
        return 0 if code is None else code & 0xFF if isinstance(code, int) else 1
    if not isinstance(error, KeyboardInterrupt):
        return 1
    # The signal does not end a container's first process.
    return -_SIGINT if os.getpid() != 1 else INTERRUPTED


def note_interrupted(interrupt: KeyboardInterrupt, run: Any) -> None:
    """Remembers that this Ctrl-C ended a run: with the exception, which holds everything that its traceback does, and must not be kept alive."""
    interrupt.__dict__.setdefault(_RUNS, []).append(run)


def interrupted_by(error: BaseException | None) -> list[Any]:
    """The runs that were ended by this exception, or by one that was being handled when it was raised."""
    found: list[Any] = []
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        found += error.__dict__.get(_RUNS, ())
        error = error.__cause__ or error.__context__
    return found


def at_program_end(
    end: Callable[[BaseException | None, int | None], None], failed: Callable[[BaseException], None]
) -> None:
    """Calls `end(error, exit_code)` when this process ends: with the exception that ended it, and its status if that is known by then.

    `failed(error)` is called before that, as soon as the exception has ended the main thread: other exit handlers and threads may take long.
    Both may be called twice. To be asked for again in a forked child.
    """
    global _has_exit_handler, _child_with_finalizer
    if not _has_exit_handler:
        _has_exit_handler = True
        atexit.register(_at_exit, end)
        _at_shutdown(failed)
    if is_multiprocessing_child() and _child_with_finalizer != os.getpid():
        from multiprocessing.util import Finalize

        _child_with_finalizer = os.getpid()
        Finalize(None, _at_child_end, (end,), exitpriority=_LAST)


def is_multiprocessing_child() -> bool:
    """Whether multiprocessing started this process, and may end it with SIGTERM, as `Pool` does with its workers."""
    # Looked up, not imported: most programs do without it.
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None


def _at_shutdown(failed: Callable[[BaseException], None]) -> None:
    """Has `failed` called before Python waits for threads and calls exit handlers, where this Python can do so.

    Exit handlers are called from last to first, and ours may be the first of all: too late to tell when it happened.
    A hook for unhandled exceptions would be in the way of whoever looks whether there is one.
    """

    def tell() -> None:
        error = unhandled_exception()
        if error is not None:
            failed(error)

    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        try:
            register(tell)
        except RuntimeError:
            pass  # Python ends already.


def _at_exit(end: Callable[[BaseException | None, int | None], None]) -> None:
    # An unhandled exception has been printed by now; any other exit code is known when the process itself ends.
    error = unhandled_exception()
    end(error, None if error is None else exit_code_of(error))


def _at_child_end(end: Callable[[BaseException | None, int | None], None]) -> None:
    error = sys.exc_info()[1]
    # To multiprocessing, Ctrl-C is an exception as any other.
    end(error, 1 if isinstance(error, KeyboardInterrupt) else exit_code_of(error))


def other_threads_go_on() -> bool:
    """Whether there are threads that Python waits for before the process ends."""
    return any(thread is not threading.current_thread() and not thread.daemon for thread in threading.enumerate())
