"""The thread that looks at memory at a steady pace, and the shape that everything with such a thread has."""

from __future__ import annotations

import abc
import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TypeVar

from .._trouble import NilometerError, require, require_type
from .readings import DeviceReader, DeviceReading, device_name

_log = logging.getLogger("nilometer.memory")
_MB = 1 << 20
_Self = TypeVar("_Self", bound="Watcher")


class Watcher(contextlib.ContextDecorator, abc.ABC):
    """Calls `on_reading` every `sampling_interval` seconds between `start_monitoring` and `stop_monitoring`.

    Also a context manager and a decorator. The thread is a daemon: it never keeps a program alive.
    What goes wrong in it is logged once (logger `nilometer.memory`) and never reaches the training; at level DEBUG every look is logged.
    """

    def __init__(self, sampling_interval: float, devices: Sequence[int | str] | None) -> None:
        require_type(sampling_interval, (int, float), "sampling_interval")
        require(
            0.001 <= sampling_interval <= 3600,
            f"sampling_interval must be 0.001 to 3600 seconds, not {sampling_interval}",
        )
        self.sampling_interval = float(sampling_interval)
        try:
            self._reader = DeviceReader(devices)
        except OSError as error:
            raise NilometerError(f"memory cannot be read on this system: {error}") from error
        self._thread: threading.Thread | None = None
        self._pid = 0
        self._stop = threading.Event()
        self._failures: set[str] = set()

    @property
    def is_monitoring(self) -> bool:
        return self._thread is not None and self._pid == os.getpid() and self._thread.is_alive()

    def start_monitoring(self) -> None:
        """Begins to look. A second start does nothing."""
        if self.is_monitoring:
            return
        self._stop = threading.Event()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._watch, args=(self._stop,), name="nilo-memory", daemon=True)
        self._thread.start()
        _log.debug("%s: monitoring every %g s", type(self).__name__, self.sampling_interval)

    def stop_monitoring(self) -> None:
        """Stops looking, after a last look. Without a start it does nothing."""
        if not self.is_monitoring:
            return
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None
        _log.debug("%s: stopped monitoring", type(self).__name__)

    def read(self) -> list[DeviceReading]:
        """One look now, whether monitoring or not."""
        return self._reader.read()

    @abc.abstractmethod
    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        """What a kind of watcher does with a look."""

    def __enter__(self: _Self) -> _Self:
        self.start_monitoring()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_monitoring()

    def _watch(self, stop: threading.Event) -> None:
        started = time.monotonic()
        due = started
        while True:
            stopping = stop.is_set()
            try:
                readings = self._reader.read()
                self._log_readings(readings)
                self.on_reading(readings, time.monotonic() - started)
            except Exception as error:  # noqa: BLE001 - a callback of the user's, or a reading that failed
                self._say_once(f"{type(error).__name__}: {error}")
            if stopping:
                return
            # Missed looks are skipped, not made up for.
            due = max(due + self.sampling_interval, time.monotonic())
            stop.wait(max(0.0, due - time.monotonic()))

    def _log_readings(self, readings: list[DeviceReading]) -> None:
        if _log.isEnabledFor(logging.DEBUG):
            for reading in readings:
                _log.debug(
                    "%s: %s: %.1f MiB of %.1f MiB (%.1f%%), %s",
                    type(self).__name__,
                    device_name(reading.device),
                    reading.allocated / _MB,
                    reading.total / _MB,
                    reading.utilization_percent,
                    reading.source,
                )

    def _say_once(self, text: str) -> None:
        if text not in self._failures and len(self._failures) < 100:
            self._failures.add(text)
            _log.warning("memory monitoring goes on after an error: %s", text)
