"""What lives at one moment, by kind, and which kinds go on growing from sample to sample."""

from __future__ import annotations

import collections
import gc
import sys
from array import array
from collections.abc import Set
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
# Growth is established by this many steps from sample to sample, and none of the latest may be missing.
INCREMENTS = 4
_WINDOW = 12
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


def take_sample(step: int) -> ObjectSample:
    """Looks at all objects that the garbage collector tracks and that are not frozen."""
    sample = ObjectSample(step, gc.get_freeze_count())
    objects = gc.get_objects()
    counts = count_by_type(objects)
    torch = sys.modules.get("torch")
    # While torch is being imported it has no tensors yet.
    tensor = getattr(torch, "Tensor", None)
    tensor_types = frozenset(kind for kind in counts if tensor in kind.__mro__)
    for kind, count in counts.items():
        module = kind.__module__ if isinstance(kind.__module__, str) else "?"
        # Nodes of graphs and storages have Python objects where somebody, such as this module, asked for them; they are counted below.
        is_of_tensors = kind in tensor_types or module == "torch.storage" or module == "builtins" and "Backward" in kind.__qualname__
        if not is_of_tensors and not module.startswith("nilometer."):
            sample.counts[("type", module, kind.__qualname__)] = count
    # One pass for both: most of its time is waiting for memory.
    picked = [thing for thing in objects if (kind := type(thing)) in _CONTAINERS and len(thing) >= _LONG or kind in tensor_types]
    for thing in picked:
        if type(thing) in _CONTAINERS and thing is not objects:
            sample.containers[id(thing)] = len(thing)
    _add_tensors(sample, [thing for thing in picked if type(thing) in tensor_types])
    return sample


def _add_tensors(sample: ObjectSample, tensors: list[Any]) -> None:
    if not tensors:
        return
    # Of views, the largest is said to hold the storage.
    storages: dict[int, tuple[int, int, Kind]] = {}
    graph = []
    for tensor in tensors:
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


class GrowthJudge:
    """Follows all kinds over the latest samples.

    Compared are neighbouring samples, so that a cut (objects that were frozen in between) costs one comparison and not all of them.
    What it keeps is a few objects a kind, in arrays: it must not be the growth that it finds.
    """

    def __init__(self) -> None:
        self._before: ObjectSample | None = None
        self._steps = array("q")
        self._more: dict[Kind, array[int]] = {}
        self._more_bytes: dict[Kind, array[int]] = {}
        self._compared = 0

    @property
    def comparisons(self) -> int:
        """How often a sample was compared with the one before it."""
        return self._compared

    @property
    def is_established(self) -> bool:
        """Whether there were enough to tell growth that goes on."""
        return self._compared >= INCREMENTS

    def places(self) -> set[int]:
        """Where that lies which it keeps: not the program's."""
        before = self._before
        kept = () if before is None else (before.counts, before.sizes, before.containers)
        return {id(one) for one in (self._more, self._more_bytes, *kept)}

    def add(self, sample: ObjectSample, ours: Set[int] = frozenset()) -> None:
        """The newest sample. `ours` is where containers lie that are not the program's."""
        ours = self.places() | ours
        before, self._before = self._before, sample
        if before is None or before.frozen != sample.frozen or sample.step <= before.step:
            return
        self._steps.append(sample.step - before.step)
        self._compared += 1
        # Others are forgotten: growth that goes on has no gaps, and addresses are used again.
        grown = [place for place, length in sample.containers.items() if length > before.containers.get(place, length) and place not in ours]
        old = {("container", str(place)): before.containers[place] for place in grown}
        new = {("container", str(place)): sample.containers[place] for place in grown}
        _append(self._more, before.counts | old, sample.counts | new, len(self._steps))
        _append(self._more_bytes, before.sizes, sample.sizes, len(self._steps))
        if len(self._steps) > _WINDOW:
            for increments in (self._steps, *self._more.values(), *self._more_bytes.values()):
                del increments[0]

    def growing(self) -> dict[Kind, tuple[float, float]]:
        """Kinds whose growth goes on, with objects and bytes a step.

        The latest increments are all above zero, and the newer half has not slowed down to less than half of the older: a cache that fills does both, sooner or later.
        """
        found = {}
        for kind, increments in self._more.items():
            # It may have begun within the window; before that it says nothing.
            first = next((index for index, more in enumerate(increments) if more > 0), len(increments))
            rates = [more / steps for more, steps in zip(increments[first:], self._steps[first:], strict=True)]
            if len(rates) < INCREMENTS or min(rates[-INCREMENTS:]) <= 0 or sum(rate > 0 for rate in rates) < 0.8 * len(rates):
                continue
            half = len(rates) // 2
            if sum(rates[-half:]) < 0.5 * sum(rates[:half]):
                continue
            total = sum(self._steps[first:])
            sizes = self._more_bytes.get(kind)
            found[kind] = (sum(increments[first:]) / total, 0.0 if sizes is None else sum(sizes[first:]) / total)
        return found


def _append(kept: dict[Kind, array[int]], before: dict[Kind, int], now: dict[Kind, int], length: int) -> None:
    for kind in [kind for kind in kept if kind not in now]:
        del kept[kind]
    for kind, level in now.items():
        increments = kept.get(kind)
        if increments is None:
            increments = kept[kind] = array("q", bytes(8 * (length - 1)))
        increments.append(level - before.get(kind, 0))
