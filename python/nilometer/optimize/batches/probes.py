"""Measured training steps of chosen sizes: their peak, or that memory ran out, with model and optimizer afterwards as they were."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..byte_words import in_bytes
from ..measuring.accounting import CudaMeter, TensorLimitReached, TensorMeter
from ..measuring.oom_recovery import attempt, is_out_of_memory, release
from ..measuring.step_parts import StepParts
from ..measuring.trial import random_state, set_random_state

SizedStep = Callable[[int, int], object]
"""Runs one training step, forward to optimizer, on a batch of that size and length."""


@dataclass(frozen=True)
class StepMemory:
    """What a step took at most, in each of its parts."""

    parts: list[int]

    @property
    def peak(self) -> int:
        return max(self.parts)


class Prober:
    """Runs steps under a budget: on a GPU against the device's memory, elsewhere against counted tensor bytes."""

    def __init__(
        self,
        step: SizedStep,
        *,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        device: torch.device,
        budget_bytes: int | None,
    ) -> None:
        self._step = step
        self._model = model
        self._optimizer = optimizer
        self._device = device
        if budget_bytes is None:
            if device.type != "cuda":
                raise ValueError("budget_bytes is required without a GPU that reports its memory")
            budget_bytes = free_device_bytes(device)
        self.budget_bytes = budget_bytes
        self.is_counted = device.type != "cuda"
        """Whether the bytes of tensors are counted, without an allocator's rounding."""
        self.last_oom = ""
        self.held_bytes = 0
        """Weights, buffers and optimizer state, at the beginning of the last step."""

    def memory(self, batch: int, length: int) -> StepMemory | None:
        """What a step takes, or None when memory ran out; it is then free again."""
        release(self._optimizer or self._model)
        measure = self._counted_memory if self.is_counted else self._cuda_memory
        tried = attempt(lambda: measure(batch, length))
        if tried.oom:
            self.last_oom = tried.oom
            release(self._model, self._optimizer)
            return None
        return tried.result

    def _cuda_memory(self, batch: int, length: int) -> StepMemory:
        meter = CudaMeter(self._device)
        with at_most(self._device, self.budget_bytes) as enforced, meter:
            self.held_bytes = meter.level
            # The allocator reserves more than a step needs while there is room, and gives that back before it runs out:
            # where it keeps to the budget itself, a step fits if it does not run out.
            if enforced:
                return self._parts(meter, batch, length)
            self._step(batch, length)
        peak = torch.cuda.max_memory_reserved(self._device)
        if peak > self.budget_bytes:
            raise torch.OutOfMemoryError(f"a step took {in_bytes(peak)} of {in_bytes(self.budget_bytes)}")
        return StepMemory([peak])

    def _counted_memory(self, batch: int, length: int) -> StepMemory:
        meter = TensorMeter(limit_bytes=self.budget_bytes)
        state = dict(self._optimizer.state) if self._optimizer is not None else {}
        meter.adopt(list(self._model.parameters()), list(self._model.buffers()), list(state.values()))
        if meter.level > self.budget_bytes:
            raise TensorLimitReached(f"model and optimizer take {in_bytes(meter.level)} of {in_bytes(self.budget_bytes)}")
        self.held_bytes = meter.level
        try:
            with meter:
                return self._parts(meter, batch, length)
        except RuntimeError as error:
            if meter.refusal and not is_out_of_memory(error):
                raise TensorLimitReached(meter.refusal) from error
            raise

    def _parts(self, meter: TensorMeter | CudaMeter, batch: int, length: int) -> StepMemory:
        with StepParts(meter, self._model, self._optimizer) as parts:
            self._step(batch, length)
        return StepMemory(parts.peaks)


@contextlib.contextmanager
def at_most(device: torch.device, budget_bytes: int) -> Iterator[bool]:
    """The allocator keeps to a budget meanwhile. False where it cannot be told to: an older PyTorch does not say which share it has."""
    share_of = getattr(torch.cuda, "get_per_process_memory_fraction", None)
    if share_of is None:
        yield False
        return
    before = share_of(device)
    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(before, budget_bytes / total), device)
    try:
        yield True
    finally:
        torch.cuda.set_per_process_memory_fraction(before, device)


def free_device_bytes(device: torch.device) -> int:
    """What this process can have of a GPU: what is free, and what it has reserved already."""
    free, _ = torch.cuda.mem_get_info(device)
    return int(free) + torch.cuda.memory_reserved(device)


@contextlib.contextmanager
def restored(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, device: torch.device) -> Iterator[None]:
    """Weights, buffers, optimizer state and random state are afterwards as they were. The copies lie in host memory."""
    weights = {name: tensor.detach().to("cpu", copy=True) for name, tensor in model.state_dict().items()}
    state = _on_host(optimizer.state_dict()) if optimizer is not None else None
    had_state = optimizer is not None and bool(optimizer.state)
    states = random_state(device)
    was_training = {name: module.training for name, module in model.named_modules()}
    try:
        yield
    finally:
        release(model, optimizer)
        model.load_state_dict(weights)
        for name, module in model.named_modules():
            module.training = was_training.get(name, module.training)
        if optimizer is not None and state is not None:
            optimizer.load_state_dict(state)
            if not had_state:
                optimizer.state.clear()
        set_random_state(device, states)


def _on_host(tree: Any) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree.detach().to("cpu", copy=True)
    if isinstance(tree, dict):
        return {key: _on_host(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(_on_host(value) for value in tree)
    return copy.deepcopy(tree)
