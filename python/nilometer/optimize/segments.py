"""Checkpoints for a `Sequential` whose modules are not alike: a few segments of equal length, as `checkpoint_sequential` makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint_sequential

from .model_steps import ModelStep, Refused, Tier, use_checkpoints
from .refusals import refusal_of_module
from .trial import Trial


def checkpoint_step(segments: int) -> ModelStep:
    """The checkpoint plan of the model's blocks; where there are no blocks to plan, this many segments of a `Sequential`."""

    def apply(trial: Trial) -> Callable[[], None]:
        try:
            return use_checkpoints(trial)
        except Refused as refusal:
            if segments < 2 or not isinstance(trial.model, torch.nn.Sequential) or "no ModuleList" not in str(refusal):
                raise
            return _segmented(trial.model, segments)

    return ModelStep("checkpoint plan", Tier.SAFE, apply)


def _segmented(model: torch.nn.Sequential, segments: int) -> Callable[[], None]:
    for name, module in model.named_modules():
        reason = refusal_of_module(module)
        if reason:
            raise Refused(f"module {name} {reason}")
    modules = list(model)
    if len(modules) < 2:
        raise Refused("the model has fewer than two modules")
    count = min(segments, len(modules))
    own = vars(model).get("forward")
    plain = model.forward

    def forward(given: Any) -> Any:
        if not (torch.is_grad_enabled() and model.training):
            return plain(given)  # type: ignore[no-untyped-call]
        # The first segment's input needs a gradient for its own backward pass only in the reentrant variant.
        return checkpoint_sequential(modules, count, given, use_reentrant=False)  # type: ignore[no-untyped-call]

    model.forward = forward  # type: ignore[method-assign]

    def undo() -> None:
        if own is None:
            del model.forward
        else:
            model.forward = own  # type: ignore[method-assign]

    return undo
