"""What the attention kernels of CUDA keep and allocate, by shapes alone."""

from __future__ import annotations

from typing import Any

import torch

_HALF = (torch.bfloat16, torch.float16)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


class _FusedAttention(torch.autograd.Function):
    """Flash attention or the memory-efficient kernel. Both lay their output out as [batch, sequence, heads, dimension]."""

    @staticmethod
    def forward(context: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_flash: bool) -> torch.Tensor:  # type: ignore[override]
        batch, heads, length, _ = query.shape
        output = query.new_empty(batch, length, heads, value.shape[-1]).transpose(1, 2)
        # The logarithm of the sum of each row of scores.
        rows = length if is_flash else _up(length, 32)
        log_sums = query.new_empty(batch, heads, rows, dtype=torch.float32)
        context.save_for_backward(query, key, value, output, log_sums)
        context.is_flash = is_flash
        return output

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> Any:  # type: ignore[override]
        query, key, value, _, _ = context.saved_tensors
        batch, heads, length, size = query.shape
        temporaries = []
        if context.is_flash:
            rows, columns = _up(length, 128), _up(size, 32 if size <= 128 else 64)
            temporaries.append(query.new_empty(batch, heads, rows, dtype=torch.float32))
            result = [torch.empty_like(tensor) for tensor in (query, key, value)]
            temporaries.append(query.new_empty(batch, rows, heads, columns, dtype=torch.float32))
            if key.shape[1] != heads:
                # Gradients of each query's copy of keys and values, added up afterwards.
                temporaries += [tensor.new_empty(batch, tensor.shape[2], heads, size) for tensor in (key, value)]
        else:
            temporaries.append(query.new_empty(batch, heads, length, dtype=torch.float32))
            result = [torch.empty_like(tensor) for tensor in (query, key, value)]
            if query.dtype in _HALF:
                temporaries.append(query.new_empty(batch, heads, length, size, dtype=torch.float32))
        return *result, None


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Stands for `torch.nn.functional.scaled_dot_product_attention` with the kernel that CUDA would choose."""
    if torch.is_autocast_enabled("cpu"):
        dtype = torch.get_autocast_dtype("cpu")
        query, key, value = (tensor.to(dtype) for tensor in (query, key, value))
    if query.dim() == 3:
        return scaled_dot_product_attention(*(tensor.unsqueeze(0) for tensor in (query, key, value)), attn_mask, dropout_p).squeeze(0)
    is_flash = query.dtype in _HALF and attn_mask is None and query.shape[-1] == value.shape[-1] <= 256
    is_grouped = enable_gqa and key.shape[1] != query.shape[1]
    if (attn_mask is not None and attn_mask.requires_grad) or (is_grouped and not is_flash):
        return _step_by_step(query, key, value, attn_mask, dropout_p, enable_gqa)
    return _FusedAttention.apply(query, key, value, is_flash)


def _step_by_step(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, dropout: float, enable_gqa: bool
) -> torch.Tensor:
    """No kernel gives a mask its gradient (a learned bias, as in T5) or takes grouped heads in 32 bits, so PyTorch does one operation after another."""
    if enable_gqa and key.shape[1] != query.shape[1]:
        repeats = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(repeats, 1) for tensor in (key, value))
    scores = (query * 1.0) @ (key * 1.0).transpose(-2, -1)
    # A mask that says what is causal is added in place.
    weights = (scores if mask is None else scores + mask).softmax(-1)
    if dropout > 0:
        weights = torch.native_dropout(weights, dropout, True)[0]
    return weights @ value
