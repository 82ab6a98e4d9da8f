"""The largest batch of a Hugging Face `Trainer` or a Lightning module, with the global batch kept by gradient accumulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from ..measuring.accounting import device_of
from .batch_size import MOST, BatchSize, find_batch_size
from .rank_agreement import world_size

# Looked at for the longest sample; in larger datasets a few longer ones may be missed.
LOOKED_AT = 1000


def fit_trainer_batch(
    trainer: Any, *, budget_bytes: int | None = None, maximum: int | None = None, global_batch: int | None = None
) -> BatchSize:
    """Sets the per-device batch of a Hugging Face `Trainer` to the largest that fits, before `trainer.train()`.

    Probes are made of the longest of the first thousand samples. The global batch (samples per optimizer step over all ranks) stays what the arguments say, or becomes `global_batch`: the per-device batch is at most its share, and `gradient_accumulation_steps` follows. Where they do not divide evenly, the per-device batch is the largest that does.
    The trainer weights micro-batches by their tokens itself. DeepSpeed and FSDP are refused: their memory is not that of the plain model.
    """
    arguments = trainer.args
    if getattr(arguments, "deepspeed", None) or getattr(arguments, "fsdp", None):
        raise ValueError("the trainer uses DeepSpeed or FSDP, whose memory a plain step does not show")
    ranks = max(world_size(), int(arguments.world_size))
    asked = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps
    share = asked if global_batch is None else _share(global_batch, ranks)
    model, had_optimizer = trainer.model, trainer.optimizer is not None
    optimizer = trainer.create_optimizer()
    longest = _longest_sample(trainer.train_dataset)
    make_batch: Callable[[Sequence[Any]], Any] = trainer.data_collator
    was_training = model.training

    def step(batch_size: int, _length: int) -> None:
        model.train()
        batch = _to_device(make_batch([longest] * batch_size), device_of(model))
        with trainer.compute_loss_context_manager():
            loss = trainer.compute_loss(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    try:
        most = min(share, MOST if maximum is None else maximum)
        found = find_batch_size(step, model, optimizer, budget_bytes=budget_bytes, maximum=most)
    finally:
        model.train(was_training)
        if not had_optimizer:
            trainer.optimizer = None
    size = _divisor(share, found.batch_size)
    arguments.per_device_train_batch_size = size
    arguments.gradient_accumulation_steps = share // size
    trainer._train_batch_size = size
    return found


def fit_lightning_batch(
    module: Any,
    dataset: Sequence[Any],
    *,
    collate: Callable[[Sequence[Any]], Any] | None = None,
    budget_bytes: int | None = None,
    global_batch: int,
) -> tuple[int, int]:
    """The batch size of the data loader and the `accumulate_grad_batches` of the Lightning trainer that keep a global batch.

    Runs the module's own `training_step` and optimizer on the longest of the first thousand samples, before a trainer has it. Lightning averages over micro-batches alike; where numbers of tokens differ, use `AdaptiveBatches` in a loop of your own.
    """
    configured = module.configure_optimizers()
    optimizer = _first_optimizer(configured)
    together = torch.utils.data.default_collate if collate is None else collate
    longest = _longest_sample(dataset)

    def step(batch_size: int, _length: int) -> None:
        batch = _to_device(together([longest] * batch_size), device_of(module))
        given = module.training_step(batch, 0)
        loss = given["loss"] if isinstance(given, dict) else given
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    share = _share(global_batch, world_size())
    found = find_batch_size(step, module, optimizer, budget_bytes=budget_bytes, maximum=min(share, MOST))
    size = _divisor(share, found.batch_size)
    return size, share // size


def _share(global_batch: int, ranks: int) -> int:
    if global_batch < 1 or global_batch % ranks:
        raise ValueError(f"a global batch of {global_batch} cannot be divided among {ranks} ranks")
    return global_batch // ranks


def _divisor(share: int, most: int) -> int:
    """The largest micro-batch up to `most` of which a whole number makes up the share."""
    return next(size for size in range(min(most, share), 0, -1) if share % size == 0)


def _longest_sample(dataset: Any) -> Any:
    samples = [dataset[index] for index in range(min(len(dataset), LOOKED_AT))]
    if not samples:
        raise ValueError("the dataset is empty")
    return max(samples, key=_elements)


def _elements(sample: Any) -> int:
    return sum(_size(leaf) for leaf in tree_leaves(sample))


def _size(leaf: Any) -> int:
    shape = getattr(leaf, "shape", None)
    return math.prod(shape) if shape is not None else 1


def _to_device(batch: Any, device: torch.device) -> Any:
    # Collators give mappings of their own types, which are no trees to torch.
    plain = dict(batch) if hasattr(batch, "keys") else batch
    return tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, plain)


def _first_optimizer(configured: Any) -> torch.optim.Optimizer:
    while not isinstance(configured, torch.optim.Optimizer):
        if isinstance(configured, dict):
            configured = configured["optimizer"]
        elif isinstance(configured, (list, tuple)) and configured:
            configured = configured[0]
        else:
            raise ValueError("configure_optimizers() gives no optimizer")
    return configured
