"""Why a model cannot be checkpointed. It is then left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from .block_chain import ObservedChain
from .checkpointed_forward import CheckpointedForward


def refusal_of_blocks(chain: ObservedChain) -> str:
    """What the blocks themselves say, before anything runs."""
    for number, block in enumerate(chain.blocks):
        for name, module in block.named_modules():
            where = f"block {number} of {chain.name}" + (f" ({name})" if name else "")
            reason = refusal_of_module(module)
            if reason:
                return f"{where} {reason}"
    return ""


def refusal_of_module(module: torch.nn.Module) -> str:
    """What a module by itself says."""
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
        return "has batch normalization, whose running statistics would be updated twice"
    names = {base.__name__ for base in type(module).__mro__}
    if names & {"FullyShardedDataParallel", "FSDPModule"}:
        return "is sharded by FSDP already; checkpoint the blocks first, then wrap them"
    if "DistributedDataParallel" in names:
        return "is wrapped in DistributedDataParallel by itself; wrap the whole model instead"
    if is_checkpointed(module):
        return "is checkpointed already"
    if getattr(module, "gradient_checkpointing", False) is True:
        return "is checkpointed already (gradient_checkpointing is on)"
    if any(isinstance(value, torch.Generator) for value in vars(module).values()):
        return "draws from a random generator of its own, which recomputation would move on"
    return ""


def is_checkpointed(module: torch.nn.Module) -> bool:
    """Whether a checkpoint plan of ours or PyTorch's wrapper is on the module now."""
    is_wrapper = any(base.__name__ == "CheckpointWrapper" for base in type(module).__mro__)
    return is_wrapper or isinstance(vars(module).get("forward"), CheckpointedForward)


def refusal_of_calls(chain: ObservedChain) -> str:
    """What the calls of the blocks say, after a forward pass."""
    for number, calls in enumerate(chain.calls):
        where = f"block {number} of {chain.name}"
        if len(calls) != 1:
            return f"{where} is called {len(calls)} times in a forward pass"
        call = calls[0]
        if call.changed:
            return f"{where} {call.changed}"
        for argument in (*call.args, *call.kwargs.values()):
            kind = _mutable_kind(argument)
            if kind:
                return f"{where} is given a {kind}, which it could change"
    return ""


def _mutable_kind(value: Any) -> str:
    """The type of an argument that a second call might find changed."""
    simple = (torch.Tensor, bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)
    if value is None or isinstance(value, simple) or callable(value):
        return ""
    if isinstance(value, (tuple, list)):
        return next(filter(None, map(_mutable_kind, value)), "")
    if isinstance(value, Mapping):
        return next(filter(None, map(_mutable_kind, value.values())), "")
    return type(value).__name__
