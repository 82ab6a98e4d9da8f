"""The run that a program adds to.

Each training is a run of its own. Below `nilo run`, or below a program that has a run, it lies inside that job, which records its memory.
Otherwise the program makes its own, in `./.nilo/` (or `dir=`, or `NILO_DIR`), and a thread records the memory of the process tree.
A program that only logs, without `init()`, adds to the job itself. Ranks of a distributed program share one run.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Mapping

from . import _native, _open_runs
from ._config import as_mapping, config_events
from ._exceptions import is_crash, record_exception, watch_cells, watch_threads
from ._program_end import (
    INTERRUPTED,
    at_program_end,
    exit_code_of,
    interrupted_by,
    note_interrupted,
    other_threads_go_on,
)
from ._provenance import command, notebook_name, program_json
from ._ranks import begun_by_first_rank, ranks_key
from ._trouble import refuse_pickling, report, require, require_type, warn_once

# Not from `typing`: importing that would take longer than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable
    from threading import Thread
    from types import TracebackType
    from typing import Any

# How often a run of each name was begun here: ranks find each other by it.
_begun: dict[str | None, int] = {}
# Whatever still waits for a GPU when a run ends. A forked child has no GPU to wait for.
_settle_before_finish: weakref.WeakSet[Any] = weakref.WeakSet()

DEFAULT_INTERVAL_SECS = 0.1


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

    # The process that began it here, what NILO_RUN_DIR was before, and the training (a callback, a logger) that it belongs to.
    _begun_by: int | None = None
    _outer: str | None = None
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
        for part in list(_settle_before_finish):
            part.settle()
        super().finish(exit_code, at_exit=at_exit, is_interrupted=is_interrupted)
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


def init(
    name: str | None = None,
    *,
    dir: str | os.PathLike[str] | None = None,
    config: Any = None,
    tags: Mapping[str, str] | None = None,
    memory: bool = True,
    interval: float | None = None,
    resume: bool | str | os.PathLike[str] | None = None,
) -> Run:
    """Begins a run and makes it the current one; the one before is finished, unless another thread or asyncio task began it that still lives,
    or it is within its `with` block, after which it ends: a training within it is a run beside it.

    Below `nilo run`, and in processes started by a program that has a run, it lies inside that job, which records the memory:
    `dir`, `memory` and `interval` then mean nothing. Ranks of a distributed program (torchrun, Slurm, MPI) share one run.

    `dir` is the folder that holds runs, made where it is missing; one that can never be made, as below a file or without permission, is a ValueError,
    while a full or read-only disk is warned of and the run lies elsewhere. `memory=False` leaves out the thread that records this process's memory,
    `interval` is its sampling interval in seconds; otherwise `NILO_INTERVAL` or `interval` of the nearest `nilo.toml` says it, or it is 0.1.
    `resume` is the run that this one continues, by id, name or path; True is the last one of the same name, and None, False or "" is none.
    """
    if name is not None:
        _require_free_name(name)
    if interval is not None:
        require_type(interval, (int, float), "interval")
        require(0.001 <= interval <= 3600, f"interval must be 0.001 to 3600 seconds, not {interval}")
    if tags is not None:
        require_type(tags, Mapping, "tags")
    if resume is True:
        require(bool(name), "resume=True continues the last run of the same name: give a name")
    with _open_runs.lock:
        _open_runs.make_room()
        outer = _open_runs.started_under()
        joined = None
        if outer is not None and (first := begun_by_first_rank(outer)) is not None:
            # Not a job around this rank's run, but the same run, or the one before it.
            if first.get("ending") is None and name in (None, first.get("name")):
                joined = outer
            job = os.fspath(Run.job_of(outer))
            outer = None if job == outer else job
        started_by, outer = outer, _unless_over(outer)
        run = begin(
            name,
            dir=dir,
            tags=tags,
            memory=memory,
            interval=interval,
            resume=resume,
            inside=outer,
            started_by=started_by,
            joined=joined,
        )
        if run.path is not None:
            # Processes that this one starts join the run.
            run._outer = outer
            os.environ["NILO_RUN_DIR"] = os.fspath(run.path)
        _open_runs.add(run)
    if config is not None:
        run.config(config)
    return run


def begin(
    name: str | None,
    *,
    dir: str | os.PathLike[str] | None = None,
    tags: Mapping[str, str] | None = None,
    memory: bool = True,
    interval: float | None = None,
    resume: bool | str | os.PathLike[str] | None = None,
    inside: str | None = None,
    started_by: str | None = None,
    joined: str | None = None,
) -> Run:
    """A run beside the current one, which stays what it is. With `inside` it lies in that job; `joined` is the folder that another rank made for it.

    `started_by` is the job that the process was started in; where the run does not lie in it, it tells its id.
    """
    if _is_disabled():
        return Run(None)
    words = command()
    text_tags = {str(key): str(value) for key, value in (tags or {}).items()}
    root = os.fspath(dir) if dir is not None else runs_folder()
    resumes = _id_of_resumed(resume, name, root)
    if joined is not None:
        run = Run(joined)
        if memory and inside is None:
            _stand_by(run, interval)
        return _begun_here(run, name, dir, resumes)
    program, ranks = program_json(), ranks_key(name, _begun)
    left = _job_id(started_by) if started_by and not inside else None
    run = None
    for job in (inside, None) if inside else (None,):
        try:
            path, is_new, refused = Run.make_folder(
                root,
                name or notebook_name(),
                words,
                text_tags,
                # Inside a job it means nothing.
                is_named=dir is not None and inside is None,
                inside=job,
                started_by_job=left,
                resumes=resumes,
                ranks=ranks,
                program=program,
            )
            run = Run(path)
            break
        except OSError as error:
            report(f"cannot join the run of NILO_RUN_DIR: {error}" if job else f"nothing is recorded: {error}")
    if run is None:
        return Run(None, is_lost=True)
    if refused is not None:
        report(f"{refused}; recording to {os.path.dirname(path)} instead")
    if is_new:
        try:
            interval_secs = _interval_secs(interval) if memory and job is None else None
            run.own(interval_secs)
        except OSError as error:
            report(f"memory is not recorded: {error}")
    elif memory and job is None:
        _stand_by(run, interval)
    return _begun_here(run, name, dir, resumes)


def _stand_by(run: Run, interval: float | None) -> None:
    """Another rank records the memory of all; this one goes on when that one is gone."""
    try:
        run.stand_by(_interval_secs(interval))
    except OSError as error:
        report(f"memory is not recorded after the first rank has ended: {error}")


def _begun_here(run: Run, name: str | None, dir: str | os.PathLike[str] | None, resumes: str | None) -> Run:
    run._begun_by, run._name, run._folder = os.getpid(), name, None if dir is None else os.fspath(dir)
    run._began_while_handling = id(sys.exc_info()[1])
    run.resumes = resumes
    run.tell_rank_end()
    _watch_end()
    return run


def _require_free_name(name: str) -> None:
    require_type(name, str, "name")
    why = _native.refuse_name(name)
    require(why is None, f"name: {why}")


def begin_beside(name: str | None) -> Run:
    """A further run, for loggers that have a run of their own; the current one stays what it is.

    It lies inside a run that the program began itself, and beside that of another logger.
    """
    if name is not None:
        _require_free_name(name)
    with _open_runs.lock:
        _open_runs.make_room(beside=True)
        current = own_current()
        is_of_logger = current is not None and current._was_made_for_training
        outer = _open_runs.started_under() if is_of_logger else os.environ.get("NILO_RUN_DIR") or None
        run = begin(name, inside=_unless_over(outer), started_by=outer)
        _open_runs.add(run, beside=True)
    return run


def _unless_over(job: str | None) -> str | None:
    """Nobody records the memory of what begins in a job that has ended; a process that outlives it has runs of its own."""
    return None if job is None or _native.job_is_over(job) else job


def _job_id(path: str) -> str | None:
    try:
        return os.path.basename(os.fspath(Run.job_of(path)))
    except OSError:
        return None


def _id_of_resumed(resume: bool | str | os.PathLike[str] | None, name: str | None, root: str) -> str | None:
    if resume is None or resume is False or resume == "":
        return None
    from .reading import read_run

    asked = name or "" if resume is True else os.fspath(resume)
    try:
        resumed = read_run(asked, dir=root)
        if "ending" not in resumed.description and resumed.summary()["status"] == "running":
            warn_once(f"resume: {resumed.path.name} is still running")
        return resumed.path.name
    except OSError as error:
        if resume is not True:
            raise
        report(f"nothing to resume: {error}")
        return None


def continue_run(run: Run, earlier: str) -> None:
    """Says of a run, after it began, that it continues the one in this folder; nothing where that is gone, or another one was said before."""
    if run.path is None or run.resumes is not None or os.fspath(run.path) == earlier or not os.path.isdir(earlier):
        return
    try:
        run.resumes = _id_of_resumed(earlier, None, os.path.dirname(earlier))
    except OSError as error:
        return report(f"nothing to resume: {error}")
    if run.resumes is not None:
        run.set_resumed(run.resumes)


def current_run() -> Run:
    """The run that points go to: the one that this thread or asyncio task began, or else the latest; made or joined where there was none yet.

    After `finish()` it is the run that ended, whose `path` can be read: to ask for it begins no other.
    """
    run = _open_runs.current()
    if run is None:
        run = _open_runs.last_finished()
    return run_to_log_to() if run is None else run


def run_to_log_to() -> Run:
    """As `current_run`, for whoever has something to log.

    After `finish()` it is a further run with the name and in the folder of the one that ended, and a warning says so once.
    """
    run = _open_runs.only
    if run is not None and not run.finished:
        return run
    run = _open_runs.current()
    if run is not None:
        return run
    with _open_runs.lock:
        before = _open_runs.last_finished()
        run = _open_runs.current()
        if run is None:
            run = _join() if before is None else _begin_again(before)
            run._is_implicit = True
        return run


def _begin_again(before: Run) -> Run:
    if before._begun_by is None:
        return _join()
    run = init(before._name, dir=before._folder)
    if before.path is not None and run.path is not None and run.path != before.path:
        report(
            "the run is finished: logging after finish() starts a new run of the same name "
            "(call nilometer.init() to start one explicitly)"
        )
    return run


def own_current() -> Run | None:
    """The run that this process itself began, if it is the current one."""
    run = _open_runs.current()
    return run if run is not None and run._begun_by == os.getpid() else None


def active_run() -> Run | None:
    """The run that this process is in or was started under, joined if need be; None when there is none."""
    run = _open_runs.current()
    if run is not None:
        return run
    return run_to_log_to() if os.environ.get("NILO_RUN_DIR") and not _is_disabled() else None


def joined_run() -> Run | None:
    """The current run, or the job that this process was started under. Never begins one: None where nobody records, after the job's end, and after the program has finished its run.

    For what is measured beside the program's own logging, from whatever thread: the job is joined for the main thread, whose `init()` takes its place.
    """
    run = _open_runs.current()
    if run is not None:
        return run
    path = os.environ.get("NILO_RUN_DIR")
    if not path or _is_disabled():
        return None
    with _open_runs.lock:
        run = _open_runs.current()
        if run is not None or _open_runs.last_finished() is not None or _native.run_is_abandoned(path):
            return run
        try:
            run = Run(path)
        except OSError as error:
            report(f"cannot join the run of NILO_RUN_DIR: {error}")
            return None
        run._is_implicit = True
        _open_runs.add_for_main_thread(run)
        _watch_end()
        return run


def current_step() -> int | None:
    """The step that the current run has come to; none is made or joined for it."""
    run = _open_runs.current()
    return None if run is None else run.newest_step


def log(values: Mapping[str, Any], step: int | None = None) -> None:
    """Stores numbers in the current run: `log({"loss": 0.5}, step=3)`. Without a step, each call that stores something is one more than the last."""
    run_to_log_to().log(values, step)


def mark(text: str) -> None:
    """Sets a mark in the current run: `mark("epoch 3")`."""
    run_to_log_to().mark(str(text))


def finish(exit_code: int | None = None) -> None:
    """Ends the current run, if there is one; its exit code is 0, or that of the exception that is being handled."""
    run = _open_runs.current()
    if run is not None:
        run.finish(exit_code)


def _join() -> Run:
    """Adds to the run that this process was started under, as it is; without one, or where that is over, begins one."""
    path = os.environ.get("NILO_RUN_DIR")
    if path and not _is_disabled() and not _native.run_is_abandoned(path):
        try:
            run = Run(path)
            _open_runs.add(run)
            _watch_end()
            return run
        except OSError as error:
            report(f"cannot join the run of NILO_RUN_DIR: {error}")
            # Whatever is begun now cannot lie inside it either.
            del os.environ["NILO_RUN_DIR"]
    return init()


def runs_folder() -> str:
    """The folder that holds runs: `NILO_DIR`, or `dir` of the nearest `nilo.toml`, or `.nilo`."""
    asked = os.environ.get("NILO_DIR")
    if asked:
        return asked
    try:
        return os.fspath(_native.project_folder())
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
        report(f"NILO_MODE must be 'on' or 'disabled', not {mode!r}; recording stays on")
    return mode in ("disabled", "off")


def _watch_end() -> None:
    at_program_end(_end_all, _note_failure)
    watch_threads(_run_dir)
    watch_cells(_run_dir)


def _run_dir() -> str | os.PathLike[str] | None:
    """The run that this process is in, also after its part of it has ended."""
    run = _open_runs.current()
    if run is not None:
        return run.path
    return None if _is_disabled() else os.environ.get("NILO_RUN_DIR") or None


def _note_failure(error: BaseException) -> None:
    if is_crash(error):
        record_exception(_run_dir(), error)


def _end_all(error: BaseException | None, exit_code: int | None) -> None:
    try:
        if is_crash(error):
            record_exception(_run_dir(), error)
        for run in interrupted_by(error):
            if exit_code is not None:
                run.correct_end(INTERRUPTED, exit_code)
        # A child of multiprocessing waits for its threads only after this; they may log until then.
        stays_open = exit_code is not None and other_threads_go_on()
        for run in _open_runs.all_open():
            if stays_open:
                run.end(exit_code)
            else:
                run.finish(exit_code, at_exit=True)
    except Exception as trouble:  # noqa: BLE001 - the program's own exit goes on
        sys.stderr.write(f"nilometer: the run could not be finished: {trouble}\n")


os.register_at_fork(after_in_child=_settle_before_finish.clear)
# Under `nilo run` an import is enough: the run is there already.
if os.environ.get("NILO_RUN_DIR"):
    _watch_end()
