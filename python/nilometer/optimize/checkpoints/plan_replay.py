"""The peak of a step under a checkpoint plan, followed block by block: gradients appear as backward comes to their block."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .block_costs import ChainCosts


def replayed_peak(costs: ChainCosts, units: Sequence[Any]) -> int:
    """Bytes at the peak of a step with this plan.

    The planner takes all gradients as held from the beginning, which they are not while activations are: on a small batch that is most of its figure.
    """
    replay = _Replay(costs)
    replay.forward(units)
    replay.backward(units)
    return replay.finish()


class _Replay:
    def __init__(self, costs: ChainCosts) -> None:
        self._costs = costs
        self._level = self._peak = costs.held_bytes + costs.input_bytes

    def forward(self, units: Sequence[Any]) -> None:
        """Runs units and keeps what they ask to be kept."""
        for unit in units:
            if isinstance(unit, tuple):
                self._discard(unit[0], unit[1])
                continue
            block = self._costs.blocks[unit]
            self._level += block.saved_bytes + block.output_bytes
            self._reach(block.keep_temp_bytes)

    def backward(self, units: Sequence[Any]) -> None:
        """The gradients of units, the last first; the gradient of their output takes the place of the output itself."""
        for unit in reversed(units):
            if isinstance(unit, tuple):
                _, last, inside = unit
                # The gradient of the segment's output has the place of the output; that of the second run is used by nobody.
                self.forward(inside)
                self._level -= self._costs.blocks[last].output_bytes
                self.backward(inside)
                continue
            block = self._costs.blocks[unit]
            self._reach(block.backward_temp_bytes)
            self._level -= block.saved_bytes + block.output_bytes
            self._level += self._costs.gradient_bytes[unit]
            self._reach(0)

    def finish(self) -> int:
        """What comes before the blocks has its gradients last; the gradient of the first block's input is there then."""
        self._level += self._costs.first_gradient_bytes
        self._reach(0)
        return self._peak

    def _discard(self, first: int, last: int) -> None:
        """Runs blocks of which only the last one's output stays."""
        before = 0
        for number in range(first, last + 1):
            block = self._costs.blocks[number]
            self._level += block.output_bytes
            self._reach(block.forward_temp_bytes)
            self._level -= before
            before = block.output_bytes

    def _reach(self, more: int) -> None:
        self._peak = max(self._peak, self._level + more)
