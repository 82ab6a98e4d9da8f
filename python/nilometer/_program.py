"""Which program this process belongs to. The first program of a job may log without `init()`, into the job itself; a further one then has a run of its own.

Workers of multiprocessing, forks and the ranks of one launch are one program. What a shell or `subprocess` starts is another.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from . import _native
from ._open_runs import said_of_outer_run
from ._program_end import is_multiprocessing_child
from ._launch_members import Member, is_of_launch, members_in
from ._ranks import first_rank_of_lightning, launch_of, own_rank, process_key

# In a job's folder: a line for each text that the first program's processes may have in common, and one for each rank of it that has logged.
FIRST_PROGRAM = ".first-program"
# Beside it while it is being made, where the file system has no hard links.
_BEING_MADE = ".being-made"
# So long a program waits for another one that makes it.
_MAKING_SECS = 2.0
# Beside it, once another program has logged: readers take a job and its single run for one training otherwise.
SEVERAL_PROGRAMS = ".several-programs"

# In the command lines of processes that multiprocessing and joblib start afresh.
_WORKER_MARKS = ("--multiprocessing-fork", "multiprocessing.forkserver", "popen_loky_posix")
_MOST_READ = 1 << 20


def adds_to(run_dir: str) -> bool:
    """Whether what this process logs without `init()` belongs to the run that it was started under.

    A program's run is for its own workers. A job is for the first program that asks, also by `init()`; programs may ask at the same moment.
    """
    pid = _program_pid()
    keys = _keys(pid)
    said = said_of_outer_run() or ""
    if said.endswith(" " + run_dir):
        return said.removesuffix(" " + run_dir) in keys
    path = os.path.join(run_dir, FIRST_PROGRAM)
    launch, is_unique = _launch_key(pid) or (None, False)
    member = Member(own_rank() or 0, process_key(pid))
    first = _read(path)
    if first is None:
        first = _claim(path, keys if launch is None else {*keys, launch, member.line()})
    # Where nothing can be written, programs cannot be told apart.
    if not first or not keys.isdisjoint(first):
        return True
    if launch in first:
        members = members_in(first)
        if is_unique or member in members:
            return True
        if is_of_launch(member, members):
            _append(path, member.line())
            return True
    with contextlib.suppress(OSError):
        os.close(os.open(os.path.join(run_dir, SEVERAL_PROGRAMS), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    return False


def said_to_children(run_dir: str) -> str:
    """What processes that are started from here on are told of who began the run of NILO_RUN_DIR."""
    return f"{process_key(_program_pid())} {run_dir}"


def shared_key() -> tuple[str, bool]:
    """A text that the processes of this program have and no other program, and whether no later one can have it, as `ranks_key`."""
    pid = _program_pid()
    launch = _launch_key(pid)
    return ("program " + process_key(pid), True) if launch is None else launch


def script_name() -> str | None:
    """The name of a run that a program begins by logging: that of its script; None where that cannot be a name."""
    path = sys.argv[0] if sys.argv and isinstance(sys.argv[0], str) else ""
    name = os.path.basename(path)
    if name == "__main__.py":
        name = os.path.basename(os.path.dirname(path))
    name = name.removesuffix(".py")
    return name if name not in ("", "-c", "-m", "-") and _native.refuse_name(name) is None else None


def _keys(pid: int) -> set[str]:
    """Texts that only processes of this program have."""
    first = first_rank_of_lightning()
    return {process_key(pid)} if first is None else {process_key(pid), process_key(first)}


def _launch_key(pid: int) -> tuple[str, bool] | None:
    launch = launch_of(pid, _parent(pid))
    if launch is None:
        return None
    text, is_unique = launch
    if not is_unique:
        # A shell below the launcher may start several programs. Old launchers tell each rank its place as an argument.
        words = [str(word) for word in sys.argv if not str(word).lstrip("-").replace("-", "_").startswith("local_rank")]
        text = " ".join([text, *words])
    return "launch " + text.replace("\n", " "), is_unique


def _program_pid() -> int:
    """The process that the program began with: the one that this worker, or the worker that started it, was started by."""
    pid = os.getpid()
    process = sys.modules.get("multiprocessing.process")
    if is_multiprocessing_child() and process is not None:
        pid = process.parent_process().pid
    seen = {pid}
    while (parent := _parent(pid)) not in seen and _is_worker(pid):
        seen.add(parent)
        pid = parent
    return pid


def _is_worker(pid: int) -> bool:
    command = " ".join(_native.process_arguments(pid))
    return any(mark in command for mark in _WORKER_MARKS) or _native.is_fork_of_parent(pid)


def _parent(pid: int) -> int:
    return os.getppid() if pid == os.getpid() else _native.process_parent(pid) or 0


def _claim(path: str, lines: set[str]) -> set[str] | None:
    """Makes this program the first one, unless another was faster; gives the lines of the one that is, and None where nothing can be written."""
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in sorted(lines)))
        try:
            # Put into place whole, so that nobody ever reads half of it.
            os.link(draft, path)
        except FileExistsError:
            return _read(path)
        except OSError:
            return _claim_without_links(draft, path, lines)
        return lines
    except OSError:
        return _read(path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(draft)


def _claim_without_links(draft: str, path: str, lines: set[str]) -> set[str]:
    """As `_claim`, where the file system has no hard links: only one program can make the folder."""
    try:
        os.mkdir(path + _BEING_MADE)
    except FileExistsError:
        until = time.monotonic() + _MAKING_SECS
        while (first := _read(path)) is None and time.monotonic() < until:
            time.sleep(0.01)
        # Somebody else was first, even if it was killed before it could say who it is.
        return {"unknown"} if first is None else first
    # On file systems without links the last one would win, so this is done by the one that made the folder.
    os.rename(draft, path)
    return lines


def _append(path: str, line: str) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(handle, f"{line}\n".encode())
        finally:
            os.close(handle)


def _read(path: str) -> set[str] | None:
    content = _read_bytes(path)
    return None if content is None else set(content.decode("utf-8", "replace").splitlines())


def _read_bytes(path: str) -> bytes | None:
    try:
        # Neither a link nor a FIFO in the file's place is followed or waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(handle, _MOST_READ)
    except OSError:
        return None
    finally:
        os.close(handle)
