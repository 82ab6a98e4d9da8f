"""One thread and one process tree for everything in this process that watches memory.

Each look reads the devices that somebody wants, once, and goes to whoever is due.
Between looks the host is read as often as `nilo run` reads a job, where somebody judges it: whoever looks at a training step of a third of a second twice a second
sees now its highest level and now its lowest, and takes back what it said before. Every judge takes in every reading, so all of them know the same.
The thread begins with the first watcher and ends with the last; it is a daemon, and ends before the interpreter does.
After a fork the child has none of it and makes its own when asked.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from .. import _native
from .._trouble import NilometerError
from .readings import DeviceReading, gpu_readings, host_reading
from .training_steps import newest_step

if TYPE_CHECKING:
    from .watcher import Watcher

# The host is read at least this often for those who judge it: the interval of `nilo run` ...
_READ_SECS = 0.1
# ... but for no more than this share of a core, however large the process tree.
_MOST_OF_A_CORE = 0.05
# A look that hangs at the program's end is left alone after this.
_LONGEST_END_SECS = 2.0


class Sampler:
    """Reads memory for any number of watchers."""

    def __init__(self) -> None:
        try:
            self.monitor = _native.MemoryMonitor()
        except OSError as error:
            raise NilometerError(f"memory cannot be read on this system: {error}") from error
        self._lock = threading.Lock()
        # When each watcher's next look is due.
        self._due: dict[Watcher, float] = {}
        self._thread: _SamplingThread | None = None
        # When the host is read next for those who judge it.
        self._next_read = 0.0

    def read(self, *, host: bool, gpus: bool) -> list[DeviceReading]:
        """One look, now. Of the host every judge takes it in; GPUs are handed to them by whoever asks about GPUs."""
        readings = [self._read_host()] if host else []
        return readings + gpu_readings() if gpus else readings

    def _read_host(self) -> DeviceReading:
        began, cpu_before = time.monotonic(), time.thread_time()
        try:
            return host_reading(self.monitor.read(newest_step()))
        finally:
            cpu_secs = time.thread_time() - cpu_before
            self._next_read = began + max(_READ_SECS, cpu_secs / _MOST_OF_A_CORE)

    def add(self, watcher: Watcher) -> None:
        """Looks for this watcher too, beginning now."""
        with self._lock:
            self._due[watcher] = time.monotonic()
            if self._thread is None:
                self._thread = _SamplingThread(self)
                self._thread.start()
            self._thread.wake.set()

    def remove(self, watcher: Watcher) -> None:
        """Looks no more for it. With the last one the thread ends."""
        with self._lock:
            self._due.pop(watcher, None)
            is_needed = bool(self._due)
        if not is_needed:
            self.end()

    def end(self, timeout: float | None = None) -> None:
        """Ends the thread, if it runs, and waits for that."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.wake.set()
            if thread is not threading.current_thread():
                thread.join(timeout)

    def look(self, thread: threading.Thread) -> float | None:
        """Looks for whoever is due; the seconds to wait after that, or None for a thread that is not needed any more."""
        with self._lock:
            if self._thread is not thread:
                return None
            now = time.monotonic()
            due = [watcher for watcher, at in self._due.items() if at <= now]
            for watcher in due:
                # Missed looks are skipped, not made up for.
                self._due[watcher] = max(self._due[watcher] + watcher.sampling_interval, now)
            is_judged = any(watcher._judges_host for watcher in self._due)
        if due:
            self.look_for(due)
        if is_judged and self._next_read <= time.monotonic():
            # A reading that fails is told at the next look.
            with contextlib.suppress(Exception):
                self._read_host()
        with self._lock:
            if self._thread is not thread:
                return None
            next_look = min(self._due.values(), default=0.0)
            next_look = min(next_look, self._next_read) if is_judged else next_look
            return max(next_look - time.monotonic(), 0.0)

    def look_for(self, watchers: list[Watcher]) -> None:
        """One look, now, for these; a reading that fails is theirs to report."""
        try:
            readings = self.read(
                host=any(watcher._wants_host for watcher in watchers),
                gpus=any(watcher._wants_gpus for watcher in watchers),
            )
        except Exception as error:  # noqa: BLE001 - a reading that failed; the next may succeed
            for watcher in watchers:
                watcher._say_once(f"{type(error).__name__}: {error}")
            return
        for watcher in watchers:
            watcher._take(readings)


class _SamplingThread(threading.Thread):
    def __init__(self, sampler: Sampler) -> None:
        super().__init__(name="nilo-memory", daemon=True)
        self._sampler = sampler
        self.wake = threading.Event()

    def run(self) -> None:
        while (seconds := self._sampler.look(self)) is not None:
            self.wake.wait(seconds)
            self.wake.clear()


_lock = threading.Lock()
_sampler: Sampler | None = None


def own_sampler() -> Sampler:
    """The sampler of this process."""
    global _sampler
    with _lock:
        if _sampler is None:
            _sampler = Sampler()
        return _sampler


def _forget_the_parents() -> None:
    global _lock, _sampler
    _lock = threading.Lock()
    _sampler = None


def _end() -> None:
    # A thread that comes back from native code after the interpreter has ended would take the process down with it.
    if _sampler is not None:
        _sampler.end(_LONGEST_END_SECS)


os.register_at_fork(after_in_child=_forget_the_parents)
atexit.register(_end)
