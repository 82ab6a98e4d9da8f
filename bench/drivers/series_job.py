"""Writes one long series, and reads it back into numpy."""

import os
import signal
import time


def write(tracker, tell, folder: str, points: int) -> None:
    started = time.perf_counter()
    tracker.write_series(folder, points)
    tell({"write_secs": time.perf_counter() - started})
    # What its writer left open stays so.
    os.kill(os.getpid(), signal.SIGKILL)


def read(tracker, tell, folder: str, points: int, most_reads: int, longest_secs: float) -> None:
    """Reads again and again, each time from the opening of the files on."""
    import numpy

    secs = []
    while len(secs) < most_reads and sum(secs) < longest_secs:
        started = time.perf_counter()
        steps, values = tracker.read_series(folder)
        secs.append(time.perf_counter() - started)
    # Both are arrays of numpy, and what was written.
    is_right = len(steps) == len(values) == points and numpy.array_equal(steps, numpy.arange(points))
    is_right = is_right and numpy.allclose(values, series_values(points), rtol=1e-6)
    tell({"read_secs": secs, "is_right": bool(is_right)})


def series_values(points: int):
    """A noisy walk that comes down slowly, the same at every call."""
    import numpy

    noise = numpy.random.default_rng(1).normal(0, 0.01, points)
    return 2 + numpy.cumsum(noise) / 10 + noise
