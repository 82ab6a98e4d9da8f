"""Values by name, with statistics at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _native
from .._trouble import refuse_pickling, require_type
from ..run import Run

if TYPE_CHECKING:
    from typing_extensions import Self


class MetricTracker(_native.Tracker):
    """Keeps every value of every metric in memory for statistics, and stores it in the run as it comes.

    Statistics are over the finite values; NaN and infinities are counted (`nan_count`, `inf_count`), not swallowed.
    Without a step, each metric counts its own updates: 0, 1, 2, …, whatever else is logged. One that is given is counted on from.
    `std` divides by n and percentiles interpolate linearly, both as numpy does by default.

    >>> tracker = MetricTracker()
    >>> for step, loss in enumerate([4.0, 3.0, 2.0, 1.0]):
    ...     tracker.update("loss", loss, step=step)
    >>> tracker.update_batch({"reward": 0.5, "kl": 0.01}, step=3)
    >>> tracker.get_mean("loss"), tracker.get_mean("loss", window=2)
    (2.5, 1.5)
    >>> tracker.get_summary("loss")["p50"]
    2.5
    """

    __reduce__ = refuse_pickling

    def __new__(cls, run: Run | None = None, *, group: str | None = None) -> Self:
        if run is not None:
            require_type(run, _native.Run, "run")
        if group is not None:
            require_type(group, str, "group")
        return super().__new__(cls, run, group)

    def __init__(self, run: Run | None = None, *, group: str | None = None) -> None:
        super().__init__()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} metrics>"
