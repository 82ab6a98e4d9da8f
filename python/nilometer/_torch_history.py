"""`nilometer.torch.record_history`: what the CUDA allocator did lately, and a snapshot of it where an allocation fails.

PyTorch calls its observers where an allocation fails, before the exception unwinds: everything is still held then.
The hooks of `nilo run` have an observer of their own; where a recording is open here, they leave the snapshot to it and name it.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from . import _native, _open_runs
from ._allocator_history import AllocatorHistory
from ._files import write_bytes
from ._snapshot_file import LARGEST_BYTES, SnapshotTooLarge, pickled
from ._trouble import report, require, require_type, warn_once, whole_number
from .profiling._cuda import torch_with_cuda
from .run import Run, run_to_log_to

_MEDIA_TYPE = "application/x-python-pickle"

_lock = threading.RLock()
# Recordings that have begun and not ended, the newest last.
_open: list[HistoryRecording] = []
_is_observed = False
# Snapshots of failures so far: each recording stores one.
_failures = 0


def record_history(
    max_entries: int = 100_000, stacks: str = "python", run: Run | None = None
) -> HistoryRecording:
    """Records what PyTorch's CUDA allocator does, and attaches a snapshot of it to the run where an allocation fails.

    `max_entries` is the number of events kept, the newest: an allocation is one, and freeing it two. PyTorch's own default is no bound.
    `stacks` is `"python"`, the Python lines that allocated, or `"all"`, C++ too, which takes minutes to write out for a large model.
    `run` is the run that snapshots are attached to; otherwise it is the current one, which is begun where there is none.

    The snapshot is taken before the exception unwinds, of the first failure, and no larger than 256 MiB; `nilo snapshot why` explains it.
    Ends with `stop()`, or with the `with` block. Each event costs about 2 µs.
    A history that the program records itself is left as it is, and goes on after `stop()`.
    Before the program uses CUDA nothing is recorded and CUDA is not started. Without CUDA, or with a PyTorch that cannot do it, a warning says so once.

        with nilometer.torch.record_history():
            train()
    """
    entries = whole_number(max_entries, "max_entries", least=1)
    require_type(stacks, str, "stacks")
    require(stacks in ("python", "all"), f"stacks must be 'python' or 'all', not {stacks!r}")
    if run is not None:
        require_type(run, _native.Run, "run")
    recording = HistoryRecording(entries, stacks, run)
    recording._begin()
    return recording


class HistoryRecording:
    """What `record_history` began; `stop()` ends it."""

    def __init__(self, max_entries: int, stacks: str, run: Run | None) -> None:
        self.max_entries = max_entries
        self._stacks = stacks
        self._given_run = run
        self._first_run: Run | None = None
        self._torch: Any = None
        self._history: AllocatorHistory | None = None
        self._has_tried_failure = False
        self._taken = 0
        self.failure_snapshot: str | None = None
        """The name of the attachment with the first allocation that failed; None where none failed, or it could not be stored."""

    @property
    def is_recording(self) -> bool:
        """Whether the allocator's history is recorded: from when the program uses CUDA until `stop()`."""
        return self in _open and self._has_cuda() and self._history is not None and self._history.is_on()

    def snapshot(self, name: str | None = None, *, path: str | os.PathLike[str] | None = None) -> str | None:
        """Stores what the allocator holds, with the history, for `nilo snapshot`; gives the attachment's name, or the path.

        `name` is what the attachment of the run is called, `snapshot-PID-1.pickle` unless given. With `path` it is a file there instead, and the run has none.
        None, and a warning, where there is nothing to store: no CUDA, or nothing on the GPU yet.
        """
        if name is not None:
            require_type(name, str, "name")
        require(name is None or path is None, "name is that of an attachment: give a name or a path, not both")
        if self._history is None or not self._history.can_snapshot:
            warn_once("snapshot: there is no CUDA allocator to take one of")
            return None
        if not self._has_cuda():
            warn_once("snapshot: the program has not used CUDA yet")
            return None
        try:
            content = self._content()
            if path is not None:
                return os.fspath(write_bytes(path, content))
            self._taken += 1
            name = name or f"snapshot-{_process()}-{self._taken}.pickle"
            return name if self._attach(content, name) else None
        except SnapshotTooLarge:
            report(_too_large(self.max_entries))
        except OSError as error:
            report(f"snapshot: {error}")
        return None

    def stop(self) -> None:
        """Ends the recording, unless the program began it or took it over. What was attached stays."""
        with _lock:
            if self not in _open:
                return
            _open.remove(self)
            if self._history is not None and self._has_cuda():
                self._history.stop()

    def __enter__(self) -> HistoryRecording:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<nilometer.torch.HistoryRecording of {self.max_entries} entries{'' if self in _open else ', stopped'}>"

    def _begin(self) -> None:
        torch = torch_with_cuda()
        if torch is None:
            warn_once("record_history: there is no CUDA device; nothing is recorded")
            return
        self._torch = torch
        self._history = AllocatorHistory(torch)
        if self._history.missing:
            parts = " or ".join(self._history.missing)
            rest = "the rest is recorded" if self._history.can_record else "no history is recorded"
            warn_once(f"record_history: this PyTorch cannot {parts}; {rest}")
        # Where memory has run out is no time to begin a run.
        self._first_run = self._given_run if self._given_run is not None else run_to_log_to()
        with _lock:
            _open.append(self)
        queue = getattr(torch.cuda, "_lazy_call", None)
        if queue is None:
            torch.cuda.init()
            self._on_cuda()
        else:
            # Called at once, or when the program starts CUDA.
            queue(self._on_cuda)

    def _on_cuda(self) -> None:
        """CUDA has started. An exception here would be the program's."""
        global _is_observed
        try:
            with _lock:
                if self not in _open or self._history is None:
                    return
                if self._history.can_record:
                    self._history.start(self.max_entries, self._stacks)
                if not _is_observed:
                    _is_observed = self._history.observe(_on_failure)
        except Exception as error:  # noqa: BLE001 - private functions of torch may do anything
            warn_once(f"record_history: {type(error).__name__}: {error}; no history is recorded")

    def _has_cuda(self) -> bool:
        return self._torch is not None and bool(self._torch.cuda.is_initialized())

    def _content(self) -> bytes:
        assert self._history is not None
        return pickled(self._history.take(), self.max_entries)

    def _attach(self, content: bytes, name: str) -> bool:
        run = self._given_run if self._given_run is not None else _open_runs.current() or self._first_run
        if run is None or run.finished:
            report(f"snapshot: the run is finished; {name} is not stored")
            return False
        if run.path is None:
            return False
        file = os.path.join(os.fspath(run.path), "attachments", name)
        was_there = os.path.exists(file)
        run.attach(content, name, _MEDIA_TYPE)
        return not was_there and os.path.exists(file)

    def _store_failure(self) -> None:
        """Only the first: a program that goes on after each of them may have many, and writing one takes time."""
        if self.failure_snapshot is not None or self._has_tried_failure or self._history is None:
            return
        # An attempt that fails is not repeated either.
        self._has_tried_failure = True
        if not self._history.can_snapshot or not self._history.is_on():
            return
        global _failures
        _failures += 1
        number = "" if _failures == 1 else f"-failure{_failures}"
        name = f"snapshot-{_process()}{number}.pickle"
        if self._attach(self._content(), name):
            self.failure_snapshot = name


