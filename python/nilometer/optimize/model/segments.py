"""Checkpoints for a `Sequential` whose modules are not alike: a few segments of equal length, as `checkpoint_sequential` makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..checkpoints.checkpointed_forward import put_on
from ..checkpoints.refusals import refusal_of_module
from ..measuring.trial import Trial
from .steps import ModelStep, Refused, Tier, use_checkpoints


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
    if len(modules) < 2 or len({id(module) for module in modules}) < len(modules):
        raise Refused("the model has fewer than two modules, or runs one of them twice")
    return put_on(modules, segments_of(len(modules), segments), gives_tuple=False)


def segments_of(modules: int, segments: int) -> list[Any]:
    """Segments of nearly equal length; the last one keeps its activations, as its backward pass comes at once.

    >>> segments_of(5, 2)
    [(0, 1, [0, 1]), 2, 3, 4]
    """
    count = min(segments, modules)
    bounds = [modules * number // count for number in range(count + 1)]
    units: list[Any] = [(first, end - 1, list(range(first, end))) for first, end in zip(bounds[:-2], bounds[1:-1], strict=True)]
    return units + list(range(bounds[-2], modules))
