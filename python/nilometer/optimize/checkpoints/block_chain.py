"""Finds the repeated blocks of a model and watches how the model calls them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..measuring.trial import Trial, preserved

FEWEST_BLOCKS = 2


@dataclass(frozen=True)
class AutocastSettings:
    """The autocast that is on somewhere, to run something in the same one elsewhere."""

    device_type: str
    enabled: bool
    dtype: torch.dtype
    caches: bool

    @classmethod
    def current(cls, device_type: str) -> AutocastSettings | None:
        """What is on here; None for devices without autocast."""
        if not torch.amp.is_autocast_available(device_type):
            return None
        enabled, dtype = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
        return cls(device_type, enabled, dtype, torch.is_autocast_cache_enabled())

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """The same again."""
        return torch.autocast(self.device_type, dtype=self.dtype, enabled=self.enabled, cache_enabled=self.caches)


@dataclass
class BlockCall:
    """One call of a block: what it was given and what it gave."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    changed: str = ""
    """What the call changed that recomputation would change again."""
    autocast: AutocastSettings | None = None
    """The autocast that the model called the block in."""

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """Where the block runs as it does in the model."""
        return contextlib.nullcontext() if self.autocast is None else self.autocast.context()

    def other_args(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Everything but the first argument, which the chain passes on."""
        return self.args[1:], self.kwargs


@dataclass
class ObservedChain:
    """The blocks of a model in the order of their calls."""

    name: str
    blocks: list[torch.nn.Module]
    calls: list[list[BlockCall]] = field(default_factory=list, repr=False)

    def segment_refusal(self) -> str:
        """Why several blocks cannot be run again together, or nothing: the model's code between them has to be known."""
        first = self.calls[0][0]
        for number, (call,) in enumerate(self.calls):
            if not call.args or not isinstance(call.args[0], torch.Tensor):
                return f"block {number} does not take a tensor as its first argument"
            if not isinstance(hidden_state(call.output), torch.Tensor):
                return f"block {number} gives more than one tensor"
            if isinstance(call.output, tuple) != isinstance(first.output, tuple):
                return f"block {number} gives another kind of output than block 0"
            if not same_arguments(first.other_args(), call.other_args()):
                return f"block {number} has other arguments than block 0"
            if number and call.args[0] is not hidden_state(self.calls[number - 1][0].output):
                return f"the model changes the output of block {number - 1} before block {number} reads it"
        return ""


def hidden_state(output: Any) -> Any:
    """The tensor that a block passes on: its output, or the only element of it."""
    return output[0] if isinstance(output, tuple) and len(output) == 1 else output


def same_arguments(ours: Any, theirs: Any) -> bool:
    """Whether two blocks are given the same: the same tensors, equal numbers and names."""
    if ours is theirs:
        return True
    if isinstance(ours, (tuple, list)) and isinstance(theirs, type(ours)):
        return len(ours) == len(theirs) and all(map(same_arguments, ours, theirs))
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(same_arguments(ours[key], theirs[key]) for key in ours)
    simple = (bool, int, float, str, bytes, torch.dtype, torch.device)
    return isinstance(ours, simple) and type(ours) is type(theirs) and bool(ours == theirs)


def find_chain(model: torch.nn.Module) -> ObservedChain | None:
    """The longest-weighted list of equal blocks: of all `ModuleList`s and `Sequential`s of one class, the one with most parameters."""
    best: ObservedChain | None = None
    most = -1
    for name, module in model.named_modules():
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            continue
        blocks = list(module)
        if len(blocks) < FEWEST_BLOCKS or len({type(block) for block in blocks}) != 1:
            continue
        # A block that is there twice is called twice: its gradients are fine, its calls cannot be told apart.
        if len({id(block) for block in blocks}) != len(blocks):
            continue
        parameters = sum(parameter.numel() for block in blocks for parameter in block.parameters())
        if parameters > most:
            most, best = parameters, ObservedChain(name or type(model).__name__, blocks)
    return best


def observe(trial: Trial, chain: ObservedChain) -> None:
    """Runs the model forward once without gradients and notes every call of its blocks."""
    chain.calls = [[] for _ in chain.blocks]
    before: dict[int, Any] = {}
    handles = []
    for number, block in enumerate(chain.blocks):

        def note_before(module: Any, args: Any, kwargs: Any, number: int = number) -> None:
            before[number] = (_versions((args, kwargs)), _own_state(module))

        def note_after(module: Any, args: Any, kwargs: Any, output: Any, number: int = number) -> None:
            versions, state = before[number]
            changed = "changes its input in place" if _versions((args, kwargs)) != versions else ""
            autocast = AutocastSettings.current(trial.device.type)
            chain.calls[number].append(BlockCall(args, kwargs, output, changed or _state_change(module, state), autocast))

        handles.append(block.register_forward_pre_hook(note_before, with_kwargs=True))
        handles.append(block.register_forward_hook(note_after, with_kwargs=True))
    try:
        with preserved(trial.model), torch.no_grad():
            trial.forward()
    finally:
        for handle in handles:
            handle.remove()


def _versions(tree: Any) -> list[tuple[int, int]]:
    return [(id(leaf), leaf._version) for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def _own_state(block: torch.nn.Module) -> dict[str, Any]:
    """What a call may leave behind in a block: buffers by their version, plain attributes by their value."""
    state: dict[str, Any] = {}
    for name, module in block.named_modules():
        for key, buffer in module._buffers.items():
            if buffer is not None:
                state[f"{name}.{key}"] = (id(buffer), buffer._version)
        for key, value in vars(module).items():
            if isinstance(value, (bool, int, float, str, type(None))):
                state[f"{name}.{key}"] = value
            elif isinstance(value, (list, dict, set)) and not key.startswith("_"):
                state[f"{name}.{key}"] = (id(value), len(value))
            elif isinstance(value, torch.Tensor):
                state[f"{name}.{key}"] = (id(value), value._version)
    return state


def _state_change(block: torch.nn.Module, before: dict[str, Any]) -> str:
    after = _own_state(block)
    for key in {**before, **after}:
        if before.get(key, ...) != after.get(key, ...):
            return f"changes its own {key.lstrip('.')} when it is called"
    return ""
