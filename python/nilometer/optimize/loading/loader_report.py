"""What a DataLoader costs: memory that its workers copy, batches that wait, pinned memory, padding."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ... import _native
from ..._trouble import require, require_type
from .. import in_run
from ..live_facts import known_facts, recommendations
from .shared_dataset import count_objects


@dataclass(frozen=True)
class LoaderReport:
    """What `inspect_loader` found."""

    facts: dict[str, Any]
    """Under the names that the rules of advice know; what could not be measured is None."""
    batches: int
    """Batches that were loaded for it."""
    growth_per_batch_bytes: float | None
    """Private memory that all workers together gained with each batch."""
    workers_pss_bytes: int | None
    """What all workers hold, shared pages divided by those who share them."""
    prefetched_bytes: float
    """Batches that wait at most: workers, times batches in advance, times a batch's bytes."""
    limit_bytes: int | None

    def __str__(self) -> str:
        facts = self.facts
        workers, method = facts["workers"], facts["start_method"]
        lines = [f"{workers} workers ({method}), prefetch_factor={facts['prefetch_factor']}" if workers else "no workers: the training process loads the data itself"]
        share = f", {self.prefetched_bytes / self.limit_bytes:.1%} of the memory limit" if self.limit_bytes else ""
        lines.append(f"a batch takes {_mib(facts['batch_bytes'])}; up to {_mib(self.prefetched_bytes)} of batches are loaded ahead{share}")
        if self.growth_per_batch_bytes is not None:
            lines.append(f"private memory of the workers grows by {_mib(self.growth_per_batch_bytes)} a batch")
        if facts["padding_ratio"] is not None:
            lines.append(f"{facts['padding_ratio']:.0%} of the tokens are padding")
        for one in self.recommendations:
            lines += [f"- {one['text']}", *(f"    {because}" for because in one["evidence"]), f"    change: {one['change']}"]
        return "\n".join(lines)

    @property
    def recommendations(self) -> list[dict[str, Any]]:
        """What the rules of `nilo optimize` recommend on these facts alone, best first; as `nilometer.optimize` has them elsewhere."""
        return recommendations(known_facts({"loader": self.facts, "host": {"limit_bytes": self.limit_bytes}}))

    @property
    def copies_dataset(self) -> bool:
        """Whether forked workers copy the dataset by reading it."""
        return any(one["rule"] == "share-dataset" for one in self.recommendations)


def inspect_loader(loader: Any, *, batches: int = 8) -> LoaderReport:
    """Loads some batches as training would, and looks at the memory of the workers meanwhile.

    The random state is put back, and workers that were started for it are ended. Call it before training uses the loader.
    """
    require_type(batches, int, "batches")
    require(batches >= 2, f"batches must be at least 2, not {batches}")
    if not isinstance(loader, torch.utils.data.DataLoader):
        raise TypeError(f"loader must be a torch.utils.data.DataLoader, not {type(loader).__name__}")
    require(loader._iterator is None, "the loader is in use already: call inspect_loader before the first epoch")
    with _random_state_kept(loader):
        seen = _load(loader, batches)
    require(len(seen.batch_bytes) > 0, "the loader gave no batch: its dataset is empty, or smaller than one batch with drop_last=True")
    objects, serialized = count_objects(loader.dataset)
    workers = loader.num_workers
    prefetch = (loader.prefetch_factor or 0) if workers else 0
    batch_bytes = max(seen.batch_bytes, default=0)
    waiting = workers * prefetch * batch_bytes
    limit = _native.memory_limit()
    pinned = _pinned(seen.tensor_bytes, max(1, workers * prefetch)) if loader.pin_memory and torch.cuda.is_available() else (None, None)
    facts = {
        "workers": workers,
        "cpus": len(os.sched_getaffinity(0)),
        "persistent_workers": bool(loader.persistent_workers),
        "prefetch_factor": prefetch or None,
        "batch_bytes": float(batch_bytes),
        "start_method": _start_method(loader) if workers else None,
        "dataset_objects": objects,
        "serialized_bytes": float(serialized),
        "worker_private_growth_bytes": seen.growth,
        "pin_memory": bool(loader.pin_memory),
        "pinned_requested_bytes": pinned[0],
        "pinned_allocated_bytes": pinned[1],
        "shm_size_bytes": seen.shm_size,
        "shm_peak_bytes": seen.shm_peak,
        "length_variation": seen.length_variation(),
        "padding_ratio": seen.padding_ratio(),
    }
    in_run.tell_facts("loader", facts)
    steps = max(1, len(seen.batch_bytes) - 1)
    return LoaderReport(
        facts,
        len(seen.batch_bytes),
        None if seen.growth is None else seen.growth / steps,
        seen.pss,
        float(waiting),
        None if limit is None else limit[0],
    )


