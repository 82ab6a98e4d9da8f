"""How fast training goes: samples and tokens a second, and when it will be done."""

from __future__ import annotations

import contextlib
import logging
import numbers
import sys
from collections.abc import Callable, Iterator
from typing import Any

from .. import _native
from .._trouble import refuse_pickling, report, require, require_type
from ..run import Run

_log = logging.getLogger("nilometer.throughput")


class ThroughputTracker(_native.Throughput):
    """Counts samples and tokens over time. `current` is over the last `window_size` batches, `overall` over everything.

    The clock begins with the end of the first batch, or with `start()`, so that set-up does not count;
    `with tracker.paused():` leaves out an evaluation.
    With `total_samples` (or `total_batches`) it knows when training will be done.
    With `log_every=N` it prints a line every N batches with the time that those took: through the logger `nilometer.throughput`
    where logging is configured for it, otherwise to standard error; or it calls the function given as `log`.

    >>> tracker = ThroughputTracker(window_size=100, total_samples=1000)
    >>> for _ in range(10):
    ...     tracker.update(num_samples=8, num_tokens=1024)
    >>> throughput = tracker.get_current_throughput()
    >>> sorted(throughput)
    ['batches_per_sec', 'samples_per_sec', 'tokens_per_sec']
    >>> tracker.get_overall_throughput()["total_samples"]
    80.0
    """

    __reduce__ = refuse_pickling

    total_samples: int | None
    total_batches: int | None
    _log_every: int | None
    _log: Callable[[str], object]
    _logged: tuple[float, int, float, float]

    def __new__(
        cls,
        window_size: int = 100,
        *,
        total_samples: int | None = None,
        total_batches: int | None = None,
        log_every: int | None = None,
        log: Callable[[str], object] | None = None,
        run: Run | None = None,
    ) -> ThroughputTracker:
        require_type(window_size, int, "window_size")
        require(window_size > 0, f"window_size must be positive, not {window_size}")
        for name, value in (("total_samples", total_samples), ("total_batches", total_batches), ("log_every", log_every)):
            if value is not None:
                require_type(value, int, name)
                require(value > 0, f"{name} must be positive, not {value}")
        if run is not None:
            require_type(run, _native.Run, "run")
        tracker = super().__new__(cls, window_size, run)
        tracker.total_samples = total_samples
        tracker.total_batches = total_batches
        tracker._log_every = log_every
        tracker._log = log or _print
        tracker._logged = (0.0, 0, 0.0, 0.0)
        return tracker

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def start(self) -> None:
        """Counts anew, with the clock beginning here; otherwise it begins with the end of the first batch."""
        self._logged = (0.0, 0, 0.0, 0.0)
        self.begin()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out the time of a block: an evaluation, a checkpoint. `pause()` and `resume()` do the same in two calls."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def update(self, num_samples: float = 1, num_tokens: float = 0) -> None:
        """One batch is done."""
        try:
            batches = self.add(num_samples, num_tokens)
        except TypeError:
            numbers_wanted = {"num_samples": num_samples, "num_tokens": num_tokens}
            wrong = [name for name, value in numbers_wanted.items() if not isinstance(value, numbers.Real)]
            report(f"update: {' and '.join(wrong) or 'an argument'} is not a number; the batch is not counted")
            return
        except ValueError:
            report("update: num_samples and num_tokens must be finite and not negative; the batch is not counted")
            return
        if self._log_every is not None and batches % self._log_every == 0:
            then, self._logged = self._logged, self.overall()
            seconds, batches, samples, tokens = self._logged
            try:
                self._log(self._line(seconds - then[0], batches - then[1], samples - then[2], tokens - then[3]))
            except Exception as error:  # noqa: BLE001 - the user's function must not stop the training
                report(f"the throughput could not be logged: {error}")

    def get_current_throughput(self) -> dict[str, float]:
        """Over the last `window_size` batches."""
        return _rates(*self.current())

    def get_overall_throughput(self) -> dict[str, float]:
        """Over everything since the clock began, with the totals; `elapsed_sec` is the time that counts."""
        stretch = self.overall()
        batches, samples, tokens = self.totals()
        totals = {"total_batches": batches, "total_samples": samples, "total_tokens": tokens, "elapsed_sec": stretch[0]}
        return _rates(*stretch) | totals

    def get_eta(self) -> float | None:
        """Seconds until the total is reached at the current pace; None when no total or no pace is known."""
        batches, samples, _ = self.totals()
        rates = self.get_current_throughput()
        if self.total_samples is not None:
            left, rate = self.total_samples - samples, rates["samples_per_sec"]
        elif self.total_batches is not None:
            left, rate = self.total_batches - batches, rates["batches_per_sec"]
        else:
            return None
        if left <= 0:
            return 0.0
        return left / rate if rate > 0 else None

    def describe(self) -> str:
        """One line: batches so far, how long the last ones took, rates, time left."""
        return self._line(*self.current())

    def _line(self, seconds: float, batches: int, samples: float, tokens: float) -> str:
        rates = _rates(seconds, batches, samples, tokens)
        done = self.totals()[0]
        parts = [f"batch {done}", f"last {batches} in {seconds:.2f} s", f"{rates['samples_per_sec']:.1f} samples/s"]
        if tokens:
            parts.append(f"{rates['tokens_per_sec']:.0f} tokens/s")
        eta = self.get_eta()
        if eta is not None:
            parts.append(f"{_clock(eta)} left")
        return ", ".join(parts)


def _print(line: str) -> None:
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info(line)
    else:
        # In one piece, also where standard error is unbuffered: others may write into the same pipe.
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _rates(seconds: float, batches: int, samples: float, tokens: float) -> dict[str, float]:
    per = 1 / seconds if seconds > 0 else 0.0
    return {"samples_per_sec": samples * per, "tokens_per_sec": tokens * per, "batches_per_sec": batches * per}


def _clock(seconds: float) -> str:
    minutes, secs = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"
