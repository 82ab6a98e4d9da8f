"""What another optimizer would save: advice, which the user decides about."""

from __future__ import annotations

import importlib.util

import torch

from ..byte_words import in_bytes
from ..measuring.accounting import tensor_bytes
from .step_outcome import StepOutcome, Tier


def optimizer_advice(optimizer: torch.optim.Optimizer) -> StepOutcome:
    """What an 8-bit optimizer would save: advice, as it changes training. Its state must exist, after a first step."""
    outcome = StepOutcome("8-bit optimizer", Tier.SEMANTIC, False, "")
    state = {key: value for key, value in optimizer.state.items() if value}
    held = tensor_bytes(list(state.values()))
    outcome.peak_before_bytes = outcome.peak_after_bytes = held
    # Small tensors stay as they are; measured on AdamW: 8.00 -> 2.05 bytes a parameter (bitsandbytes), 2.08 (torchao).
    large = [value for key, value in state.items() if isinstance(key, torch.Tensor) and key.numel() >= 4096]
    saving = int(tensor_bytes(large) * (1 - 2.05 / 8.0))
    if type(optimizer).__name__ not in {"Adam", "AdamW"} or not saving:
        outcome.reason = "the optimizer has no Adam state of large tensors"
        return outcome
    installed = [name for name in ("bitsandbytes", "torchao") if importlib.util.find_spec(name) is not None]
    how = f"{installed[0]} is installed" if installed else "pip install bitsandbytes or torchao"
    outcome.reason = f"advice: would save about {in_bytes(saving)} of {in_bytes(held)} of optimizer state ({how}); keep embeddings in 32 bits and compare the loss"
    return outcome
