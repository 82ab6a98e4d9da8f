"""Who holds an object: the shortest way to it from a variable of a function that runs, or of a module.

The search goes from the variables down, not up from the object: it needs no list of all objects, and finds frozen ones too.
Of long lists and dictionaries only the newest entries are looked at, where what accumulates lies.
"""

from __future__ import annotations

import collections
import gc
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LIBRARIES = tuple({sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_NEWEST = 64
_ENOUGH = 8
_DEEPEST = 8
_MOST_VISITED = 20_000
_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function's frame, whose variables have no dictionary of their own
_PLAIN = frozenset((int, float, complex, str, bytes, bytearray, bool, type(None), range, slice))


def find_holders(groups: list[list[Any]]) -> dict[int, tuple[str, str]]:
    """By the id of an object: where it lies, such as `train.py: history[-1]`, and the container there, such as `train.py: history (list)`.

    Of each group of objects a few are found.
    """
    group_of = {id(target): number for number, group in enumerate(groups) for target in group}
    wanted = _Wanted(group_of, len(groups))
    # The caller's lists of targets are no answer.
    seen: set[int] = {id(sys.modules), id(groups), *map(id, groups)}
    waiting: collections.deque[tuple[Any, str, str, int]] = collections.deque()
    visited = 0
    # The program's own variables first, then those of libraries.
    for is_library in (False, True):
        roots = [*_frame_variables(is_library), *_module_variables(is_library)]
        for place, name, value in roots:
            _meet(value, f"{place}: {name}", place, 0, wanted, seen, waiting)
        while waiting and wanted.is_open and visited < _MOST_VISITED:
            thing, path, _, depth = waiting.popleft()
            visited += 1
            for step, value in _parts(thing):
                _meet(value, path + step, f"{path} ({type(thing).__name__})", depth + 1, wanted, seen, waiting)
        if not wanted.is_open:
            break
        waiting.clear()
    return wanted.found


class _Wanted:
    """Objects that are looked for, in groups of which a few are enough: a longer search would look into more objects than it has to."""

    def __init__(self, group_of: dict[int, int], groups: int) -> None:
        self.found: dict[int, tuple[str, str]] = {}
        self._group_of = group_of
        sizes = collections.Counter(group_of.values())
        self._missing = [min(_ENOUGH, sizes[number]) for number in range(groups)]

    @property
    def is_open(self) -> bool:
        return any(self._missing)

    def meet(self, key: int, path: str, holder: str) -> None:
        group = self._group_of.get(key)
        if group is not None and self._missing[group]:
            self._missing[group] -= 1
            self.found[key] = (path, holder)


def is_ours(kind: type) -> bool:
    """Whether it is a type of this package: what that keeps is not the program's."""
    return isinstance(kind.__module__, str) and kind.__module__.startswith("nilometer.")


def _meet(value: Any, path: str, holder: str, depth: int, wanted: _Wanted, seen: set[int], waiting: Any) -> None:
    key = id(value)
    # By `type` itself: a proxy would be asked, and may refuse.
    kind = type(value)
    # Modules are where the search begins.
    if key in seen or kind in _PLAIN or is_ours(kind) or issubclass(kind, types.ModuleType):
        return
    seen.add(key)
    wanted.meet(key, path, holder)
    if depth < _DEEPEST:
        waiting.append((value, path, holder, depth))


def _frame_variables(is_library: bool) -> list[tuple[str, str, Any]]:
    """Variables of all functions that run, in all threads; those of this package are left out."""
    found = []
    frames = list(sys._current_frames().values())
    while frames:
        frame = frames.pop()
        code = frame.f_code
        if code.co_flags & _OPTIMIZED and _is_library(code.co_filename) == is_library:
            place = f"{os.path.basename(code.co_filename)} {code.co_name}()"
            found += [(place, name, value) for name, value in _variables(frame)]
        if frame.f_back is not None:
            frames.append(frame.f_back)
        # Our own frame is among them: a variable that stays would be a cycle that holds everything found.
        del frame
    return found


def _variables(frame: types.FrameType) -> list[tuple[str, Any]]:
    copied = frame.f_locals
    variables = list(copied.items())
    if sys.version_info < (3, 13) and sys.gettrace() is None:
        # Before Python 3.13 this is a copy that lives as long as the frame, and would keep all of it alive.
        copied.clear()
    return variables


def _module_variables(is_library: bool) -> Iterator[tuple[str, str, Any]]:
    for module in list(sys.modules.values()):
        if isinstance(module, types.ModuleType):
            file = getattr(module, "__file__", None)
            # A notebook, or a program given by `-c`, has no file.
            without = "<stdin>" if module.__name__ == "__main__" else "<frozen>"
            if _is_library(file if isinstance(file, str) else without) == is_library:
                for name, value in list(vars(module).items()):
                    yield os.path.basename(file or "") or module.__name__, name, value


def _is_library(file: str) -> bool | None:
    """None for files of this package, whose variables are nobody's business."""
    if file.startswith(_PACKAGE):
        return None
    return file.startswith(_LIBRARIES) or file.startswith("<frozen")


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, with how a program would write it."""
    kind = type(thing)
    if kind in (list, tuple, collections.deque):
        newest = [thing[-number] for number in range(1, min(len(thing), _NEWEST) + 1)]
        yield from ((f"[-{number}]", value) for number, value in enumerate(newest, 1))
    elif issubclass(kind, dict):
        for key in list(_newest_keys(thing)):
            yield f"[{key!r:.40}]" if type(key) in _PLAIN else "[…]", dict.get(thing, key)
    elif kind is types.FunctionType:
        for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=False):
            yield f" ▸ {name}", cell
        yield ".__dict__", thing.__dict__
        yield from (("(default)", value) for value in thing.__defaults__ or ())
    elif kind is types.CellType:
        try:
            yield "", thing.cell_contents
        except ValueError:
            return  # not set yet
    elif issubclass(kind, type):
        yield from ((f".{name}", value) for name, value in list(vars(thing).items()) if type(value) is not types.FunctionType)
    else:
        own = _own_attributes(thing)
        yield from ((f".{name}", value) for name, value in own.items())
        known = {id(value) for value in own.values()} | {id(own)}
        others = gc.get_referents(thing)[-_NEWEST:]
        yield from ((" ▸", value) for value in others if id(value) not in known and not issubclass(type(value), (type, types.ModuleType)))


def _newest_keys(thing: dict[Any, Any]) -> Iterator[Any]:
    keys = dict.__reversed__(thing)
    for _ in range(_NEWEST):
        try:
            yield next(keys)
        except (StopIteration, RuntimeError):
            return  # its end, or another thread changes it


def _own_attributes(thing: Any) -> dict[str, Any]:
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}
