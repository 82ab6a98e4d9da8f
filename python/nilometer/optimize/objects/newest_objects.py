"""The newest objects of kinds that grow, and where one was allocated."""

from __future__ import annotations

import collections
import contextlib
import gc
import os
import sys
import tracemalloc
from typing import Any

from .object_samples import Kind, tensor_kind
from .program_objects import find_containers, newest_entries

# Objects of a growing kind whose sizes and holders are looked at.
_LOOKED_AT = 256
_OUR_FILES = os.path.dirname(os.path.dirname(__file__)) + os.sep


def newest_of(kinds: set[Kind]) -> dict[Kind, list[Any]]:
    """The newest objects of each kind; of a container, that itself. The collector's lists are in the order of age but for what a collection moved within them, so many are taken."""
    containers = {int(kind[1]): kind for kind in kinds if kind[0] == "container"}
    found: dict[Kind, list[Any]] = {containers[place]: [thing] for place, thing in find_containers(set(containers)).items()}
    kinds = kinds - found.keys()
    if not kinds:
        return found
    types = {(kind[1], kind[2]) for kind in kinds if kind[0] == "type"}
    has_tensors = any(kind[0] == "tensor" for kind in kinds)
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    newest: dict[Kind, collections.deque[Any]] = {}
    for generation in (2, 1, 0):
        for thing in gc.get_objects(generation=generation):
            kind = type(thing)
            if (kind.__module__, kind.__qualname__) in types:
                newest.setdefault(("type", kind.__module__, kind.__qualname__), collections.deque(maxlen=_LOOKED_AT)).append(thing)
            if containers.get(id(thing)) in kinds:
                newest.setdefault(containers[id(thing)], collections.deque(maxlen=1)).append(thing)
            if has_tensors and tensor in kind.__mro__:
                with contextlib.suppress(NotImplementedError, RuntimeError, ReferenceError):
                    named = tensor_kind(thing)
                    if named in kinds:
                        newest.setdefault(named, collections.deque(maxlen=_LOOKED_AT)).append(thing)
    return found | {kind: list(objects) for kind, objects in newest.items()}


def add_tensors_of_containers(growing: dict[Kind, tuple[float, float]], newest: dict[Kind, list[Any]]) -> None:
    """A list that grows by tensors, or by tuples and dictionaries of them, is as many tensors more: they take its place, where all objects were not counted often enough to tell."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    if tensor is None:
        return
    known = set(growing)
    for kind in [kind for kind in growing if kind[0] == "container" and newest.get(kind)]:
        entries = newest_entries(newest[kind][0])
        of_newest = [part for part in _entry_and_parts(entries[0]) if tensor in type(part).__mro__] if entries else []
        for one in of_newest:
            with contextlib.suppress(NotImplementedError, RuntimeError, ReferenceError, AttributeError):
                named, size = tensor_kind(one), one.untyped_storage().nbytes()
                if named not in known:
                    count, rate = growing[kind][0], growing.get(named, (0.0, 0.0))
                    # Several containers may hold the same ones.
                    if all(one is not other for other in newest.get(named, ())):
                        growing[named] = (rate[0] + count, rate[1] + count * size)
                        alike = [part for entry in reversed(entries) for part in _entry_and_parts(entry) if tensor in type(part).__mro__ and tensor_kind(part) == named]
                        newest[named] = newest.get(named, []) + alike
        if of_newest and of_newest[0] is entries[0]:
            del growing[kind], newest[kind]


def _entry_and_parts(entry: Any) -> list[Any]:
    if type(entry) in (list, dict):
        return newest_entries(entry)
    return list(entry[:8]) if type(entry) is tuple else [entry]


def line_of(thing: Any) -> str | None:
    """Where it was allocated, while that is traced."""
    trace = tracemalloc.get_object_traceback(thing)
    if trace is None:
        # Python 3.11 does not find instances; what one holds was made beside it.
        own = [part for part in gc.get_referents(thing)[:8] if type(part) in (dict, list, bytes, bytearray, str)]
        trace = next(filter(None, map(tracemalloc.get_object_traceback, own)), None)
    frames = [frame for frame in trace or () if not frame.filename.startswith(_OUR_FILES)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
