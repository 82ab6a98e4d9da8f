"""Makes tensors without data, which say that they are on the CPU, allocate what they would on a GPU.

PyTorch cannot run backward for made-up CUDA tensors on a machine without a GPU, so they are on the CPU;
where operations of the two devices differ in what they allocate, those of CUDA stand in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as functional
from torch._subclasses.fake_tensor import DataDependentOutputException
from torch.overrides import TorchFunctionMode

from .attention import scaled_dot_product_attention

_NARROW = (torch.bfloat16, torch.float16)
# Autocast computes these in 32 bits on CUDA, but not on the CPU.
_IN_32_BITS = {
    functional.layer_norm,
    functional.group_norm,
    functional.softmax,
    functional.log_softmax,
    functional.cross_entropy,
    functional.nll_loss,
    functional.mse_loss,
    functional.l1_loss,
    functional.smooth_l1_loss,
    functional.binary_cross_entropy_with_logits,
    functional.kl_div,
    functional.cosine_similarity,
    functional.softplus,
    *(getattr(torch, name) for name in ("layer_norm", "group_norm", "softmax", "log_softmax", "norm")),
    *(getattr(where, name) for where in (torch, torch.Tensor) for name in ("pow", "exp", "log", "rsqrt", "reciprocal", "sum", "prod", "cumsum", "cumprod")),
    torch.Tensor.softmax,
    torch.Tensor.log_softmax,
    torch.Tensor.norm,
    torch.Tensor.__pow__,
    torch.Tensor.__rpow__,
}
_VALUES = {torch.Tensor.item: 0.0, torch.Tensor.__float__: 0.0, torch.Tensor.__int__: 0}


class CudaSemantics(TorchFunctionMode):
    """`used_value` is called where a program asks for the value of a tensor, for which 0 is given."""

    def __init__(self, used_value: Callable[[], None]) -> None:
        super().__init__()
        self._used_value = used_value

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if function is functional.scaled_dot_product_attention:
            return scaled_dot_product_attention(*args, **kwargs)
        if function is functional.dropout:
            return _dropout(*args, **kwargs)
        if function in _VALUES:
            return self._value(function, args)
        if function in (torch.Tensor.cuda, torch.Tensor.cpu):
            return args[0]
        args, kwargs = _on_the_cpu(args), {name: _here(value) for name, value in kwargs.items()}
        if function in _IN_32_BITS and torch.is_autocast_enabled("cpu"):
            args = tuple(_widened(value) for value in args)
            kwargs = {name: _widened(value) for name, value in kwargs.items()}
            with torch.autocast("cpu", enabled=False):
                return function(*args, **kwargs)
        return function(*args, **kwargs)

    def _value(self, function: Any, args: tuple[Any, ...]) -> float | int:
        try:
            # Steps of optimizers and other constants are known.
            return function(*args)
        except DataDependentOutputException:
            self._used_value()
            return _VALUES[function] if args[0].is_floating_point() else 0


def _dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """CUDA's kernel keeps a mask of one byte an element."""
    return torch.native_dropout(input, p, True)[0] if training and p > 0 else input


def _here(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    return "cpu" if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value


def _on_the_cpu(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(_here(value) for value in args)


def _widened(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in _NARROW else value
