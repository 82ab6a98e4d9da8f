"""The run that a program adds to.

Each training is a run of its own. Below `nilo run`, or below a program that has a run, it lies inside that job, which records its memory.
Otherwise the program makes its own, in `./.nilo/` (or `dir=`, or `NILO_DIR`), and a thread records the memory of the process tree.
The first program of a job that only logs, without `init()`, adds to the job itself; a further one has a run of its own in it. Ranks of a distributed program share one run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from . import _native, _open_runs
from ._end_of_runs import watch_end
from ._program import adds_to, said_to_children, script_name, shared_key
from ._provenance import command, notebook_name, program_json
from ._ranks import begun_by_first_rank, ranks_key
from ._run_settings import interval_secs, is_disabled, runs_folder
from ._training_run import Run as Run
from ._trouble import report, require, require_type, warn_once

# Not from `typing`: importing that would take longer than this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# How often a run of each name was begun here: ranks find each other by it.
_begun: dict[str | None, int] = {}


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
        if outer is not None and not is_disabled():
            # Another program that logs without `init()` has a run of its own then.
            adds_to(outer)
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
        _open(run, outer)
    if config is not None:
        run.config(config)
    return run


def _open(run: Run, outer: str | None) -> None:
    """Makes a run the current one. Workers that this process starts join it."""
    if run.path is not None:
        run._outer, run._outer_started_by = outer, _open_runs.said_of_outer_run()
        run._started_by = said_to_children(os.fspath(run.path))
        _open_runs.tell_children(os.fspath(run.path), run._started_by)
    _open_runs.add(run)


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
    shared: tuple[str, bool] | None = None,
) -> Run:
    """A run beside the current one, which stays what it is. With `inside` it lies in that job; `joined` is the folder that another rank made for it.
    `shared` is the key of processes that share it, where they are not the ranks that begin a run of this name (see `ranks_key`).

    `started_by` is the job that the process was started in; where the run does not lie in it, it tells its id.
    """
    if is_disabled():
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
    program, ranks = program_json(), shared or ranks_key(name, _begun)
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
            run.own(interval_secs(interval) if memory and job is None else None)
        except OSError as error:
            report(f"memory is not recorded: {error}")
    elif memory and job is None:
        _stand_by(run, interval)
    return _begun_here(run, name, dir, resumes)


def _stand_by(run: Run, interval: float | None) -> None:
    """Another rank records the memory of all; this one goes on when that one is gone."""
    try:
        run.stand_by(interval_secs(interval))
    except OSError as error:
        report(f"memory is not recorded after the first rank has ended: {error}")


def _begun_here(run: Run, name: str | None, dir: str | os.PathLike[str] | None, resumes: str | None) -> Run:
    run._begun_by, run._name, run._folder = os.getpid(), name, None if dir is None else os.fspath(dir)
    run._began_while_handling = id(sys.exc_info()[1])
    run.resumes = resumes
    run.tell_rank_end()
    watch_end()
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

    Of several loggers that are open at once, the first one's: the runs of the others lie beside it.
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
    return run_to_log_to() if os.environ.get("NILO_RUN_DIR") and not is_disabled() else None


def joined_run() -> Run | None:
    """The current run, or the job that this process was started under. Never begins one: None where nobody records, after the job's end, and after the program has finished its run.

    For what is measured beside the program's own logging, from whatever thread: the job is joined for the main thread, whose `init()` takes its place.
    """
    run = _open_runs.current()
    if run is not None:
        return run
    path = os.environ.get("NILO_RUN_DIR")
    if not path or is_disabled():
        return None
    with _open_runs.lock:
        run = _open_runs.current()
        if run is not None or _open_runs.last_finished() is not None or _native.run_is_abandoned(path):
            return run
        try:
            is_ours = adds_to(path)
            beside = None if is_ours else _open_runs.beside(path)
            run = Run(path) if beside is None else beside
        except OSError as error:
            report(f"cannot join the run of NILO_RUN_DIR: {error}")
            return None
        if is_ours:
            run._is_implicit = True
            _open_runs.add_for_main_thread(run)
        elif beside is None:
            # What another program has logged there is not mixed with what this one logs, which begins a run of its own.
            _open_runs.add(run, beside=True)
        watch_end()
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
    run_to_log_to().mark(text)


def finish(exit_code: int | None = None) -> None:
    """Ends the current run, if there is one; its exit code is 0, or that of the exception that is being handled."""
    run = _open_runs.current()
    if run is not None:
        run.finish(exit_code)


def _join() -> Run:
    """Adds to the run that this process was started under, as it is; without one, or where that is over or another program's, begins one."""
    path = os.environ.get("NILO_RUN_DIR")
    if path and not is_disabled() and not _native.run_is_abandoned(path):
        try:
            if not adds_to(path):
                return _begin_in_job_of_others()
            run = Run(path)
            _open_runs.add(run)
            watch_end()
            return run
        except OSError as error:
            report(f"cannot join the run of NILO_RUN_DIR: {error}")
            # Whatever is begun now cannot lie inside it either.
            del os.environ["NILO_RUN_DIR"]
    return init()


def _begin_in_job_of_others() -> Run:
    """As `init`, for a program that logs in a job that another program has added to; its workers and ranks find the run by a key."""
    outer = _open_runs.started_under()
    run = begin(script_name(), inside=_unless_over(outer), started_by=outer, shared=shared_key())
    _open(run, outer)
    return run


# Under `nilo run` an import is enough: the run is there already.
if os.environ.get("NILO_RUN_DIR"):
    watch_end()
