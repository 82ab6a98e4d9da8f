"""Where a program keeps what it keeps: the variables of functions that run and of modules, and what an object holds."""

from __future__ import annotations

import collections
import gc
import os
import sys
import types
from collections.abc import Iterator
from typing import Any

from ..._library_files import is_library_file
from .known_bounds import stored_attributes

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep
_NEWEST = 64
_OPTIMIZED = 0x1  # CO_OPTIMIZED: a function's frame, whose variables have no dictionary of their own
# References to a copy of a frame's variables that are ours: the frame's, a variable's and an argument's.
_OWN_REFERENCES = 3
PLAIN = frozenset((int, float, complex, str, bytes, bytearray, bool, type(None), range, slice))
"""Types that hold no other objects."""
_module_origins: dict[str, bool | None] = {}
_program_modules: tuple[int, list[str]] = (0, [])


def is_ours(kind: type) -> bool:
    """Whether it is a type of this package: what that keeps is not the program's."""
    return isinstance(kind.__module__, str) and kind.__module__.startswith("nilometer.")


def frame_variables(is_library: bool) -> list[tuple[str, str, Any]]:
    """Place, name and value of the variables of all functions that run, in all threads; those of this package are left out."""
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
    if sys.version_info < (3, 13) and sys.gettrace() is None and sys.getrefcount(copied) <= _OWN_REFERENCES:
        # Before Python 3.13 this is a copy that lives as long as the frame, and would keep all of it alive. One that the program took by `locals()` is its own.
        copied.clear()
    return variables


def is_of_program(module: Any) -> bool:
    """Whether the module of this name is the program's, not one of a library or of this package."""
    return isinstance(module, str) and module in sys.modules and _is_library_module(module) is False


def module_variables(is_library: bool) -> Iterator[tuple[str, str, Any]]:
    """Place, name and value of the variables of all modules that are of libraries, or are not."""
    for key in list(sys.modules) if is_library else _modules_of_program():
        module = sys.modules.get(key)
        if isinstance(module, types.ModuleType) and _is_library_module(key) == is_library:
            file = getattr(module, "__file__", None)
            for name, value in list(vars(module).items()):
                yield os.path.basename(file or "") or module.__name__, name, value


def _modules_of_program() -> list[str]:
    """Among thousands of modules the program's are few: they are looked for again where their number changed."""
    global _program_modules
    names = list(sys.modules)
    if len(names) != _program_modules[0]:
        _program_modules = (len(names), [name for name in names if _is_library_module(name) is False])
    return _program_modules[1]


def _is_library_module(name: str) -> bool | None:
    """Asked once for each: a program may have thousands."""
    if name not in _module_origins:
        file = _file_of(name)
        if not os.path.isabs(file or "") and "." in name:
            # Made by a library, such as torch.ops, and not from a file of that name.
            file = _file_of(name.partition(".")[0]) or file
        # A notebook, or a program given by `-c`, has no file.
        without = "<stdin>" if name == "__main__" else "<frozen>"
        _module_origins[name] = _is_library(without if file is None else file)
    return _module_origins[name]


def _file_of(name: str) -> str | None:
    # As it is stored: a module that loads itself when asked is not asked.
    module = sys.modules.get(name)
    file = vars(module).get("__file__") if isinstance(module, types.ModuleType) else None
    return file if isinstance(file, str) else None


def _is_library(file: str) -> bool | None:
    """None for files of this package, whose variables are nobody's business."""
    if file.startswith(_PACKAGE):
        return None
    return is_library_file(file)


def parts_of(thing: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, with how a program would write it."""
    kind = type(thing)
    if kind in (list, tuple, collections.deque):
        newest = [thing[-number] for number in range(1, min(len(thing), _NEWEST) + 1)]
        yield from ((f"[-{number}]", value) for number, value in enumerate(newest, 1))
    elif issubclass(kind, dict):
        for key in list(_newest_keys(thing)):
            yield f"[{key!r:.40}]" if type(key) in PLAIN else "[…]", dict.get(thing, key)
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
        own = stored_attributes(thing)
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
