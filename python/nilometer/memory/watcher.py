"""The shape that everything has that looks at memory again and again."""

from __future__ import annotations

import abc
import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from typing import TypeVar

from .._trouble import require, require_type
from .readings import HOST, DeviceReading, device_name, device_names, is_of_program
from .sampler import Sampler, own_sampler

_log = logging.getLogger("nilometer.memory")
_MB = 1 << 20
_Self = TypeVar("_Self", bound="Watcher")


class Watcher(contextlib.ContextDecorator, abc.ABC):
    """Calls `on_reading` every `sampling_interval` seconds between `start_monitoring` and `stop_monitoring`.

    Also a context manager and a decorator. All watchers of a program share one thread, a daemon: it never keeps a program alive.
    What goes wrong in it is logged once (logger `nilometer.memory`) and never reaches the training; at level DEBUG every look is logged.
    """

    # Whether it judges what is read; then the host is read between its looks too.
    _is_judge = False

    def __init__(self, sampling_interval: float, devices: Sequence[int | str] | None) -> None:
        require_type(sampling_interval, (int, float), "sampling_interval")
        require(
            0.001 <= sampling_interval <= 3600,
            f"sampling_interval must be 0.001 to 3600 seconds, not {sampling_interval}",
        )
        self.sampling_interval = float(sampling_interval)
        self._devices = None if devices is None else device_names(devices)
        self._wants_host = self._devices is None or HOST in self._devices
        self._judges_host = self._is_judge and self._wants_host
        self._wants_gpus = self._devices is None or any(device != HOST for device in self._devices)
        self._failures: set[str] = set()
        self._sampler: Sampler | None = None
        self._lock = threading.RLock()
        self._started: float | None = None

    @property
    def is_monitoring(self) -> bool:
        self._own_sampler()
        return self._started is not None

    def start_monitoring(self) -> None:
        """Begins to look. A second start does nothing."""
        sampler = self._own_sampler()
        with self._lock:
            if self._started is not None:
                return
            self._started = time.monotonic()
        sampler.add(self)
        _log.debug("%s: monitoring every %g s", type(self).__name__, self.sampling_interval)

    def stop_monitoring(self) -> None:
        """Stops looking, after a last look. Without a start it does nothing."""
        if not self.is_monitoring:
            return
        sampler = self._own_sampler()
        sampler.remove(self)
        sampler.look_for([self])
        with self._lock:
            self._started = None
        _log.debug("%s: stopped monitoring", type(self).__name__)

    def read(self) -> list[DeviceReading]:
        """One look now, whether monitoring or not."""
        return self._chosen(self._own_sampler().read(host=self._wants_host, gpus=self._wants_gpus))

    def _take(self, readings: list[DeviceReading]) -> None:
        """A look of the sampler's, while monitoring."""
        with self._lock:
            if self._started is None:
                return
            chosen = self._chosen(readings)
            self._log_readings(chosen)
            try:
                self.on_reading(chosen, time.monotonic() - self._started)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look comes
                self._say_once(f"{type(error).__name__}: {error}")

    @abc.abstractmethod
    def on_reading(self, readings: list[DeviceReading], seconds: float) -> None:
        """What a kind of watcher does with a look."""

    def _say_once(self, text: str) -> None:
        """Something went wrong that must not disturb the training."""
        if text not in self._failures and len(self._failures) < 100:
            self._failures.add(text)
            _log.warning("error while monitoring memory, which continues: %s", text)

    def __enter__(self: _Self) -> _Self:
        self.start_monitoring()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_monitoring()

    def _own_sampler(self) -> Sampler:
        """The sampler of this process, which in a forked child is another: there nothing is monitored yet."""
        sampler = own_sampler()
        if sampler is not self._sampler:
            self._sampler = sampler
            self._lock = threading.RLock()
            self._started = None
            self._join(sampler)
        return sampler

    def _join(self, sampler: Sampler) -> None:
        """Called with the first sampler and in a forked child: what judges memory begins here."""

    def _chosen(self, readings: list[DeviceReading]) -> list[DeviceReading]:
        if self._devices is None:
            return [reading for reading in readings if is_of_program(reading)]
        return [reading for reading in readings if reading.device in self._devices]

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
