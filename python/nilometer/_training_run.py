"""One training, as this process sees it: what it is called, what is stored in it, and how it ends."""

from __future__ import annotations

import os
import sys
import weakref

from . import _native, _open_runs
from ._config import as_mapping, config_events
from ._exceptions import is_crash, record_exception
from ._program_end import INTERRUPTED, exit_code_of, note_interrupted
from ._trouble import refuse_pickling, require_type

# Not from `typing`: importing that would take longer than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable
    from threading import Thread
    from types import TracebackType
    from typing import Any

# Whatever still waits for a GPU when a run ends. A forked child has no GPU to wait for.
settle_before_finish: weakref.WeakSet[Any] = weakref.WeakSet()


class Run(_native.Run):
    """One training, as this process sees it. Made by `nilometer.init` or joined by its path.

    >>> import nilometer, tempfile
    >>> run = nilometer.init(name="example", dir=tempfile.mkdtemp())
    >>> for step in range(3):
    ...     run.log({"loss": 1.0 / (step + 1), "eval": {"accuracy": 0.5}}, step=step)
    >>> run.finish()
    >>> nilometer.read_run(run.path).series("loss").value.tolist()
    [1.0, 0.5, 0.3333333333333333]
    """

    # The process that began it here, what NILO_RUN_DIR and NILO_RUN_STARTED_BY were before, what the latter is while it is open, and the training (a callback, a logger) that it belongs to.
    _begun_by: int | None = None
    _outer: str | None = None
    _outer_started_by: str | None = None
    _started_by: str | None = None
    _training: Callable[[], object] | None = None
    _was_made_for_training = False
    _training_is_over = False
    # Begun without `init`, for whatever was logged or timed first.
    _is_implicit = False
    # Who opened it, here or before a fork; one of several loggers side by side is never the current run.
    _opened_by: int | None = None
    _thread: Thread | None = None
    _task: Task[Any] | None = None
    _is_beside = False
    # Within `with run:`, whose end is the run's.
    _is_entered = False
    _name: str | None = None
    _folder: str | None = None
    resumes: str | None = None
    """The id of the run that this one continues."""
    # Only its number: the exception itself would keep everything alive that its frames hold.
    _began_while_handling: int | None = None

    __reduce__ = refuse_pickling

    @property
    def id(self) -> str | None:
        """The run's id: the name of its folder."""
        return None if self.path is None else os.path.basename(os.fspath(self.path))

    def config(self, values: Any = None, /, **more: Any) -> None:
        """Adds settings (hyperparameters): a dictionary, a namespace or a dataclass; nested ones are flattened with `/`.

        Numbers, truth values, None, texts and lists keep their type; tuples and sets come back as lists, anything else
        (bytes, complex numbers, paths) as its text. Of two settings with one name, the second gets another, with a warning.
        """
        for event in config_events(as_mapping(values), more):
            self.add_config(event)

    def attach(
        self,
        source: str | os.PathLike[str] | bytes | bytearray | memoryview,
        name: str | None = None,
        media_type: str | None = None,
    ) -> None:
        """Stores a copy of a file, or bytes, with the run: `run.attach("snapshot.pickle")`, `run.attach(png, "curve.png")`.

        `name` is what it is called there: 1 to 100 letters, digits, `.`, `_` or `-`, not starting with a dot, and used once in a run;
        a file's own name unless given, while bytes need one. `media_type` is guessed from it: `image/png`.
        At most 256 MiB each, and 1 GiB a run. Waits until the disk has it.

        Wrong arguments raise. A file that cannot be read or stored (a full disk, a name that is taken) is a warning, as in `log`.
        """
        if isinstance(source, (bytes, bytearray, memoryview)):
            if name is None:
                raise TypeError("attach: bytes need a name")
            content: bytes | str = bytes(source)
        elif isinstance(source, (str, os.PathLike)):
            content = os.fsdecode(source)
        else:
            raise TypeError(f"attach: source must be a path or bytes, not {type(source).__name__}")
        if name is None:
            name = os.path.basename(os.fsdecode(source))
        require_type(name, str, "name")
        if media_type is None:
            from mimetypes import guess_type

            media_type = guess_type(name)[0] or "application/octet-stream"
        require_type(media_type, str, "media_type")
        self.attach_source(content, name, media_type)

    def phase(self, name: str, seconds: float | None = None) -> Any:
        """Times a block: `with run.phase("forward"):`. With `seconds`, stores a phase timed elsewhere."""
        if seconds is not None:
            super().phase(name, seconds)
            return None
        return self.timer.phase(name)

    @property
    def timer(self) -> Any:
        """This run's own TrainingTimer."""
        timer = self.__dict__.get("_timer")
        if timer is None:
            from .profiling import TrainingTimer

            timer = self.__dict__["_timer"] = TrainingTimer(run=self)
        return timer

    def finish(self, exit_code: int | None = None, *, at_exit: bool = False) -> None:
        """Ends this process's part, and the run itself when this process made it.

        Its exit code is 0 unless told otherwise; called while an exception is handled, in a `finally` or an `except`, it is that of the exception; -2 is an end by signal 2.
        After Ctrl-C it is 130, and -2 once the interrupt has ended the program: until then the program may go on.
        Called at exit by itself, with `at_exit`: the run then ends with the process and has its exit status.
        """
        error = None
        if exit_code != 0 and not at_exit:
            error = self._exception_in_flight()
            if is_crash(error):
                record_exception(self.path, error)
            if exit_code is None:
                return self._finish_by(error)
        self._finish(exit_code, at_exit=at_exit)

    def _finish_by(self, error: BaseException | None) -> None:
        """Ends as this exception would end a program; an interrupt that the program may still catch has not killed it."""
        exit_code = exit_code_of(error)
        is_interrupt = isinstance(error, KeyboardInterrupt)
        if isinstance(error, KeyboardInterrupt):
            exit_code = INTERRUPTED
            note_interrupted(error, self)
        self._finish(exit_code, is_interrupted=is_interrupt)

    def _finish(self, exit_code: int | None, *, at_exit: bool = False, is_interrupted: bool = False) -> None:
        for part in list(settle_before_finish):
            part.settle()
        try:
            super().finish(exit_code, at_exit=at_exit, is_interrupted=is_interrupted)
        finally:
            # Also where strict mode raises what was lost: the run is over.
            _open_runs.remove(self)

    def _exception_in_flight(self) -> BaseException | None:
        """The exception that is being handled, unless the run began while that was so already."""
        error = sys.exc_info()[1]
        return None if id(error) == self._began_while_handling else error

    def __enter__(self) -> Run:
        self._is_entered = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_entered = False
        if is_crash(error):
            record_exception(self.path, error)
        self._finish_by(error)

    def __repr__(self) -> str:
        where = "storing nothing" if self.path is None else os.fspath(self.path)
        return f"<nilometer.Run {where}>"

    def _repr_html_(self) -> str:
        if self.path is None:
            return "<p>A run that stores nothing.</p>"
        from .reading import RecordedRun

        return RecordedRun(self.path)._repr_html_()


os.register_at_fork(after_in_child=settle_before_finish.clear)