class _Seen:
    """What was seen while batches came."""

    def __init__(self) -> None:
        self.batch_bytes: list[int] = []
        self.tensor_bytes: list[int] = []
        self.growth: float | None = None
        self.pss: int | None = None
        self.shm_size: float | None = None
        self.shm_peak = 0.0
        self._lengths: list[float] = []
        self._tokens = self._places = 0

    def add(self, batch: Any) -> None:
        sizes = [tensor.nbytes for tensor in _tensors(batch)]
        self.batch_bytes.append(sum(sizes) + _other_bytes(batch))
        if sum(sizes) > sum(self.tensor_bytes):
            self.tensor_bytes = sizes
        mask = batch.get("attention_mask") if hasattr(batch, "get") else None
        if isinstance(mask, torch.Tensor) and mask.dim() == 2:
            lengths = mask.bool().sum(1)
            self._lengths += lengths.tolist()
            self._tokens += int(lengths.sum())
            self._places += mask.numel()

    def length_variation(self) -> float | None:
        mean = statistics.fmean(self._lengths) if len(self._lengths) > 1 else 0.0
        return statistics.pstdev(self._lengths) / mean if mean else None

    def padding_ratio(self) -> float | None:
        return 1 - self._tokens / self._places if self._places else None


@contextlib.contextmanager
def _random_state_kept(loader: Any) -> Iterator[None]:
    """Of torch, the loader's own generator, Python, and numpy where it is used: samplers draw from these, and without workers the dataset does."""
    numpy_random = sys.modules.get("numpy.random")
    ours = (torch.get_rng_state(), random.getstate(), None if numpy_random is None else numpy_random.get_state())
    generators = {id(one): one for one in (loader.generator, getattr(loader.sampler, "generator", None)) if one is not None}
    own = [(one, one.get_state()) for one in generators.values()]
    try:
        yield
    finally:
        torch.set_rng_state(ours[0])
        random.setstate(ours[1])
        if numpy_random is not None:
            numpy_random.set_state(ours[2])
        for generator, state in own:
            generator.set_state(state)


def _load(loader: Any, batches: int) -> _Seen:
    seen = _Seen()
    iterator = iter(loader)
    workers = list(getattr(iterator, "_workers", []))
    first: dict[int, int] = {}
    try:
        for number, batch in zip(range(batches), iterator, strict=False):
            seen.add(batch)
            _look_at_shm(seen)
            # Each worker has begun by then, and read its first batch or more.
            if number == 0:
                first = _private(workers)
        last = _private(workers)
        known = first.keys() & last.keys()
        if known:
            seen.growth = float(sum(max(0, last[pid] - first[pid]) for pid in known))
            seen.pss = sum(pages[1] for pages in map(_native.private_pages, known) if pages is not None)
    finally:
        if workers:
            iterator._shutdown_workers()
        # With persistent workers the loader keeps its iterator, whose workers are gone.
        loader._iterator = None
    return seen


def _private(workers: list[Any]) -> dict[int, int]:
    """What each worker has written and holds alone: what it has copied or made."""
    found = {worker.pid: _native.private_pages(worker.pid) for worker in workers}
    return {pid: pages[0] for pid, pages in found.items() if pages is not None}


def _look_at_shm(seen: _Seen) -> None:
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError:
        return
    seen.shm_size = float(usage.total)
    seen.shm_peak = max(seen.shm_peak, float(usage.used))


def _pinned(sizes: list[int], batches: int) -> tuple[float, float]:
    """Bytes of the tensors of so many batches, and what torch takes for them: each rounded up to a power of two."""
    rounded = sum(1 << (size - 1).bit_length() for size in sizes if size)
    return float(batches * sum(sizes)), float(batches * rounded)


def _start_method(loader: Any) -> str:
    context = loader.multiprocessing_context
    return str(context.get_start_method() if context is not None else multiprocessing.get_start_method())


def _leaves(batch: Any) -> Iterator[Any]:
    if isinstance(batch, torch.Tensor) or isinstance(batch, (str, bytes)):
        yield batch
    elif hasattr(batch, "values") and callable(batch.values):
        for value in batch.values():
            yield from _leaves(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from _leaves(value)
    else:
        yield batch


def _tensors(batch: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in _leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided)


def _other_bytes(batch: Any) -> int:
    others = (leaf for leaf in _leaves(batch) if not isinstance(leaf, torch.Tensor))
    return sum(len(leaf) if isinstance(leaf, (str, bytes)) else int(getattr(leaf, "nbytes", 0) or 0) for leaf in others)


def _mib(number: float) -> str:
    return f"{number / 2**20:.1f} MiB" if number >= 2**19 else f"{number / 2**10:.1f} KiB"
