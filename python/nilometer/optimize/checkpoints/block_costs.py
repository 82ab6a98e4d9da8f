"""What each block of a chain costs, measured on the user's own sample: bytes kept, output, temporaries, and times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

from ..measuring.accounting import meter_for, tensor_bytes
from ..measuring.trial import Trial, preserved
from ..objects.tracing import tracing_paused
from .block_chain import BlockCall, ObservedChain

# Of a block's time the shortest counts: what disturbs a measurement makes it longer.
TIMED_RUNS = 2


@dataclass(frozen=True)
class BlockCost:
    """The figures of one block, as `nilometer._native.CheckpointCurve` takes them."""

    forward_secs: float
    backward_secs: float
    output_bytes: int
    saved_bytes: int
    forward_temp_bytes: int
    keep_temp_bytes: int
    backward_temp_bytes: int

    def figures(self) -> tuple[float, float, int, int, int, int, int]:
        """In the order of the planner."""
        return (
            self.forward_secs,
            self.backward_secs,
            self.output_bytes,
            self.saved_bytes,
            self.forward_temp_bytes,
            self.keep_temp_bytes,
            self.backward_temp_bytes,
        )


@dataclass(frozen=True)
class ChainCosts:
    """Everything that a plan depends on."""

    input_bytes: int
    blocks: list[BlockCost]
    """The blocks, and at the end one for all that follows them: head and loss."""
    held_bytes: int
    """Held while the blocks run: weights, optimizer state, the batch, what the embedding keeps."""
    gradient_bytes: list[int]
    """Gradients that the backward pass of each block makes."""
    first_gradient_bytes: int
    """Gradients of what comes before the blocks."""


def measure_costs(trial: Trial, chain: ObservedChain) -> ChainCosts:
    """Runs every block alone, forward and backward, and the whole model once for what comes before and after them."""
    with preserved(trial.model), tracing_paused():
        held_bytes, tail, tail_gradients = _measure_around(trial, chain)
    blocks = []
    for block, (call,) in zip(chain.blocks, chain.calls, strict=True):
        with preserved(trial.model), tracing_paused():
            blocks.append(_measure_block(trial.device, block, call))
    gradients = [tensor_bytes([parameter for parameter in block.parameters() if parameter.requires_grad]) for block in chain.blocks]
    everything = tensor_bytes([parameter for parameter in trial.model.parameters() if parameter.requires_grad])
    first = max(0, everything - sum(gradients) - tail_gradients)
    return ChainCosts(tensor_bytes(_first_tensor(chain.calls[0][0])), [*blocks, tail], held_bytes, [*gradients, tail_gradients], first)


def _first_tensor(call: BlockCall) -> torch.Tensor:
    tensors = [leaf for leaf in tree_leaves((call.args, call.kwargs)) if isinstance(leaf, torch.Tensor)]
    if not tensors:
        raise ValueError("the first block is given no tensor")
    return tensors[0]


def _measure_block(device: torch.device, block: torch.nn.Module, call: BlockCall) -> BlockCost:
    hidden = _first_tensor(call).detach()
    hidden.requires_grad_(hidden.is_floating_point())

    def fresh(leaf: Any) -> Any:
        return hidden if leaf is _first_tensor(call) else leaf

    args, kwargs = tree_map(fresh, (call.args, call.kwargs))

    def keep() -> Any:
        with call.context():
            return block(*args, **kwargs)

    def discard() -> Any:
        with call.context():
            return checkpoint(block, *args, use_reentrant=False, preserve_rng_state=True, **kwargs)

    forward_secs, backward_secs = _time(device, keep)  # leaves gradients behind, so that the next pass only adds to them
    # A view of a weight is no memory of its own.
    there_before = [list(block.parameters()), list(block.buffers()), [parameter.grad for parameter in block.parameters()], args, kwargs]
    output, before, peak = _metered(device, discard, there_before)
    output_bytes = tensor_bytes(output)
    forward_temp = peak - before - output_bytes
    del output
    meter = meter_for(device, there_before)
    with meter:
        before = meter.level
        output = keep()
        after, peak = meter.level, meter.peak
        gradient = tree_map(lambda leaf: torch.ones_like(leaf) if _has_gradient(leaf) else None, _as_list(output))
        outputs = [leaf for leaf in _as_list(output) if _has_gradient(leaf)]
        meter.reset_peak()
        base = meter.level
        if outputs:
            torch.autograd.backward(outputs, [leaf for leaf in gradient if leaf is not None])
        backward_temp = meter.peak - base
    return BlockCost(
        forward_secs=forward_secs,
        backward_secs=backward_secs,
        output_bytes=output_bytes,
        saved_bytes=max(0, after - before - output_bytes),
        forward_temp_bytes=max(0, forward_temp),
        keep_temp_bytes=max(0, peak - after),
        backward_temp_bytes=max(0, backward_temp),
    )


def _metered(device: torch.device, run: Callable[[], Any], there_before: list[Any]) -> tuple[Any, int, int]:
    meter = meter_for(device, there_before)
    with meter:
        before = meter.level
        meter.reset_peak()
        output = run()
        return output, before, meter.peak


def _time(device: torch.device, run: Callable[[], Any]) -> tuple[float, float]:
    shortest = [float("inf"), float("inf")]
    for _ in range(TIMED_RUNS):
        begun = _now(device)
        outputs = [leaf for leaf in _as_list(run()) if _has_gradient(leaf)]
        middle = _now(device)
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(leaf) for leaf in outputs])
        ended = _now(device)
        shortest = [min(shortest[0], middle - begun), min(shortest[1], ended - middle)]
    return shortest[0], shortest[1]


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _as_list(output: Any) -> list[Any]:
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def _has_gradient(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad


def _measure_around(trial: Trial, chain: ObservedChain) -> tuple[int, BlockCost, int]:
    """What is held when the first block begins, the most that head and loss need on top of the last block's output, and the gradients they make."""
    levels: dict[str, int] = {}
    meter = meter_for(trial.device, trial.held())

    def at_start(*_: Any) -> None:
        levels["start"] = meter.level

    def after_last(_module: Any, _args: Any, output: Any) -> None:
        levels["last"] = meter.level
        meter.reset_peak()
        for leaf in _as_list(output):
            if leaf.requires_grad:
                leaf.register_hook(at_gradient)
                break

    def at_gradient(_gradient: Any) -> None:
        if "tail" not in levels:
            levels["tail"] = meter.peak
            levels["gradients"] = tensor_bytes([parameter.grad for parameter in trial.model.parameters()])

    handles = [
        chain.blocks[0].register_forward_pre_hook(at_start),
        chain.blocks[-1].register_forward_hook(after_last),
    ]
    try:
        with meter:
            loss = trial.step()
    finally:
        for handle in handles:
            handle.remove()
    # The loss and its gradient are held until backward ends.
    start = levels["start"] - tensor_bytes(_first_tensor(chain.calls[0][0])) + 2 * tensor_bytes(loss)
    tail = max(0, levels.get("tail", meter.peak) - levels["last"])
    return start, BlockCost(0.0, 0.0, 0, tail, 0, 0, 0), levels.get("gradients", 0)
