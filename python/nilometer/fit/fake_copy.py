"""A copy of a model whose tensors have shapes and no data."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch.utils._pytree import tree_map

from .tape import AllocationTape


def fake_model(model: torch.nn.Module, dtype: torch.dtype | None, tape: AllocationTape) -> torch.nn.Module:
    """A copy of a module within a trace: nothing of the module itself is changed or copied but its structure."""
    memo: dict[int, Any] = {}
    # In the order in which `module.to("cuda")` copies them: those of the innermost modules first.
    for module in _innermost_first(model, set()):
        for tensor in [*module._parameters.values(), *module._buffers.values()]:
            if tensor is not None and id(tensor) not in memo:
                memo[id(tensor)] = _fake(tensor, dtype)
                tape.label(memo[id(tensor)], "weights")
    return copy.deepcopy(model, memo)


def fake_batch(batch: Any, tape: AllocationTape) -> Any:
    """Tensors of the same shapes, as they are copied to the GPU."""

    made: dict[int, torch.Tensor] = {}

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = torch.empty(leaf.shape, dtype=leaf.dtype)
            tape.label(made[id(leaf)], "batch")
        return made[id(leaf)]

    return tree_map(copied, dict(batch) if hasattr(batch, "keys") else batch)


def _fake(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=wanted)
    return torch.nn.Parameter(made, requires_grad=tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else made


def _innermost_first(module: torch.nn.Module, seen: set[int]) -> list[torch.nn.Module]:
    if id(module) in seen:
        return []
    seen.add(id(module))
    return [*(found for child in module.children() for found in _innermost_first(child, seen)), module]
