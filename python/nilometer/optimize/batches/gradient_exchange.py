"""The exchange of gradients that DistributedDataParallel would make in backward, made afterwards.

Its hooks exchange while backward runs: a rank that ran out of memory before would leave the others waiting for ever.
So the model inside runs, where the hooks do nothing, and ranks exchange once all of them are through.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .gradient_sum import GradientSum
from .rank_agreement import world_size


class GradientExchange:
    """One step of a model that may be wrapped."""

    def __init__(self, given: torch.nn.Module) -> None:
        self._wrapper = given if isinstance(given, DistributedDataParallel) else None
        if self._wrapper is None and world_size() > 1:
            raise ValueError(
                f"recovery of several ranks needs a model in DistributedDataParallel, not {type(given).__name__}: use TrainingMemoryOptimizer or AdaptiveBatches"
            )
        self.model: torch.nn.Module = given if self._wrapper is None else self._wrapper.module
        # False in all steps of an accumulation but the last.
        self._is_due = self._wrapper is not None and bool(self._wrapper.require_backward_grad_sync)
        self._is_held = False
        self._sum: GradientSum | None = None

    def share_buffers(self) -> None:
        """The first rank's buffers, as the wrapper hands them out before each forward."""
        if self._wrapper is not None and self._wrapper.broadcast_buffers:
            for buffer in self.model.buffers():
                dist.broadcast(buffer.detach(), src=0)

    def hold(self) -> None:
        """Called inside of the wrapper's forward: it does not expect gradients, until `average`."""
        if self._wrapper is not None:
            self._wrapper.require_backward_grad_sync = False
            self._is_held = True

    def reserve(self) -> None:
        """Allocates what `average` takes, once backward is through: running out of memory can still be agreed on here."""
        if self._is_due:
            self._sum = GradientSum(self.model)

    def give_back(self) -> None:
        """The step is run again: its memory is needed."""
        self._sum = None

    def average(self) -> None:
        """The mean of all ranks, where this step is one that exchanges and has reserved. Every rank has to call it."""
        if self._wrapper is None:
            return
        if self._is_held:
            self._wrapper.require_backward_grad_sync = self._wrapper.require_forward_param_sync = self._is_due
        if self._sum is not None:
            self._sum.average()
            self._sum = None
