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

from .object_samples import ObjectSample, count_nodes
from .program_variables import PLAIN, frame_variables, is_of_program, is_ours, module_variables

_MOST_MET = 5_000
_DEEPEST = 12
# Of a list the newest entries are followed, of everything else so many parts.
_NEWEST = 8
_MOST_PARTS = 64
_GRAPHS = 16
_MOST_NODES = 5_000
_CONTAINERS = frozenset((list, dict, set, collections.deque))


def program_objects() -> Iterator[Any]:
    """Objects that variables of the program lead to, each once: those of its functions and modules, then those of functions of libraries that run."""
    roots = [*frame_variables(False), *module_variables(False), *frame_variables(True)]
    level = [value for _, _, value in roots]
    del roots
    seen: set[int] = {id(sys.modules)}
    is_followed: dict[type, bool] = {}
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for thing in level:
            kind = type(thing)
            if kind not in is_followed:
                is_followed[kind] = _is_followed(kind)
            if not is_followed[kind] or id(thing) in seen:
                continue
            if len(seen) > _MOST_MET:
                return
            seen.add(id(thing))
            yield thing
            below += _parts(thing, kind)
        level = below


def look_at_program(step: int) -> ObjectSample:
    """Lengths of the program's containers, and how many operations the graphs of its losses have."""
    # What is frozen is met all the same.
    sample = ObjectSample(step, frozen=0)
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    functions: list[Any] = []
    bases: dict[type, Any] = {}
    for thing in program_objects():
        kind = type(thing)
        if kind not in bases:
            bases[kind] = _base_of(kind)
        base = bases[kind]
        if base in _CONTAINERS:
            sample.containers[id(thing)] = base.__len__(thing)
        elif tensor in kind.__mro__ and len(functions) < _GRAPHS and thing.grad_fn is not None and thing.numel() == 1:
            functions.append(thing.grad_fn)
    sample.counts[("nodes",)] = count_nodes(functions, _MOST_NODES)
    return sample


def find_containers(places: set[int]) -> dict[int, Any]:
    """Those containers of the program that lie there."""
    return {id(thing): thing for thing in program_objects() if id(thing) in places and _base_of(type(thing)) in _CONTAINERS} if places else {}


def newest_entries(container: Any, most: int = _NEWEST) -> list[Any]:
    """The newest first; of a set, any. Asks the built-in type, not one that is derived from it."""
    base: Any = _base_of(type(container))
    entries = dict.values(container) if base is dict else container
    try:
        ways = iter(set.__iter__(container)) if base is set else reversed(entries) if base is dict else base.__reversed__(entries)
        return list(itertools.islice(ways, most))
    except RuntimeError:
        return []  # another thread changes it


def _base_of(kind: type) -> Any:
    return next((base for base in kind.__mro__ if base in _CONTAINERS or base is tuple), None)


def _is_followed(kind: type) -> bool:
    return kind not in PLAIN and not is_ours(kind) and not issubclass(kind, (types.ModuleType, types.CodeType, types.FrameType, types.BuiltinFunctionType))


def _parts(thing: Any, kind: type) -> list[Any]:
    base = _base_of(kind)
    if base is tuple:
        return list(tuple.__getitem__(thing, slice(-_NEWEST, None)))
    if base is dict:
        # Attributes and settings are followed all of them.
        return newest_entries(thing, _MOST_PARTS if dict.__len__(thing) <= _MOST_PARTS else _NEWEST)
    if base is not None:
        return newest_entries(thing)
    if kind is types.FunctionType:
        return [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
    if issubclass(kind, type):
        return [value for value in vars(thing).values() if type(value) is not types.FunctionType] if is_of_program(thing.__module__) else []
    if getattr(sys.modules.get("torch"), "Tensor", None) in kind.__mro__:
        return []
    return [part for part in gc.get_referents(thing)[:_MOST_PARTS] if not issubclass(type(part), type)]
