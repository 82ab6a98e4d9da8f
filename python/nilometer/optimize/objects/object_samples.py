"""What lives at one moment, by kind."""

from __future__ import annotations

import collections
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...memory.object_counts import count_by_type

# Types, tensors of one shape, containers: how each is called within samples.
Kind = tuple[str, ...]

# Lists and dictionaries from this length on are followed one by one.
_LONG = 64
# Nodes of autograd graphs that are counted at most.
_MOST_NODES = 20_000
_GRAPHS = 16
# Objects and tensors after which there is a moment to give up.
_AT_ONCE = 20_000
_TENSORS_AT_ONCE = 500
_TENSOR_WEIGHT = 20
_CONTAINERS = frozenset((list, dict, set, collections.deque))


@dataclass
class ObjectSample:
    """One look at all tracked objects."""

    step: int
    frozen: int
    counts: dict[Kind, int] = field(default_factory=dict)
    sizes: dict[Kind, int] = field(default_factory=dict)
    """Bytes, where they are known: of tensors."""
    containers: dict[int, int] = field(default_factory=dict)
    """Lengths of long containers by their id. Numbers alone: a program may have many of them."""
    names: dict[int, str] = field(default_factory=dict)
    """Of containers that a variable holds, that variable: it may be given a new one at every epoch."""
    is_whole: bool = True
    """Whether all that it is about was met."""


def take_sample(step: int, goes_on: Callable[[float], bool] = lambda _: True) -> ObjectSample | None:
    """Looks at all objects that the garbage collector tracks and that are not frozen.

    `goes_on` is asked between thousands of them, with the part that is done; None where it gave up.
    """
    sample = ObjectSample(step, gc.get_freeze_count())
    objects = gc.get_objects()
    torch = sys.modules.get("torch")
    # While torch is being imported it has no tensors yet.
    tensor = getattr(torch, "Tensor", None)
    counts: collections.Counter[type] = collections.Counter()
    is_tensor_type: dict[type, bool] = {}
    tensors: list[Any] = []
    for first in range(0, len(objects), _AT_ONCE):
        some = objects[first : first + _AT_ONCE]
        counted = count_by_type(some)
        counts.update(counted)
        for kind in counted.keys() - is_tensor_type.keys():
            is_tensor_type[kind] = tensor in kind.__mro__
        # One pass for both: most of its time is waiting for memory.
        picked = [thing for thing in some if (kind := type(thing)) in _CONTAINERS and len(thing) >= _LONG or is_tensor_type[kind]]
        for thing in picked:
            if is_tensor_type[type(thing)]:
                tensors.append(thing)
            elif thing is not objects and thing is not tensors and (type(thing) is not collections.deque or thing.maxlen is None):
                sample.containers[id(thing)] = len(thing)
        # Tensors are asked for their storage below, which takes as long as some twenty other objects each.
        if not goes_on((first + len(some)) / (len(objects) + _TENSOR_WEIGHT * len(tensors))):
            return None
    for kind, count in counts.items():
        module = kind.__module__ if isinstance(kind.__module__, str) else "?"
        # Nodes of graphs and storages have Python objects where somebody, such as this module, asked for them; they are counted below.
        is_of_tensors = is_tensor_type[kind] or module == "torch.storage" or module == "builtins" and "Backward" in kind.__qualname__
        if not is_of_tensors and not module.startswith("nilometer."):
            sample.counts[("type", module, kind.__qualname__)] = count
    # By their number: a function that held the list would be in it, and both would stay.
    return sample if _add_tensors(sample, tensors, goes_on, len(objects)) else None


def _add_tensors(sample: ObjectSample, tensors: list[Any], goes_on: Callable[[float], bool], counted: int) -> bool:
    if not tensors:
        return True
    # Of views, the largest is said to hold the storage.
    storages: dict[int, tuple[int, int, Kind]] = {}
    graph = []
    for number, tensor in enumerate(tensors, 1):
        if number % _TENSORS_AT_ONCE == 0 and not goes_on((counted + _TENSOR_WEIGHT * number) / (counted + _TENSOR_WEIGHT * len(tensors))):
            return False
        try:
            storage = tensor.untyped_storage()
            key, size, seen = storage._cdata, storage.nbytes(), tensor.nbytes
            kind = tensor_kind(tensor)
        except (NotImplementedError, RuntimeError, AttributeError, ReferenceError):
            continue  # sparse, meta or functional tensors
        if kind[-1]:
            graph.append(tensor)
        sample.counts[kind] = sample.counts.get(kind, 0) + 1
        if key not in storages or storages[key][0] < seen:
            storages[key] = (seen, size, kind)
    for _, size, kind in storages.values():
        sample.sizes[kind] = sample.sizes.get(kind, 0) + size
    sample.counts[("graph",)] = len(graph)
    # Losses, and the newest: torch makes a Python object for each node that is asked for, which lives as long as the node.
    losses = [one for one in graph if one.numel() == 1][-_GRAPHS:]
    sample.counts[("nodes",)] = count_nodes([one.grad_fn for one in losses], _MOST_NODES)
    return True


def tensor_kind(tensor: Any) -> Kind:
    """Tensors of one shape, type and device are one kind, those with a graph apart."""
    shape = "×".join(map(str, tensor.shape)) or "scalar"
    return ("tensor", shape, str(tensor.dtype).removeprefix("torch."), str(tensor.device), "" if tensor.is_leaf else "graph")


def count_nodes(functions: list[Any], most: int) -> int:
    """Nodes of all graphs together, up to a limit."""
    seen = set(functions)
    waiting = list(functions)
    while waiting and len(seen) < most:
        for function, _ in waiting.pop().next_functions:
            if function is not None and function not in seen:
                seen.add(function)
                waiting.append(function)
    return len(seen)
