"""Who holds an object: the shortest way to it from a variable of a function that runs, or of a module.

The search goes from the variables down, not up from the object: it needs no list of all objects, and finds frozen ones too.
Of long lists and dictionaries only the newest entries are looked at, where what accumulates lies.
"""

from __future__ import annotations

import collections
import sys
import types
from typing import Any, NamedTuple

from .known_bounds import is_bounded, is_long
from .program_variables import PLAIN, frame_variables, is_ours, module_variables, parts_of

_ENOUGH = 8
_DEEPEST = 8
_MOST_VISITED = 20_000


class Holder(NamedTuple):
    path: str
    """Where an object lies, such as `train.py: history[-1]`."""
    container: str
    """What holds it there, such as `train.py: history (list)`."""
    is_bounded: bool
    """Whether what holds it, or the object itself where that is a container, takes a known number of entries."""


def find_holders(groups: list[list[Any]]) -> dict[int, Holder]:
    """By the id of an object, who holds it.

    Of each group of objects a few are found.
    """
    group_of = {id(target): number for number, group in enumerate(groups) for target in group}
    wanted = _Wanted(group_of, len(groups))
    # The caller's lists of targets are no answer.
    seen: set[int] = {id(sys.modules), id(groups), *map(id, groups)}
    waiting: collections.deque[tuple[Any, str, bool, int]] = collections.deque()
    visited = 0
    # The program's own variables first, then those of libraries.
    for is_library in (False, True):
        roots = [*frame_variables(is_library), *module_variables(is_library)]
        for place, name, value in roots:
            _meet(value, Holder(f"{place}: {name}", place, is_bounded(value, None)), 0, wanted, seen, waiting)
        while waiting and wanted.is_open and visited < _MOST_VISITED:
            thing, path, is_of_bounded, depth = waiting.popleft()
            visited += 1
            for step, value in parts_of(thing):
                # What an entry consists of is as many as there are entries; a long container within one is not.
                is_full_some_day = is_bounded(value, thing) or is_of_bounded and not is_long(value)
                _meet(value, Holder(path + step, f"{path} ({type(thing).__name__})", is_full_some_day), depth + 1, wanted, seen, waiting)
        if not wanted.is_open:
            break
        waiting.clear()
    return wanted.found


class _Wanted:
    """Objects that are looked for, in groups of which a few are enough: a longer search would look into more objects than it has to."""

    def __init__(self, group_of: dict[int, int], groups: int) -> None:
        self.found: dict[int, Holder] = {}
        self._group_of = group_of
        sizes = collections.Counter(group_of.values())
        self._missing = [min(_ENOUGH, sizes[number]) for number in range(groups)]

    @property
    def is_open(self) -> bool:
        return any(self._missing)

    def meet(self, key: int, holder: Holder) -> None:
        group = self._group_of.get(key)
        if group is not None and self._missing[group]:
            self._missing[group] -= 1
            self.found[key] = holder


def _meet(value: Any, holder: Holder, depth: int, wanted: _Wanted, seen: set[int], waiting: Any) -> None:
    key = id(value)
    # By `type` itself: a proxy would be asked, and may refuse.
    kind = type(value)
    # Modules are where the search begins.
    if key in seen or kind in PLAIN or is_ours(kind) or issubclass(kind, types.ModuleType):
        return
    seen.add(key)
    wanted.meet(key, holder)
    if depth < _DEEPEST:
        waiting.append((value, holder.path, holder.is_bounded, depth))
