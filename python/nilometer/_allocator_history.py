"""The history that PyTorch's CUDA allocator keeps: started, stopped and taken by PyTorch's private functions.

These differ between versions, or are missing: what is there is found by name and signature, never by version.
The allocator has one history. One that the program records itself is left alone, also where the program begins it while ours is on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

_RECORD = "_record_memory_history"


class AllocatorHistory:
    """The history of this process's allocator."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._memory = getattr(torch.cuda, "memory", None)
        self._record: Callable[..., Any] | None = getattr(self._memory, _RECORD, None)
        self._is_recorded = getattr(torch._C, "_cuda_isHistoryEnabled", None)
        self._snapshot = getattr(self._memory, "_snapshot", None)
        self._observe = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
        self._parameters = _parameters(self._record)
        self._is_ours = False
        self._wrapper: Any = None

    @property
    def missing(self) -> list[str]:
        """What this PyTorch cannot do, in words."""
        can_record = "max_entries" in self._parameters or "trace_alloc_max_entries" in self._parameters
        parts = {
            "bound the history of its allocator": can_record,
            "tell whether the program records that history already": self._is_recorded is not None,
            "take a snapshot": self._snapshot is not None,
            "tell of an allocation that fails": self._observe is not None,
        }
        return [what for what, is_there in parts.items() if not is_there]

    @property
    def can_record(self) -> bool:
        return len(self.missing) == 0 or self.missing == ["tell of an allocation that fails"]

    @property
    def can_snapshot(self) -> bool:
        return self._snapshot is not None

    def is_on(self) -> bool:
        """Whether somebody records it. CUDA must have been started: before that PyTorch has no allocator to ask."""
        return self._is_recorded is not None and bool(self._is_recorded())

    def start(self, max_entries: int, stacks: str) -> None:
        """Records the newest `max_entries` events, unless somebody does so already."""
        if self._record is None or self.is_on():
            return
        if "max_entries" in self._parameters:
            settings: dict[str, Any] = {"enabled": "all", "max_entries": max_entries}
            if "stacks" in self._parameters:
                settings["stacks"] = stacks
        else:
            settings = {"enabled": True, "trace_alloc_max_entries": max_entries, "trace_alloc_record_context": True}
            if "record_context_cpp" in self._parameters:
                settings["record_context_cpp"] = stacks == "all"
        self._record(**settings)
        self._is_ours = True
        self._notice_the_programs_own()

    def stop(self) -> None:
        """Ends the recording that `start` began; one that the program has begun since then goes on."""
        self._take_notice_off()
        if self._is_ours and self._record is not None and self.is_on():
            self._record(enabled=None if "max_entries" in self._parameters else False)
        self._is_ours = False

    def take(self) -> Any:
        """What the allocator holds, with the history where it is recorded."""
        return None if self._snapshot is None else self._snapshot()

    def observe(self, on_failure: Callable[..., None]) -> bool:
        """Has it called where an allocation fails, before the exception is raised. It cannot be taken off again."""
        if self._observe is None:
            return False
        self._observe(on_failure)
        return True

    def _notice_the_programs_own(self) -> None:
        """PyTorch does not tell who began the recording, so calls of the program pass by here while ours is on."""
        record = self._record
        assert record is not None

        @functools.wraps(record)
        def _record_memory_history(*args: Any, **kwargs: Any) -> Any:
            self._is_ours = False
            return record(*args, **kwargs)

        self._wrapper = _record_memory_history
        setattr(self._memory, _RECORD, _record_memory_history)

    def _take_notice_off(self) -> None:
        # Where somebody has wrapped ours, it stays below theirs and hands everything on.
        if self._wrapper is not None and getattr(self._memory, _RECORD, None) is self._wrapper:
            setattr(self._memory, _RECORD, self._record)
        self._wrapper = None


def _parameters(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()
