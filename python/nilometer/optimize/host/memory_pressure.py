"""Whether this process's memory calls for a full garbage collection: close to its limit, or much more than after the last one."""

from __future__ import annotations

from time import perf_counter

from ... import _native
from .process_heap import rss_bytes

# CPython itself waits until a quarter more objects have grown old.
_GROWTH = 0.25
_LEAST_GROWTH = 256 << 20
# A limit may change while the program runs; finding it takes a walk over the cgroups.
_LIMIT_SECS = 60.0


class PressureGauge:
    """Asked in the training loop; says yes only as often as answering pays.

    Close to the limit, a full collection that freed next to nothing is not worth repeating until memory has grown by a hundredth of the limit.
    """

    def __init__(self, share: float, limit_bytes: int | None) -> None:
        self._share = share
        self._fixed_limit = limit_bytes
        self._limit: int | None = limit_bytes
        self._limit_read_at: float | None = None
        self._base = rss_bytes()
        self._not_below = 0

    @property
    def limit_bytes(self) -> int | None:
        """The limit in force; None where there is none."""
        now = perf_counter()
        if self._fixed_limit is None and (self._limit_read_at is None or now - self._limit_read_at > _LIMIT_SECS):
            self._limit_read_at = now
            try:
                found = _native.memory_limit()
            except (OSError, ValueError):
                found = None
            self._limit = None if found is None else found[0]
        return self._limit

    def reason(self) -> str | None:
        """Why a full collection is due, or None."""
        rss, limit = rss_bytes(), self.limit_bytes
        if limit is not None and rss >= self._share * limit and rss >= self._not_below:
            return f"{rss / limit:.0%} of the memory limit is used"
        if rss - self._base > max(_LEAST_GROWTH, _GROWTH * self._base):
            return "memory grew by a quarter since the last full collection"
        return None

    def note_full_collection(self) -> None:
        """From here on growth counts anew."""
        self._base = rss_bytes()
        self._not_below = self._base + (self._limit or 0) // 100
