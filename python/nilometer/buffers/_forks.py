"""What is held while the process is forked, so that the child has it whole and no lock is held there for ever."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol


class _Held(Protocol):
    def _begin_fork(self) -> None:
        """Waits for threads that are in the middle of a change, and lets nobody begin one."""

    def _end_fork(self) -> None:
        """In the parent and in the child."""


class _HeldAtForks:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: weakref.WeakSet[_Held] = weakref.WeakSet()
        self._held: list[_Held] = []
        os.register_at_fork(before=self._begin, after_in_parent=self._end, after_in_child=self._end)

    def add(self, one: _Held) -> None:
        with self._lock:
            self._known.add(one)

    def _begin(self) -> None:
        self._lock.acquire()
        self._held = list(self._known)
        for one in self._held:
            one._begin_fork()

    def _end(self) -> None:
        for one in self._held:
            one._end_fork()
        self._held = []
        self._lock.release()


held_at_forks = _HeldAtForks()