def snapshot_of_failure() -> str | None:
    """The attachment that has the failure that is being told of; None where no recording is open. The hooks of `nilo run` ask."""
    with _lock:
        recording = _open[-1] if _open else None
        if recording is None:
            return None
        try:
            recording._store_failure()
        except SnapshotTooLarge:
            _say_in_failure(_too_large(recording.max_entries))
        except Exception as error:  # noqa: BLE001 - the program's exception is worth more
            _say_in_failure(f"the snapshot is not stored: {type(error).__name__}: {error}")
        return recording.failure_snapshot


def _on_failure(*_figures: int) -> None:
    """An exception here would take the place of the program's, also in strict mode."""
    try:
        snapshot_of_failure()
    except Exception:  # noqa: BLE001
        pass


def _say_in_failure(message: str) -> None:
    try:
        warn_once(message)
    except Exception:  # noqa: BLE001 - warnings that are errors
        pass


def _too_large(max_entries: int) -> str:
    return (
        f"the snapshot is larger than {LARGEST_BYTES >> 20} MiB and not stored: "
        f"record fewer than {max_entries} entries, or stacks='python'"
    )


def _process() -> str:
    """Ranks on several machines share a run, and may have the same process id."""
    place = _native.own_rank()
    return f"{os.getpid()}" if place is None else f"rank{place[0]}-{os.getpid()}"


# A forked child has no CUDA of its parent's.
os.register_at_fork(after_in_child=_open.clear)
