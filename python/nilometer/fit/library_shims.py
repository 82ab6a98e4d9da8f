"""What libraries do otherwise for tensors without data than on a GPU, put right while a trace is made."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

_Phase = Callable[[str], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def as_on_a_gpu(phase: _Phase, optimizer_stepped: Callable[[Any], None], weight_made: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """PyTorch takes fake tensors for tensors on a GPU where it chooses by the device, and tells when backward and optimizers run and weights are converted."""
    with contextlib.ExitStack() as stack:
        replace = _Replacements(stack)
        _autocast(replace)
        _conversions(replace, weight_made)
        _optimizers(replace)
        _backward(replace, phase)
        _cuda(replace)
        _gradient_scaler(replace)
        _transformers(replace)
        stack.enter_context(_optimizer_steps(phase, optimizer_stepped))
        yield


class _Replacements:
    """Attributes that are put back when a stack of contexts ends."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack

    def __call__(self, owner: Any, name: str, value: Any) -> None:
        if not hasattr(owner, name):
            return
        before = getattr(owner, name)
        setattr(owner, name, value)
        self._stack.callback(setattr, owner, name, before)


def _autocast(replace: _Replacements) -> None:
    """`torch.autocast("cuda")` is that of the CPU, whose tensors the fake ones are."""
    original = torch.autocast.__init__

    def begin(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        original(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    replace(torch.autocast, "__init__", begin)
    for name in ("is_autocast_enabled", "get_autocast_dtype"):
        asked = getattr(torch, name)
        replace(torch, name, lambda device_type="cpu", asked=asked: asked("cpu" if device_type == "cuda" else device_type))


def _conversions(replace: _Replacements, weight_made: Callable[[torch.Tensor], None]) -> None:
    """`module.to(...)` changes parameters in place, as with real ones. PyTorch swaps fake ones, which fails where anybody else has them."""

    def apply(self: torch.nn.Module, function: Any, recurse: bool = True) -> torch.nn.Module:
        for child in self.children() if recurse else []:
            child._apply(function)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            with torch.no_grad():
                for tensor in [parameter, parameter.grad]:
                    if tensor is not None and (applied := function(tensor)) is not tensor:
                        tensor.data = applied
            weight_made(parameter)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = function(buffer)
        return self

    replace(torch.nn.Module, "_apply", apply)


def _optimizers(replace: _Replacements) -> None:
    """Optimizers and gradient clipping work on all parameters at once, as they do by default on a GPU."""

    def default(params: Any, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
        return (use_fused, not use_fused and not differentiable)

    for name, module in list(sys.modules.items()):
        if name.startswith("torch.optim."):
            replace(module, "_default_to_fused_or_foreach", default)
    clipping = sys.modules.get("torch.nn.utils.clip_grad")
    if clipping is not None:
        replace(clipping, "_has_foreach_support", lambda tensors, device: True)


def _backward(replace: _Replacements, phase: _Phase) -> None:
    """The engine calls Python code (checkpoints that compute again) outside of the modes of the trace: they are put on again."""
    original = torch.autograd._engine_run_backward  # type: ignore[attr-defined]

    def run(*args: Any, **kwargs: Any) -> Any:
        with phase("backward"):
            return original(*args, **kwargs)

    replace(torch.autograd, "_engine_run_backward", run)
    if hasattr(torch.autograd, "graph"):
        replace(torch.autograd.graph, "_engine_run_backward", run)


def _cuda(replace: _Replacements) -> None:
    """What training loops ask of `torch.cuda` without meaning their tensors."""
    nothing = lambda *args, **kwargs: None  # noqa: E731
    for name in ("synchronize", "empty_cache", "reset_peak_memory_stats", "set_device", "manual_seed", "manual_seed_all"):
        replace(torch.cuda, name, nothing)
    replace(torch.cuda, "is_available", lambda: True)
    replace(torch.cuda, "device_count", lambda: 1)
    replace(torch.cuda, "current_device", lambda: 0)
    replace(torch.cuda, "is_bf16_supported", lambda *args, **kwargs: True)


def _gradient_scaler(replace: _Replacements) -> None:
    """A scaler looks whether gradients are finite, which fake ones are."""
    scaler = getattr(torch.amp, "GradScaler", None)
    if scaler is not None:
        replace(scaler, "_maybe_opt_step", lambda self, optimizer, state, *args, **kwargs: optimizer.step(*args, **kwargs))
        replace(scaler, "update", lambda self, new_scale=None: self._per_optimizer_states.clear())


def _transformers(replace: _Replacements) -> None:
    """Hugging Face looks at values whether sequences are packed, and makes a mask where it cannot; without values they are not packed."""
    masking = sys.modules.get("transformers.masking_utils")
    if masking is not None:
        replace(masking, "find_packed_sequence_indices", lambda *args, **kwargs: None)


@contextlib.contextmanager
def _optimizer_steps(phase: _Phase, stepped: Callable[[Any], None]) -> Iterator[None]:
    from torch.optim import optimizer as optimizers

    running: list[contextlib.AbstractContextManager[None]] = []

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        running.append(phase("optimizer"))
        running[-1].__enter__()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        running.pop().__exit__(None, None, None)
        stepped(optimizer)

    hooks = [optimizers.register_optimizer_step_pre_hook(before), optimizers.register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
