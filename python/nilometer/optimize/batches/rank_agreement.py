"""Ranks of a distributed training agree on numbers, over a group that works while a GPU is in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist

Number = TypeVar("Number", int, float)

_host_group: list[object] = []
# Gradients are exchanged in pieces of about this size, as DistributedDataParallel does.
_BUCKET_BYTES = 25 << 20


def world_size() -> int:
    """Ranks in this training; 1 without `torch.distributed`."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def host_group() -> dist.ProcessGroup | None:
    """A gloo group of all ranks: the default one if it is gloo, or one that is made when first asked for, by all ranks together."""
    if world_size() == 1:
        return None
    if "gloo" == dist.get_backend():
        return dist.group.WORLD
    if not _host_group:
        _host_group.append(dist.new_group(backend="gloo"))
    return _host_group[0]  # type: ignore[return-value]


def smallest_of_all(value: int) -> int:
    """The smallest value of any rank. Every rank has to call it."""
    return least(value)[0]


def least(*values: int) -> list[int]:
    """For each position, the smallest number of any rank, in one exchange. Every rank has to call it."""
    if world_size() == 1:
        return list(values)
    numbers = torch.tensor(values, dtype=torch.int64)
    dist.all_reduce(numbers, op=dist.ReduceOp.MIN, group=host_group())
    return [int(number) for number in numbers]


def least_and_sum(values: Sequence[int], number: float) -> tuple[list[int], float]:
    """For each position the smallest number of any rank, and the sum of one more over all ranks, in one exchange. Every rank has to call it.

    Everybody adds up in the order of the ranks, so that all get the same bits.
    """
    if world_size() == 1:
        return list(values), number
    # Whole numbers that need all their bits and a float: the float travels as the bits of one more whole number.
    bits = torch.tensor([number], dtype=torch.float64).view(torch.int64)
    own = torch.cat([torch.tensor(list(values), dtype=torch.int64), bits])
    of_all = [torch.empty_like(own) for _ in range(world_size())]
    dist.all_gather(of_all, own, group=host_group())
    table = torch.stack(of_all)
    return table[:, :-1].amin(dim=0).tolist(), sum(table[:, -1].contiguous().view(torch.float64).tolist())


def sum_of_all(value: Number) -> Number:
    """The sum over all ranks, a whole number of whole numbers. Every rank has to call it."""
    if world_size() == 1:
        return value
    number = torch.tensor([value], dtype=torch.int64 if isinstance(value, int) else torch.float64)
    dist.all_reduce(number, group=host_group())
    return type(value)(number[0])


def add_gradients(model: torch.nn.Module) -> None:
    """Sums the gradients of all ranks, some megabytes at a time. A parameter that no rank has a gradient for stays without one."""
    if world_size() == 1:
        return
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    lacking = least(*(int(parameter.grad is None) for parameter in parameters))
    bucket: list[torch.Tensor] = []
    for parameter, nobody_has_it in zip(parameters, lacking, strict=True):
        if nobody_has_it:
            continue
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradient = parameter.grad
        if bucket and (gradient.dtype != bucket[0].dtype or gradient.device != bucket[0].device or _bytes(bucket) > _BUCKET_BYTES):
            _add(bucket)
            bucket = []
        bucket.append(gradient)
    if bucket:
        _add(bucket)


def average_gradients(model: torch.nn.Module) -> None:
    """The mean of the gradients of all ranks, as DistributedDataParallel leaves them. Every rank has to call it."""
    add_gradients(model)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.div_(world_size())


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _add(gradients: list[torch.Tensor]) -> None:
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    parts = torch.split(flat, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))
