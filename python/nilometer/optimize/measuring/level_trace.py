"""What a step holds after each of its operations: from two small batches follows what a large one takes at its peak."""

from __future__ import annotations

from typing import Any

from .accounting import TensorMeter
from .trial import Trial, preserved

SMALL = (2, 4)
"""Two batches whose steps are compared. One row is special: tensors of one row are broadcast and squeezed."""


def extrapolated_peak(first: list[int], second: list[int], small: int, large: int, batch: int) -> float | None:
    """The peak of a batch, from what two smaller ones hold after each operation; None where they do not run the same operations.

    Each moment grows by its own: which one is the peak depends on the batch, since gradients do not grow with it and activations do.

    >>> extrapolated_peak([100, 90], [100, 110], 1, 2, 10)
    270.0
    """
    if len(first) != len(second):
        return None
    slopes = ((b - a) / (large - small) for a, b in zip(first, second, strict=True))
    return float(max(a + slope * (batch - small) for a, slope in zip(first, slopes, strict=True)))


def largest_within(first: list[int], second: list[int], small: int, large: int, budget_bytes: float) -> tuple[int, float] | None:
    """The largest batch that fits a budget and the bytes of one more sample there; None where the two do not run the same operations.

    >>> largest_within([100, 90], [100, 110], 1, 2, 270)
    (10, 20.0)
    """
    if len(first) != len(second):
        return None
    best, steepest = 1 << 30, 0.0
    for a, b in zip(first, second, strict=True):
        slope = (b - a) / (large - small)
        if a - slope * small > budget_bytes:
            return 0, max(slope, 0.0)
        if slope > 0:
            fits = int((budget_bytes - a) / slope + small + 1e-9)
            if fits < best:
                best, steepest = fits, slope
    return best, steepest


class _LevelTrace(TensorMeter):  # type: ignore[no-untyped-call]
    """Writes the level down after each operation."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        self.levels.append(self.level)
        return result


def step_levels(trial: Trial) -> list[int]:
    """Bytes of tensors before a step and after each of its operations, gradients included. The model is as it was."""
    with preserved(trial.model):
        meter = _LevelTrace()
        meter.adopt(*trial.held())
        meter.levels.append(meter.level)
        with meter:
            trial.step()
    return meter.levels
