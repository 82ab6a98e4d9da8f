"""What became of a change to a model that was tried."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field


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
    _undo: Callable[[], None] | None = field(default=None, repr=False)

    @property
    def saved_bytes(self) -> int:
        """How much lower the peak of a step is."""
        return self.peak_before_bytes - self.peak_after_bytes if self.applied else 0

    @property
    def has_figures(self) -> bool:
        """Whether a step ran with the change and was measured."""
        return self.measured not in ("not tried", "failed")

    def undo(self) -> None:
        """Takes the change back."""
        if self._undo is not None:
            self._undo()
            self._undo = None
            self.applied = False
            self.reason = "undone"
