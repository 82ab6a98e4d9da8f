"""What became of a change to a model that was tried."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from ..in_run import TellUndone


class Tier(enum.Enum):
    """Who decides about a step."""

    SAFE = "safe"
    """The same results: applied by itself."""
    TOLERANCE = "tolerance"
    """Results differ by rounding: applied when asked for."""
    SEMANTIC = "semantic"
    """Training changes: advice only."""


@dataclass
class StepOutcome:
    """What became of one step, with the figures that were measured."""

    name: str
    tier: Tier
    applied: bool
    reason: str
    peak_before_bytes: int = 0
    peak_after_bytes: int = 0
    secs_before: float = 0.0
    secs_after: float = 0.0
    loss_error: float = 0.0
    gradient_cosine: float = 1.0
    measured: str = "not tried"
    """What the figures are of: `peak of a step`. There are none where it was `not tried` or `failed`; `reason` says why."""
    is_undone: bool = False
    """Whether it was applied and taken back by `undo`."""
    _undo: Callable[[], None] | None = field(default=None, repr=False)
    _tell_undone: TellUndone | None = field(default=None, repr=False)

    @property
    def saved_bytes(self) -> int:
        """How much lower the peak of a step is."""
        return self.peak_before_bytes - self.peak_after_bytes if self.applied else 0

    @property
    def has_figures(self) -> bool:
        """Whether a step ran with the change and was measured."""
        return self.measured not in ("not tried", "failed")

    def undo(self, reason: str = "undone") -> None:
        """Takes the change back, and tells the run if the run was told of it."""
        if self._undo is None:
            return
        self.take_off()
        self.applied, self.is_undone = False, True
        self.reason = reason
        if self._tell_undone is not None:
            self._tell_undone(reason)

    def take_off(self) -> None:
        """Takes the change off a model that needs it no longer; it counts as applied."""
        if self._undo is not None:
            self._undo()
            self._undo = None
