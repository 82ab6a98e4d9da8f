"""Calls of the user's functions, away from the thread that watches: one at a time, in order, on a thread that ends when there is no more to call."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable
from typing import Any

# A callback that blocks for good gathers no more than this.
_MOST_WAITING = 1000


class Delivery:
    """Hands things to one callback. What it raises is said through `complain`; while it blocks, only its own calls wait."""

    def __init__(self, callback: Callable[[Any], object], name: str, complain: Callable[[str], None]) -> None:
        self._callback = callback
        self._name = name
        self._complain = complain
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._waiting: collections.deque[object] = collections.deque()
        self._is_delivering = False

    def post(self, thing: object) -> None:
        """Soon calls the callback with it; never waits for the callback."""
        if self._pid != os.getpid():
            # The thread stayed with the parent, and perhaps the lock with it.
            self._begin()
        with self._lock:
            if len(self._waiting) >= _MOST_WAITING:
                self._complain(f"{self._name} has not returned; further calls are dropped until it does")
                return
            self._waiting.append(thing)
            if not self._is_delivering:
                self._is_delivering = True
                threading.Thread(target=self._deliver, name="nilo-callback", daemon=True).start()

    def _deliver(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_delivering = False
                    return
                thing = self._waiting.popleft()
            try:
                self._callback(thing)
            except BaseException as error:  # noqa: BLE001 - the user's function; sys.exit() in it ends nothing either
                self._complain(f"{self._name}: {type(error).__name__}: {error}")
