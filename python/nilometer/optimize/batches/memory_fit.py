"""The peak of a training step as a function of batch size and length, from a few measured steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Point = tuple[int, int, int]
"""Batch size, length, peak bytes."""


@dataclass(frozen=True)
class MemoryFit:
    """`peak = fixed + per_token * batch * length + per_token_pair * batch * length**2`.

    >>> fit = fit_memory([(1, 100, 1_000_000 + 120_000), (4, 100, 1_000_000 + 480_000), (4, 50, 1_000_000 + 220_000)])
    >>> round(fit.peak(16, 100)), fit.largest_batch(3_000_000, 100)
    (2920000, 16)
    """

    fixed_bytes: float
    per_token_bytes: float
    per_token_pair_bytes: float

    def peak(self, batch: float, length: int = 1) -> float:
        """Bytes that a step of this shape is expected to take."""
        return self.fixed_bytes + batch * self.per_sample(length)

    def per_sample(self, length: int = 1) -> float:
        """Bytes of one more sample of this length."""
        return self.per_token_bytes * length + self.per_token_pair_bytes * length * length

    def largest_batch(self, budget_bytes: float, length: int = 1) -> int:
        """The largest batch of this length that fits; 0 where none does."""
        per_sample = self.per_sample(length)
        room = budget_bytes - self.fixed_bytes
        if per_sample <= 0:
            return 0 if room < 0 else 1 << 30
        return max(0, int(room / per_sample + 1e-9))


def fit_memory(points: Sequence[Point]) -> MemoryFit:
    """Fits the points, trusting the largest steps most.

    Small steps may peak in the optimizer, whose memory does not depend on the batch: so the slope over batches is that of the two largest batches of the longest length, and another length only tells how it divides into tokens and pairs of tokens.
    """
    if not points:
        raise ValueError("no steps were measured")
    longest = max(length for _, length, _ in points)
    peaks: dict[int, int] = {}
    for batch, length, peak in points:
        if length == longest:
            peaks[batch] = max(peak, peaks.get(batch, 0))
    sizes = sorted(peaks)
    if len(sizes) < 2:
        # One step says nothing about what is fixed: taking everything for the samples is the cautious side.
        return MemoryFit(0.0, peaks[sizes[0]] / (sizes[0] * longest), 0.0)
    lower, upper = sizes[-2:]
    slope = max(0.0, (peaks[upper] - peaks[lower]) / (upper - lower))
    fixed = peaks[upper] - slope * upper
    shorter = [(batch, length, peak) for batch, length, peak in points if length < longest]
    if not shorter:
        return MemoryFit(fixed, slope / longest, 0.0)
    batch, length, peak = max(shorter)
    short_slope = max(0.0, (peak - fixed) / batch)
    # slope = b * longest + c * longest**2 and short_slope = b * length + c * length**2
    pairs = (slope / longest - short_slope / length) / (longest - length)
    pairs = min(max(0.0, pairs), slope / longest**2)
    return MemoryFit(fixed, slope / longest - pairs * longest, pairs)
