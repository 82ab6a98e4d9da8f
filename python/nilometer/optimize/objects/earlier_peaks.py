"""How high a number stood before it fell: a list that is emptied at every epoch accumulates only where it becomes longer than it was."""

from __future__ import annotations

import struct
from collections.abc import Iterable

# A fall by this share of the rise before it.
_FALL = 0.5
_LEAST_RISE = 8
# What rose for so many samples may take as long again, and half of the time more; after that the peak is forgotten.
_AGAIN = 2
_AT_LEAST = 8

# Lowest, highest since then, the sample of the lowest; the peak, and until which sample it counts.
_PACKED = struct.Struct("5q")

Key = int | str | tuple[str, ...]


class EarlierPeaks:
    """Follows numbers from sample to sample. What it keeps of each that changed is bytes: nothing that the garbage collector counts.

    >>> peaks = EarlierPeaks()
    >>> [peaks.floor("losses", before, now, sample) for sample, (before, now) in enumerate([(0, 50), (50, 90), (90, 10), (10, 80), (80, 120), (120, 130)])]
    [0, 0, 90, 90, 90, 0]
    """

    def __init__(self) -> None:
        self._followed: dict[Key, bytes] = {}

    def floor(self, key: Key, before: int, level: int, sample: int) -> int:
        """What this number has to exceed to be growth: its peak before it fell, 0 where there was none."""
        one = self._followed.get(key)
        if one is None:
            if level == before:
                return 0
            one = _PACKED.pack(before, before, sample - 1, 0, 0)
        low, high, since, peak, until = map(int, _PACKED.unpack(one))
        if sample > until:
            peak = 0
        # This time it counts what is above it, later all.
        exceeded, peak = (peak, 0) if level > peak else (0, peak)
        if high - level >= _FALL * (high - low) and high - low >= _LEAST_RISE:
            peak, until = max(high, peak), sample + max(_AT_LEAST, _AGAIN * (sample - since))
            low = high = level
            since = sample
        elif level < low:
            low = high = level
            since = sample
        high = max(high, level)
        self._followed[key] = _PACKED.pack(low, high, since, peak, until)
        return max(peak, exceeded)

    def gone(self, present: Iterable[Key], sample: int) -> None:
        """Those that are not among these fell to nothing. Their peaks count as long as others; an address says nothing any more."""
        for key in self._followed.keys() - set(present):
            _, high, _, _, until = _PACKED.unpack(self._followed[key])
            if not isinstance(key, int) and high:
                self.floor(key, high, 0, sample)
            elif isinstance(key, int) or sample > until:
                del self._followed[key]

    def clear(self) -> None:
        """Begins anew."""
        self._followed.clear()

    def place(self) -> int:
        """Where that lies which it keeps."""
        return id(self._followed)
