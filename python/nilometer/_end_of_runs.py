"""What the end of the program is for its runs: those that are open end with it, and know the exception that ended it."""

from __future__ import annotations

import os
import sys

from . import _open_runs
from ._exceptions import is_crash, record_exception, watch_cells, watch_threads
from ._program_end import INTERRUPTED, at_program_end, interrupted_by, other_threads_go_on
from ._run_settings import is_disabled


def watch_end() -> None:
    """Runs that are open at the end of the program end with it, and an exception that nobody handles is recorded."""
    at_program_end(end_all, _note_failure)
    watch_threads(run_dir)
    watch_cells(run_dir)


def run_dir() -> str | os.PathLike[str] | None:
    """The run that this process is in, also after its part of it has ended."""
    run = _open_runs.current()
    if run is not None:
        return run.path
    return None if is_disabled() else os.environ.get("NILO_RUN_DIR") or None


def _note_failure(error: BaseException) -> None:
    if is_crash(error):
        record_exception(run_dir(), error)


def end_all(error: BaseException | None, exit_code: int | None) -> None:
    try:
        if is_crash(error):
            record_exception(run_dir(), error)
        for run in interrupted_by(error):
            if exit_code is not None:
                run.correct_end(INTERRUPTED, exit_code)
        # A child of multiprocessing waits for its threads only after this; they may log until then.
        stays_open = exit_code is not None and other_threads_go_on()
    except Exception as trouble:  # noqa: BLE001 - the program's own exit goes on
        _say(trouble)
        stays_open = False
    for run in _open_runs.all_open():
        # One that cannot be finished keeps no other from its end.
        try:
            if stays_open:
                run.end(exit_code)
            else:
                run.finish(exit_code, at_exit=True)
        except Exception as trouble:  # noqa: BLE001
            _say(trouble)


def _say(trouble: Exception) -> None:
    sys.stderr.write(f"nilometer: the run could not be finished: {trouble}\n")
