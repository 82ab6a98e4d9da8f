"""A thread that calls a function once a second, for what must happen also where a program makes no steps."""

from __future__ import annotations

import threading
from collections.abc import Callable

_SECS = 1.0
# At the program's end, a call that takes longer is left alone.
_LONGEST_END_SECS = 2.0


class StepWatch:
    """Begins and ends with whoever needs it; a daemon, so that it never keeps a program alive."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nilometer-gc", daemon=True)

    def begin(self) -> bool:
        """Whether the thread could be started; a process may have no more threads, or be about to end."""
        try:
            self._thread.start()
        except RuntimeError:
            return False
        return True

    def stop(self) -> None:
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join(_LONGEST_END_SECS)

    def _run(self) -> None:
        while not self._over.wait(_SECS):
            self._look()
