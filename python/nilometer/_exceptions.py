"""The exception that ended the program goes into its run: type, message, and the lines it came from.

Nothing is hooked in the main thread. Python keeps the exception that it has printed, so it is looked at when the program ends;
whatever `sys.excepthook` the program has set is called by Python alone. Threads have no such place: there the hook that was set before is called on.
A notebook's cell that raises does not end the kernel; IPython tells of it after the cell. Where no other cell ran until the kernel ended, it ended the notebook.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading

from . import _native

# Not from `typing`: importing that would take longer than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    Place = tuple[str, int, str]

# Ends that somebody wanted.
_NO_CRASH = (KeyboardInterrupt, SystemExit, GeneratorExit)
# Longer texts are cut in the native half; this only keeps huge ones from being handed over.
_MOST_CHARS = 100_000
_MOST_CAUSES = 8
_MOST_FRAMES = 12

_watches_threads = False
_watches_cells = False
_recorded: BaseException | None = None
_recorded_with_cell = False
# The latest exception of a thread. It is not kept: the thread's variables go with it.
_recorded_in_thread: int | None = None
# What the last cell of a notebook raised.
_error_of_last_cell: BaseException | None = None


def unhandled_exception() -> BaseException | None:
    """The exception that ends this program, once Python has printed it, or the notebook. At a prompt an exception ends nothing."""
    if is_interactive():
        return _error_of_last_cell
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) and _has_ended_program(error) else None


def _has_ended_program(error: BaseException) -> bool:
    """Whether it has left the outermost function of the program. Consoles and test runners keep exceptions there that they have caught."""
    trace = error.__traceback__
    # A program that cannot be compiled has not begun, and has not imported this.
    return trace is not None and trace.tb_frame.f_back is None


def is_interactive() -> bool:
    """Whether the program goes on after an exception: a notebook, a prompt, or `python -i`."""
    return bool(
        sys.flags.interactive
        or os.environ.get("PYTHONINSPECT")
        or hasattr(sys, "ps1")
        or hasattr(builtins, "__IPYTHON__")
    )


def is_crash(error: BaseException | None) -> bool:
    """Whether it is an exception that nobody wanted.

    After Ctrl-C nothing may be imported any more: Python forgets that it has to die of the signal when a module executes a string, as `pathlib` does.
    """
    return error is not None and not isinstance(error, _NO_CRASH)


def record_exception(run_dir: Any, error: BaseException | None, thread: str | None = None, cell: int | None = None) -> None:
    """Adds an exception to a run, once; that of a cell once more, without the cell, when it ends the notebook. Never raises, whatever the exception's own methods do."""
    global _recorded, _recorded_with_cell, _recorded_in_thread
    if run_dir is None or error is None or not is_crash(error):
        return
    if error is _recorded and (cell is not None or not _recorded_with_cell):
        return
    try:
        frames, user_code = _places(error.__traceback__)
        raised_at = frames[-1] if frames else None
        _native.record_exception(
            run_dir,
            _type_name(type(error)),
            _message(error),
            thread=thread,
            cell=cell,
            raised_at=raised_at,
            user_code=user_code if user_code != raised_at else None,
            frames=frames,
            causes=_causes(error),
        )
        if thread is None:
            _recorded, _recorded_with_cell = error, cell is not None
        else:
            _recorded_in_thread = id(error)
    except BaseException:  # noqa: BLE001 - the program is ending by an exception of its own, which must be the one that is seen
        pass


def is_recorded(error: BaseException) -> bool:
    """Whether it was added to a run: the hooks of `nilo run` ask, so that it is told once."""
    return error is _recorded or id(error) == _recorded_in_thread


def watch_threads(run_dir: Any) -> None:
    """Records what ends a thread; `run_dir()` says where to. The hook that was there before is called as before."""
    global _watches_threads
    if _watches_threads:
        return
    _watches_threads = True
    before = threading.excepthook

    def hook(arguments: Any) -> Any:
        try:
            name = getattr(arguments.thread, "name", None) or "a thread"
            record_exception(run_dir(), arguments.exc_value, str(name))
        except BaseException:  # noqa: BLE001 - as above
            pass
        return before(arguments)

    threading.excepthook = hook


def watch_cells(run_dir: Any) -> None:
    """Records what a notebook's cells raise; `run_dir()` says where to. Nothing outside of IPython."""
    global _watches_cells
    # Looked up, not imported: most programs do without it.
    ipython = sys.modules.get("IPython")
    shell = None if _watches_cells or ipython is None else ipython.get_ipython()
    if shell is None:
        return
    _watches_cells = True

    def after_cell(result: Any) -> None:
        global _error_of_last_cell
        try:
            # One that cannot be read does not run either, and stops whoever executes the notebook.
            error = result.error_in_exec or result.error_before_exec
            if not result.info.store_history:
                return  # An editor's own question.
            # A prompt goes on in any case. A kernel that was interrupted was not ended by that.
            _error_of_last_cell = error if "ipykernel" in sys.modules and is_crash(error) else None
            record_exception(run_dir(), error, cell=int(result.execution_count or 0))
        except BaseException:  # noqa: BLE001 - as above
            pass

    shell.events.register("post_run_cell", after_cell)


def _type_name(kind: type[BaseException]) -> str:
    module = getattr(kind, "__module__", None)
    name = str(getattr(kind, "__qualname__", None) or kind.__name__)
    return name if module in (None, "builtins", "__main__") else f"{module}.{name}"


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - a message that cannot be made
        text = "<its message raised an exception>"
    # Half of a character cannot be stored.
    return text[:_MOST_CHARS].encode("utf-8", "replace").decode("utf-8")


def _causes(error: BaseException) -> list[str]:
    found: list[str] = []
    seen = {id(error)}
    current: BaseException | None = error
    while len(found) < _MOST_CAUSES:
        before: BaseException = current  # type: ignore[assignment]
        current = before.__cause__
        if current is None and not before.__suppress_context__:
            current = before.__context__
        if current is None or id(current) in seen:
            break
        seen.add(id(current))
        found.append(f"{_type_name(type(current))}: {_message(current)}")
    return found


def _places(trace: TracebackType | None) -> tuple[list[Place], Place | None]:
    """The last lines on the way to where it was raised, and the innermost of all that is neither a library's nor Python's own."""
    frames: list[Place] = []
    user_code = None
    while trace is not None:
        code = trace.tb_frame.f_code
        place = (_text(code.co_filename), int(trace.tb_lineno or 0), _text(code.co_name))
        if not _is_library(place[0]):
            place = user_code = (_cell_of(place[0]) or place[0], *place[1:])
        frames = [*frames[1 - _MOST_FRAMES :], place]
        trace = trace.tb_next
    return frames, user_code


def _cell_of(file: str) -> str | None:
    """`Cell In[3]`, as IPython says for the made-up file of a cell."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    name_of = getattr(getattr(shell, "compile", None), "format_code_name", None)
    words = None if name_of is None else name_of(file)
    return " ".join(map(str, words)) if words else None


def _text(value: object) -> str:
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _is_library(file: str) -> bool:
    from ._library_files import is_library_file

    return file.startswith(os.path.join(os.path.dirname(os.path.abspath(__file__)), "")) or is_library_file(file)
