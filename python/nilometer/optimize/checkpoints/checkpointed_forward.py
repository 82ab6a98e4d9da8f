"""Puts a checkpoint plan on the blocks of a model, through `torch.utils.checkpoint`, and takes it off again."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from .block_chain import hidden_state, same_arguments

PlanUnits = Sequence[Any]
"""Units of a plan: the number of a kept block, or `(first, last, units inside)`."""


class Segment:
    """Blocks that are run again together. The first one's call runs them all; the calls of the others pass its result on."""

    def __init__(self, first: int, blocks: list[torch.nn.Module], inside: PlanUnits, *, gives_tuple: bool) -> None:
        self.first = first
        self.blocks = blocks
        self.inside = inside
        self.gives_tuple = gives_tuple
        # Not bound methods: a pickled one would come back as whatever `forward` is then, which is ours.
        self._own_forwards = [vars(block).get("forward") for block in blocks]
        self._passing = threading.local()

    def _forward(self, number: int) -> Callable[..., Any]:
        """What a block did before it was checkpointed."""
        block, own = self.blocks[number], self._own_forwards[number]
        forward: Callable[..., Any] = type(block).forward.__get__(block) if own is None else own
        return forward

    def call(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call of the segment's block with that number, counted from its first."""
        forward = self._forward(number)
        if number == 0:
            self._passing.expected = None
        if not torch.is_grad_enabled() or kwargs.get("past_key_values") is not None:
            return forward(*args, **kwargs)
        if len(self.blocks) == 1:
            return _checkpointed(forward, *args, **kwargs)
        if number > 0 and getattr(self._passing, "expected", None) is not None:
            return self._pass_on(number, args, kwargs)
        # Whoever hooked a block wants its own output.
        if number > 0 or any(block._forward_hooks or block._forward_pre_hooks for block in self.blocks):
            return _checkpointed(forward, *args, **kwargs)
        output = _checkpointed(self._run, self.inside, args[0], args[1:], kwargs)
        self._passing.expected = weakref.ref(output)
        self._passing.arguments = (args[1:], kwargs)
        return (output,) if self.gives_tuple else output

    def _pass_on(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        is_result = bool(args) and args[0] is self._passing.expected()
        if not is_result or not same_arguments(self._passing.arguments, (args[1:], kwargs)):
            self._passing.expected = None
            raise RuntimeError(
                f"block {self.first + number} was called with other arguments than the sample that the checkpoint plan was made for: "
                "undo the plan, or plan with such a sample"
            )
        if number == len(self.blocks) - 1:
            self._passing.expected = self._passing.arguments = None
        return (args[0],) if self.gives_tuple else args[0]

    def _run(self, units: PlanUnits, hidden: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        for unit in units:
            if isinstance(unit, tuple):
                hidden = _checkpointed(self._run, unit[2], hidden, args, kwargs)
            else:
                hidden = hidden_state(self._forward(unit - self.first)(hidden, *args, **kwargs))
        return hidden

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_passing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _passing=threading.local())


class CheckpointedForward:
    """The `forward` of a block that belongs to a segment."""

    def __init__(self, segment: Segment, number: int) -> None:
        self.segment = segment
        self.number = number

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.segment.call(self.number, args, kwargs)


def _checkpointed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return checkpoint(function, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)


def put_on(blocks: list[torch.nn.Module], units: PlanUnits, *, gives_tuple: bool) -> Callable[[], None]:
    """Lets the blocks run as the plan says; gives the function that takes it off again."""
    replaced: list[tuple[torch.nn.Module, Any]] = []
    for unit in units:
        if not isinstance(unit, tuple):
            continue
        first, last, inside = unit
        members = blocks[first : last + 1]
        segment = Segment(first, members, inside, gives_tuple=gives_tuple)
        for number, block in enumerate(members):
            replaced.append((block, vars(block).get("forward")))
            block.forward = CheckpointedForward(segment, number)

    def take_off() -> None:
        while replaced:
            block, earlier = replaced.pop()
            if not isinstance(vars(block).get("forward"), CheckpointedForward):
                continue  # somebody else has replaced it since, and holds what was there
            if earlier is None:
                del block.forward
            else:
                block.forward = earlier

    return take_off
