"""The data loader of a training, as its settings say, for one process or for every rank its share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from ..._trouble import require
from ..batches.rank_agreement import smallest_of_all, world_size
from ..config import TrainingMemoryConfig


def make_loader(
    dataset: Any, config: TrainingMemoryConfig, device: torch.device, collate_fn: Callable[[list[Any]], Any] | None = None
) -> DataLoader[Any]:
    """Batches of the effective size. A loader that is given as the dataset is taken as it is."""
    if isinstance(dataset, DataLoader):
        return dataset
    is_stream = isinstance(dataset, IterableDataset)
    if not is_stream and not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise TypeError(f"dataset must be a dataset, a sequence of samples or a DataLoader, not {type(dataset).__name__}")
    require(is_stream or len(dataset) > 0, "the dataset is empty: it has no samples")
    sampler: DistributedSampler[Any] | None = None
    if world_size() > 1 and not is_stream:
        sampler = DistributedSampler(dataset, shuffle=config.shuffle)
    return DataLoader(
        dataset,
        batch_size=config.effective_batch_size or config.initial_batch_size,
        shuffle=None if is_stream or sampler is not None else config.shuffle,
        sampler=sampler,
        num_workers=config.num_workers,
        pin_memory=config.pin_memory and device.type == "cuda",
        persistent_workers=config.persistent_workers and config.num_workers > 0,
        collate_fn=collate_fn,
    )


def epochs(loader: DataLoader[Any], count: int) -> Iterator[Iterator[Any]]:
    """The batches of each epoch. Ranks shuffle alike, and stop together where one has no more batches."""
    for epoch in range(count):
        sampler = getattr(loader, "sampler", None)
        if isinstance(sampler, DistributedSampler):
            sampler.set_epoch(epoch)
        yield iter(loader) if world_size() == 1 else _together(iter(loader))


def _together(batches: Iterator[Any]) -> Iterator[Any]:
    nothing = object()
    while True:
        batch = next(batches, nothing)
        if not smallest_of_all(int(batch is not nothing)):
            return
        yield batch


def same_weights(model: torch.nn.Module) -> None:
    """All ranks begin with the weights and buffers of the first."""
    if world_size() > 1:
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.data, src=0)


def loader_facts(loader: DataLoader[Any], batch_bytes: int) -> dict[str, Any]:
    """For the rules of advice: what waits in the loader. `inspect_loader` measures its workers too."""
    return {
        "workers": loader.num_workers,
        "cpus": len(os.sched_getaffinity(0)),
        "persistent_workers": loader.persistent_workers,
        "prefetch_factor": loader.prefetch_factor if loader.num_workers else None,
        "batch_bytes": batch_bytes or None,
        "pin_memory": loader.pin_memory,
    }
