"""Thresholds as people write them: 85 and 0.85 are both 85 percent."""

from __future__ import annotations

from .. import _native
from .._trouble import require, require_type

# The command's own: what warns there warns here.
OOM_PERCENT, (HOST_WARNING_PERCENT, HOST_CRITICAL_PERCENT), (GPU_WARNING_PERCENT, GPU_CRITICAL_PERCENT) = _native.default_percents()


def as_percent(value: float, name: str) -> float:
    """A threshold in percent. Below 1 it is a fraction: nobody warns at less than one percent.

    >>> as_percent(85, "threshold"), as_percent(0.85, "threshold")
    (85.0, 85.0)
    """
    require_type(value, (int, float), name)
    require(0 < value <= 100, f"{name} must be a percentage above 0 and at most 100, or a fraction below 1, not {value}")
    return float(value) if value >= 1 else 100.0 * value
