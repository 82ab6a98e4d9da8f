"""The run that a program adds to.

Under `nilo run` it is that run. Otherwise the program makes its own, in `./.nilo/` (or `dir=`, or `NILO_DIR`),
and a thread records the memory of the process tree beside the metrics.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Mapping

from . import _native
from ._exceptions import is_crash, record_exception, unhandled_exception, watch_threads
from ._trouble import refuse_pickling, report, require, require_type, warn_once

# Not from `typing`: importing that would take longer than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

_lock = threading.RLock()
_current: Run | None = None
# The run that was finished last: what is logged after its end goes on under its name.
_finished: Run | None = None
_exit_hook_set = False
# Whatever still waits for a GPU when a run ends.
_settle_before_finish: weakref.WeakSet[Any] = weakref.WeakSet()

DEFAULT_INTERVAL_SECS = 0.1


class Run(_native.Run):
    """One recorded job, as this process sees it. Made by `nilometer.init` or joined by its path.

    >>> import nilometer, tempfile
    >>> run = nilometer.init(name="example", dir=tempfile.mkdtemp())
    >>> for step in range(3):
    ...     run.log({"loss": 1.0 / (step + 1), "eval": {"accuracy": 0.5}}, step=step)
    >>> run.finish()
    >>> nilometer.read_run(run.path).series("loss").value.tolist()
    [1.0, 0.5, 0.3333333333333333]
    """

    _made_here = False
    _name: str | None = None
    _folder: str | None = None
    # Only its number: the exception itself would keep everything alive that its frames hold.
    _began_while_handling: int | None = None

    __reduce__ = refuse_pickling

    @property
    def id(self) -> str | None:
        """The run's id: the name of its folder."""
        return None if self.path is None else os.path.basename(os.fspath(self.path))

    def config(self, values: Any = None, /, **more: Any) -> None:
        """Adds settings (hyperparameters): a dictionary, a namespace or a dataclass; nested ones are flattened with `/`."""
        flat: dict[str, str] = {}
        _flatten_config(_as_mapping(values), "", flat)
        _flatten_config(more, "", flat)
        if flat:
            self.add_config(flat)

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
        """Ends this process's part, and the run itself when this process made it. Called at exit by itself,
        with `at_exit`: the run then ends with the process and has its exit status.
        """
        global _current, _finished
        if exit_code != 0 and not at_exit:
            self._record_exception_in_flight()
        for part in list(_settle_before_finish):
            part.settle()
        super().finish(exit_code, at_exit=at_exit)
        with _lock:
            if _current is self:
                _current, _finished = None, self
            if self._made_here and os.environ.get("NILO_RUN_DIR") == os.fspath(self.path or ""):
                del os.environ["NILO_RUN_DIR"]

    def _record_exception_in_flight(self) -> None:
        """A run that is finished in a `finally` or an `except` ends by that exception, unless it began while that was being handled."""
        error = sys.exc_info()[1]
        if is_crash(error) and id(error) != self._began_while_handling:
            record_exception(self.path, error)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if is_crash(error):
            record_exception(self.path, error)
        self.finish(0 if kind is None else 1)

    def __repr__(self) -> str:
        where = "storing nothing" if self.path is None else os.fspath(self.path)
        return f"<nilometer.Run {where}>"

    def _repr_html_(self) -> str:
        if self.path is None:
            return "<p>A run that stores nothing.</p>"
        from .reading import RecordedRun

        return RecordedRun(self.path)._repr_html_()


def init(
    name: str | None = None,
    *,
    dir: str | os.PathLike[str] | None = None,
    config: Any = None,
    tags: Mapping[str, str] | None = None,
    memory: bool = True,
    interval: float | None = None,
) -> Run:
    """Begins a run, or joins the one that this process runs under, and makes it the current one.

    `dir` is the folder that holds runs, `memory=False` leaves out the thread that records this process's memory,
    `interval` is its sampling interval in seconds; otherwise `NILO_INTERVAL` or `interval` of the nearest `nilo.toml` says it, or it is 0.1.
    Joining a run (under `nilo run`) leaves name, dir and memory as they are.
    """
    if name is not None:
        require_type(name, str, "name")
    if interval is not None:
        require_type(interval, (int, float), "interval")
        require(0.001 <= interval <= 3600, f"interval must be 0.001 to 3600 seconds, not {interval}")
    if tags is not None:
        require_type(tags, Mapping, "tags")
    global _current
    with _lock:
        if _current is not None and not _current.finished:
            _current.finish(0)
        run = _join() or _make(name, dir, tags, _interval_secs(interval) if memory else None)
        run._began_while_handling = id(sys.exc_info()[1])
        _current = run
        _set_exit_hook()
    if config is not None:
        run.config(config)
    return run


def current_run() -> Run:
    """The run that points go to; made or joined when there is none.

    After `finish()` it is a further run with the name and in the folder of the one that ended, and a warning says so once.
    """
    run = _current
    if run is not None and not run.finished:
        return run
    with _lock:
        if _current is None or _current.finished:
            return _begin_again() if _finished is not None else init()
        return _current


