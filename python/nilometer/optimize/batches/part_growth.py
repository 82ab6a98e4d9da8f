"""How a training step grows with its batch: each of its parts along a line of its own, so that a larger batch may peak in another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PartGrowth:
    """The peaks of the parts of two steps: what the optimizer takes does not grow with the batch, gradients do not, activations do.

    >>> growth = PartGrowth(10, 20, [500, 200], [500, 300])
    >>> growth.peak(30), growth.peak(60), growth.last_part(lambda level: 800)
    (500.0, 700.0, (1, 70.0))
    """

    small: int
    large: int
    at_small: Sequence[int]
    at_large: Sequence[int]

    @property
    def is_flat(self) -> bool:
        """Whether no part grows: it is then not known what ends the growth of the batch."""
        return all(slope <= 0 for _, slope in self._lines())

    def peak(self, size: float) -> float:
        """Bytes that a step of this size is expected to take."""
        return float(max(level + slope * (size - self.large) for level, slope in self._lines()))

    def last_part(self, allowed_bytes: Callable[[int], float]) -> tuple[int, float] | None:
        """The part that is the first to take what it may, by its peak in the larger step, and the size of the batch there; None where none grows."""
        ends = [
            (self.large + (allowed_bytes(level) - level) / slope, part)
            for part, (level, slope) in enumerate(self._lines())
            if slope > 0
        ]
        if not ends:
            return None
        size, part = min(ends)
        return part, size

    def _lines(self) -> list[tuple[int, float]]:
        """Of each part its peak in the larger step, and the bytes of one more sample."""
        samples = self.large - self.small
        return [(upper, (upper - lower) / samples) for lower, upper in zip(self.at_small, self.at_large, strict=True)]
