"""Ranks of a distributed training agree on numbers, over a group that works while a GPU is in trouble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
import torch.distributed as dist

Number = TypeVar("Number", int, float)

_host_group: list[object] = []


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
