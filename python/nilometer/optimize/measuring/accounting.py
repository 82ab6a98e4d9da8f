"""How much memory tensors hold: by the CUDA allocator on a GPU, by counting storages everywhere else."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..._trouble import byte_count
from ..byte_words import in_bytes


class Meter(Protocol):
    """Bytes held now and at most, between entering and leaving it."""

    @property
    def level(self) -> int: ...
    @property
    def peak(self) -> int: ...
    def reset_peak(self) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *exception: object) -> Any: ...


class TensorLimitReached(torch.OutOfMemoryError):
    """An operation passed the `limit_bytes` of a `TensorMeter`. Whoever handles a full GPU handles this too; no GPU ran out."""


class TensorMeter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of every tensor storage that is made while it is entered, and of those that were adopted.

    Each storage counts once, from the operation that made it until nobody holds it: exact to the byte, without rounding by an allocator.
    What a kernel uses inside of one operation is not seen.
    With `limit_bytes`, an operation that passes it raises `TensorLimitReached`, a `torch.OutOfMemoryError` as a full GPU raises it.

    >>> with TensorMeter() as meter:
    ...     x = torch.zeros(1024)
    ...     y = x.view(32, 32)
    >>> meter.level, meter.peak
    (4096, 4096)
    """

    def __init__(self, *, limit_bytes: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.limit_bytes = None if limit_bytes is None else byte_count(limit_bytes, "limit_bytes")
        self.level = 0
        self.peak = 0
        self.refusal = ""
        """What the limit said last: TorchScript hands an exception on without its type and words."""
        self._live: dict[int, tuple[weakref.ref[Any], int]] = {}

    def adopt(self, *trees: Any) -> None:
        """Counts tensors that exist already: parameters, gradients, optimizer state, a batch."""
        for leaf in tree_leaves(trees):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf)

    def reset_peak(self) -> None:
        """The highest level counts from here on."""
        self.peak = self.level

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        before = self.level
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf)
        if self.limit_bytes is not None and self.level > self.limit_bytes and self.level > before:
            asked = self.level - before
            # A GPU that is full does not make the tensor either.
            leaf = result = None
            self.refusal = f"out of memory: tried to allocate {in_bytes(asked)}; {in_bytes(before)} of {in_bytes(self.limit_bytes)} are in use"
            raise TensorLimitReached(self.refusal)
        return result

    def _count(self, tensor: torch.Tensor) -> None:
        try:
            storage = tensor.untyped_storage()
        except (NotImplementedError, RuntimeError):
            return  # sparse tensors and wrappers have no storage of their own
        key, size = storage._cdata, storage.nbytes()
        known = self._live.get(key)
        if known is not None:
            if known[1] != size:
                self._live[key] = (known[0], size)
                self._add(size - known[1])
            return
        self._live[key] = (weakref.ref(storage, lambda _, key=key: self._forget(key)), size)  # type: ignore[misc]
        self._add(size)

    def _forget(self, key: int) -> None:
        known = self._live.pop(key, None)
        if known is not None:
            self.level -= known[1]

    def _add(self, size: int) -> None:
        self.level += size
        self.peak = max(self.peak, self.level)


class CudaMeter:
    """The CUDA allocator's own figures: bytes of tensors on the device, whoever made them."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @property
    def level(self) -> int:
        return torch.cuda.memory_allocated(self._device)

    @property
    def peak(self) -> int:
        return torch.cuda.max_memory_allocated(self._device)

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)

    def __enter__(self) -> CudaMeter:
        torch.cuda.synchronize(self._device)
        self.reset_peak()
        return self

    def __exit__(self, *exception: object) -> None:
        torch.cuda.synchronize(self._device)


def meter_for(device: torch.device, held: Iterable[Any] = ()) -> TensorMeter | CudaMeter:
    """The meter of a device. `held` are tensors that count although they exist already; the CUDA allocator knows them."""
    if device.type == "cuda":
        return CudaMeter(device)
    meter = TensorMeter()
    meter.adopt(*held)
    return meter


def device_of(model: torch.nn.Module) -> torch.device:
    """Where a model computes: the device of its first parameter or buffer."""
    for tensor in (*model.parameters(), *model.buffers()):
        return tensor.device
    return torch.device("cpu")


def tensor_bytes(*trees: Any) -> int:
    """Bytes of the storages behind all tensors, each storage once."""
    meter = TensorMeter()
    meter.adopt(*trees)
    return meter.level
