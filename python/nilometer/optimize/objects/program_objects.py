"""A short walk over what the program itself holds: from its variables down, the nearest first.

It takes milliseconds where a list of all objects takes a quarter of a second (torch and transformers: 440,000 of them),
and meets what that list does not have: frozen containers, and dictionaries of numbers and texts.
"""

from __future__ import annotations

import collections
import gc
import itertools
import sys
import types
from collections.abc import Iterator
from typing import Any

from .known_bounds import is_bounded
from .object_samples import ObjectSample, count_nodes
from .program_variables import PLAIN, frame_variables, is_of_program, is_ours, module_variables

# Empty containers, of which a module of torch has a dozen, do not count.
MOST_MET = 10_000
# A layer of a model lies a dozen below the variable that holds the model.
_DEEPEST = 32
# Of a list the newest entries are followed, of everything else so many parts.
_NEWEST = 8
_MOST_PARTS = 64
_GRAPHS = 16
_MOST_NODES = 5_000
_CONTAINERS = frozenset((list, dict, set, collections.deque))
_NOT_FOLLOWED = (types.ModuleType, types.CodeType, types.FrameType, types.BuiltinFunctionType)
# How a type is followed: not at all, as a tensor, an object, or by this built-in type.
_NO, _TENSOR, _OBJECT, _FUNCTION, _CLASS = "no", "tensor", "object", "function", "class"


class ProgramWalk:
    """Objects that variables of the program lead to, each once: those of its functions and modules, then those of functions of libraries that run."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        """Of what a variable holds directly: place and name of the variable."""
        self.is_whole = True
        """Whether it met everything near enough, and not only the nearest of too many objects."""
        self._ways: dict[type, Any] = {}
        self._tensor = getattr(sys.modules.get("torch"), "Tensor", None)

    def objects(self) -> Iterator[tuple[Any, Any]]:
        """Each with the way in which its type is followed: a built-in type, or one of the words above."""
        level = self._variables()
        seen: set[int] = {id(sys.modules), id(self.names), id(self._ways)}
        ways, met = self._ways, 0
        for _ in range(_DEEPEST):
            below: list[Any] = []
            for thing in level:
                kind = type(thing)
                way = ways.get(kind)
                if way is None:
                    way = ways[kind] = self._way_of(kind)
                key = id(thing)
                if way is _NO or key in seen:
                    continue
                seen.add(key)
                yield thing, way
                if way in _CONTAINERS and not way.__len__(thing):
                    continue
                met += 1
                if met > MOST_MET:
                    self.is_whole = False
                    return
                below += _parts(thing, way)
            level = below

    def _variables(self) -> list[Any]:
        roots = [*frame_variables(False), *module_variables(False), *frame_variables(True)]
        for place, name, value in reversed(roots):
            self.names[id(value)] = f"{place}: {name}"
        return [value for _, _, value in roots]

    def _way_of(self, kind: type) -> Any:
        if kind in PLAIN or is_ours(kind) or issubclass(kind, _NOT_FOLLOWED):
            return _NO
        base = _base_of(kind)
        if base is not None:
            return base
        if kind is types.FunctionType:
            return _FUNCTION
        if issubclass(kind, type):
            return _CLASS
        return _TENSOR if self._tensor in kind.__mro__ else _OBJECT


def look_at_program(step: int) -> ObjectSample:
    """Lengths of the program's containers, and how many operations the graphs of its losses have."""
    # What is frozen is met all the same.
    sample = ObjectSample(step, frozen=0)
    functions: list[Any] = []
    walk = ProgramWalk()
    for thing, way in walk.objects():
        if way in _CONTAINERS:
            # One that drops its oldest entry for a new one fills, and stops.
            if way is not collections.deque or not is_bounded(thing, None):
                sample.containers[id(thing)] = way.__len__(thing)
        elif way is _TENSOR and len(functions) < _GRAPHS and thing.grad_fn is not None and thing.numel() == 1:
            functions.append(thing.grad_fn)
    sample.is_whole = walk.is_whole
    sample.names = {place: walk.names[place] for place in walk.names.keys() & sample.containers.keys()}
    sample.counts[("nodes",)] = count_nodes(functions, _MOST_NODES)
    return sample


def find_containers(places: set[int]) -> dict[int, Any]:
    """Those containers of the program that lie there."""
    return {id(thing): thing for thing, way in ProgramWalk().objects() if id(thing) in places and way in _CONTAINERS} if places else {}


def newest_entries(container: Any, most: int = _NEWEST) -> list[Any]:
    """The newest first; of a set, any. Asks the built-in type, not one that is derived from it."""
    return _newest(container, _base_of(type(container)), most)


def _newest(container: Any, base: Any, most: int) -> list[Any]:
    entries = dict.values(container) if base is dict else container
    try:
        ways = iter(set.__iter__(container)) if base is set else reversed(entries) if base is dict else base.__reversed__(entries)
        return list(itertools.islice(ways, most))
    except RuntimeError:
        return []  # another thread changes it


def _base_of(kind: type) -> Any:
    return next((base for base in kind.__mro__ if base in _CONTAINERS or base is tuple), None)


def _parts(thing: Any, way: Any) -> list[Any]:
    if way is _OBJECT:
        return [part for part in gc.get_referents(thing)[:_MOST_PARTS] if not issubclass(type(part), type)]
    if way is _TENSOR:
        return []
    if way is dict:
        # Attributes and settings are followed all of them.
        return _newest(thing, dict, _MOST_PARTS if dict.__len__(thing) <= _MOST_PARTS else _NEWEST)
    if way in _CONTAINERS:
        return _newest(thing, way, _NEWEST)
    if way is tuple:
        return list(tuple.__getitem__(thing, slice(-_NEWEST, None)))
    if way is _FUNCTION:
        return [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
    return [value for value in vars(thing).values() if type(value) is not types.FunctionType] if is_of_program(thing.__module__) else []