def _begin_again() -> Run:
    before = _finished
    run = init(before._name, dir=before._folder) if before is not None and before._made_here else init()
    if before is not None and before.path is not None and run.path is not None and run.path != before.path:
        # Not a trouble that strict mode should raise for: nothing is lost.
        warn_once(
            "the run is finished: what is logged after its end goes into a further run of the same name "
            "(nilometer.init() begins one on purpose)"
        )
    return run


def active_run() -> Run | None:
    """The run that this process is in or was started under, joined if need be; None when there is none."""
    run = _current
    if run is not None and not run.finished:
        return run
    return current_run() if os.environ.get("NILO_RUN_DIR") and not _is_disabled() else None


def current_step() -> int | None:
    """The step that the current run has come to; none is made or joined for it."""
    run = _current
    return None if run is None else run.newest_step


def log(values: Mapping[str, Any], step: int | None = None) -> None:
    """Stores numbers in the current run: `log({"loss": 0.5}, step=3)`."""
    current_run().log(values, step)


def mark(text: str) -> None:
    """Sets a mark in the current run: `mark("epoch 3")`."""
    current_run().mark(str(text))


def finish(exit_code: int | None = None) -> None:
    """Ends the current run, if there is one."""
    run = _current
    if run is not None:
        run.finish(exit_code)


def _join() -> Run | None:
    path = os.environ.get("NILO_RUN_DIR")
    if not path or _is_disabled():
        return None
    try:
        return Run(path)
    except OSError as error:
        report(f"cannot join the run of NILO_RUN_DIR: {error}")
        return None


def _make(name: str | None, dir: Any, tags: Mapping[str, str] | None, interval: float | None) -> Run:
    if _is_disabled():
        return Run(None)
    root = dir if dir is not None else runs_folder()
    command = [word if isinstance(word, str) else str(word) for word in (sys.argv or ["python"])]
    text_tags = {str(key): str(value) for key, value in (tags or {}).items()}
    try:
        path, refused = Run.make_folder(os.fspath(root), name, command, text_tags)
        run = Run(path)
    except OSError as error:
        report(f"nothing is recorded: {error}")
        return Run(None)
    if refused is not None:
        report(f"{refused}; recording to {os.path.dirname(path)} instead")
    try:
        run.own(interval)
    except OSError as error:
        report(f"memory is not recorded: {error}")
    # Processes that this one starts join the run.
    os.environ["NILO_RUN_DIR"] = os.fspath(path)
    run._made_here = True
    run._name, run._folder = name, None if dir is None else os.fspath(dir)
    return run


def runs_folder() -> str:
    """The folder that holds runs: `NILO_DIR`, or `dir` of the nearest `nilo.toml`, or `.nilo`."""
    asked = os.environ.get("NILO_DIR")
    if asked:
        return asked
    try:
        return os.fspath(_native.project_folder() or ".nilo")
    except ValueError as error:
        report(str(error))
        return ".nilo"


def _interval_secs(asked: float | None) -> float:
    if asked is not None:
        return float(asked)
    try:
        return _native.configured_interval() or DEFAULT_INTERVAL_SECS
    except ValueError as error:
        report(str(error))
        return DEFAULT_INTERVAL_SECS


def _is_disabled() -> bool:
    mode = os.environ.get("NILO_MODE", "")
    if mode not in ("", "on", "disabled", "off"):
        report(f"NILO_MODE is {mode!r}, which is neither 'disabled' nor 'on'; recording goes on")
    return mode in ("disabled", "off")


def _set_exit_hook() -> None:
    global _exit_hook_set
    if not _exit_hook_set:
        atexit.register(_at_exit)
        watch_threads(_run_dir)
        _exit_hook_set = True


def _run_dir() -> str | os.PathLike[str] | None:
    """The run that this process is in, also after its part of it has ended."""
    if _current is not None:
        return _current.path
    return None if _is_disabled() else os.environ.get("NILO_RUN_DIR") or None


def _at_exit() -> None:
    # An unhandled exception has been printed by now; any other exit code is known when the process itself ends.
    error = unhandled_exception()
    code = None if error is None else 130 if isinstance(error, KeyboardInterrupt) else 1
    try:
        if is_crash(error):
            record_exception(_run_dir(), error)
        if _current is not None:
            _current.finish(code, at_exit=True)
    except Exception as error:  # noqa: BLE001 - the program's own exit goes on
        sys.stderr.write(f"nilometer: the run could not be finished: {error}\n")


# Under `nilo run` an import is enough: the run is there already.
if os.environ.get("NILO_RUN_DIR"):
    _set_exit_hook()


def _as_mapping(values: Any) -> Mapping[Any, Any]:
    if values is None:
        return {}
    if isinstance(values, Mapping):
        return values
    fields = getattr(values, "__dataclass_fields__", None)
    if fields is not None and not isinstance(values, type):
        return {name: getattr(values, name) for name in fields}
    if hasattr(values, "__dict__"):
        return dict(vars(values))
    report(f"config: a {type(values).__name__} is not a dictionary, a namespace or a dataclass")
    return {}


def _flatten_config(values: Mapping[Any, Any], prefix: str, flat: dict[str, str], depth: int = 0) -> None:
    for key, value in values.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(value, Mapping) and depth < 16:
            _flatten_config(value, name, flat, depth + 1)
        else:
            flat[name] = str(value)[:1000]
