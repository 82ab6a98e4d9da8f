"""Splits a batch into micro-batches whose gradients add up to that of the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

LossSum = Callable[[torch.nn.Module, Any], torch.Tensor]
"""From model and micro-batch to the sum, not the mean, of the losses of its tokens or samples."""


def batch_length(batch: Any) -> int:
    """Samples in a batch: the first dimension of its tensors, which must be the same.

    >>> batch_length({"x": torch.zeros(6, 3), "y": torch.zeros(6)})
    6
    """
    sizes = {leaf.shape[0] for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.dim()}
    if not sizes:
        raise ValueError("the batch has no tensors whose first dimension counts samples")
    if len(sizes) != 1:
        raise ValueError(f"the tensors of a batch must have one first dimension in common, not {sorted(sizes)}")
    return int(sizes.pop())


def split_batch(batch: Any, size: int) -> Iterator[Any]:
    """Micro-batches of at most `size` samples, in order; the last may be smaller.

    >>> [part.tolist() for part in split_batch(torch.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    if size < 1:
        raise ValueError(f"size must be positive, not {size}")
    for start in range(0, batch_length(batch), size):

        def part(leaf: Any, start: int = start) -> Any:
            return leaf[start : start + size] if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf

        yield tree_map(part, batch)


def count_targets(batch: Any) -> int:
    """What the loss of a batch is averaged over: labels that are not -100 where there are labels, samples otherwise.

    Labels are counted as they are: a loss over shifted labels has fewer.

    >>> count_targets({"labels": torch.tensor([[1, 2, -100], [3, -100, -100]])}), count_targets((torch.zeros(4, 2),))
    (3, 4)
    """
    labels = batch.get("labels") if isinstance(batch, Mapping) else None
    if isinstance(labels, torch.Tensor):
        return int((labels != -100).sum())
    return batch_length(batch)


def accumulate(model: torch.nn.Module, batch: Any, loss_sum: LossSum, *, size: int, targets: float) -> float:
    """Runs forward and backward of all micro-batches; gives the loss over `targets`, which is that of the whole batch.

    Every micro-batch counts by its targets, so that lengths may differ: the mean of the micro-batches' means would be off.
    A `loss_sum` with a method `share(model, part, targets)` does the division itself: the mean of a whole batch then stays what it is, to the last bit.
    """
    total = 0.0
    share = getattr(loss_sum, "share", None)
    for part in split_batch(batch, size):
        loss: torch.Tensor = loss_sum(model, part) / targets if share is None else share(model, part, targets)
        loss.backward()  # type: ignore[no-untyped-call]
        total += float(loss.detach())
    return total
