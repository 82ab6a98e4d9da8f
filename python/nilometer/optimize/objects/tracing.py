"""The trace of Python's allocations that this package begins: one at a time, and none while a step is timed."""

from __future__ import annotations

import contextlib
import threading
import tracemalloc
from collections.abc import Iterator

_lock = threading.RLock()
# Frames that the trace begun here keeps; 0 where none was begun here.
_frames = 0
_restarts = 0


def begin_tracing(frames: int) -> bool:
    """Begins to trace, and says so; False where that is done already, by whomever."""
    global _frames
    with _lock:
        if _frames or tracemalloc.is_tracing():
            return False
        tracemalloc.start(frames)
        _frames = frames
        return True


def end_tracing() -> None:
    """Ends what `begin_tracing` began, for whoever it said so to."""
    global _frames
    with _lock:
        if _frames and tracemalloc.is_tracing():
            tracemalloc.stop()
        _frames = 0


def restarts() -> int:
    """How often the trace was begun anew: what was allocated before is in none of its counts."""
    return _restarts


@contextlib.contextmanager
def tracing_paused() -> Iterator[None]:
    """What runs within is not traced by us: a step whose Python is slowed down by the trace would be judged by it. A trace of the program's own goes on.

    The interpreter forgets what it has traced: afterwards the trace begins anew.
    """
    global _restarts
    with _lock:
        is_pause = bool(_frames) and tracemalloc.is_tracing()
        if is_pause:
            tracemalloc.stop()
    try:
        yield
    finally:
        with _lock:
            # Whoever began it may have ended it meanwhile.
            if is_pause and _frames and not tracemalloc.is_tracing():
                tracemalloc.start(_frames)
                _restarts += 1
