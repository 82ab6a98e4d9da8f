"""The batch in use, told to the rules of advice when it changes."""

from __future__ import annotations

import torch

from ...run import joined_run
from ..in_run import tell_facts
from ..measuring.accounting import tensor_bytes


class ToldBatch:
    """What the run was told last, so that it is told once."""

    def __init__(self) -> None:
        self._told: tuple[int, int] | None = None

    def tell(self, micro_batch: int, *, samples: int, recovered: int, accumulation: int = 1, maximum: int | None = None) -> None:
        """After a step that went well: its micro-batch, of so many samples, and how often memory ran out until now.

        `accumulation` is that of the loop around, in which a batch is a part of a step already.
        """
        if self._told == (micro_batch, recovered) or joined_run() is None:
            return
        self._told = (micro_batch, recovered)
        facts = {"micro_batch": micro_batch, "accumulation": accumulation * -(-samples // micro_batch), "max_micro_batch": maximum}
        if recovered:
            # Whatever was found before, more than this has failed since.
            facts |= {"recovered_ooms": recovered, "largest_micro_batch": micro_batch, "measured_micro_batch": micro_batch}
        tell_facts("batch", facts)


def tell_weights(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, budget_bytes: int | None) -> None:
    """No batch fits: what is held whatever the batch, against what a step may hold. An optimizer before its first step has no state."""
    parameters = list(model.parameters())
    facts = {
        "weight_bytes": tensor_bytes(parameters, list(model.buffers())),
        "gradient_bytes": tensor_bytes([parameter for parameter in parameters if parameter.requires_grad]),
        "optimizer_state_bytes": 0 if optimizer is None else tensor_bytes(list(optimizer.state.values())),
        "budget_bytes": budget_bytes,
    }
    tell_facts("model", facts)
