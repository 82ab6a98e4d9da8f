"""Settings (hyperparameters) as they are stored: flat, with their types and their full length."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace

from ._trouble import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A record of the run file holds a megabyte.
_MOST_CHARS = 200_000
_MOST_DEPTH = 16
# The key of a number that JSON cannot hold, in an object of its own: `{"$number": "NaN"}`.
_NUMBER = "$number"
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_LONGEST_DECIMAL_BITS = 2_000


def as_mapping(values: Any) -> Mapping[Any, Any]:
    """A dictionary, a namespace or a dataclass, as a dictionary."""
    if values is None:
        return {}
    nested = _as_nested(values)
    if nested is not None:
        return nested
    try:
        return dict(vars(values))
    except Exception:  # noqa: BLE001 - without attributes, or with some that cannot be asked for
        pass
    report(f"config must be a dictionary, a namespace or a dataclass, not {type(values).__name__}")
    return {}


def _as_nested(value: Any) -> Mapping[Any, Any] | None:
    """What is flattened where it lies inside other settings; many other objects have attributes too, and are their text."""
    if isinstance(value, Mapping):
        return value
    fields = getattr(type(value), "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name) for name in fields if hasattr(value, name)}
    # Looked up, not imported: a program without argparse has no such namespace.
    argparse = sys.modules.get("argparse")
    if isinstance(value, SimpleNamespace) or argparse is not None and isinstance(value, argparse.Namespace):
        return dict(vars(value))
    return None


def config_events(*parts: Mapping[Any, Any]) -> Iterator[str]:
    """JSON objects that together hold all settings; nested ones are flattened with `/`."""
    flat: dict[str, str] = {}
    for part in parts:
        own: dict[str, str] = {}
        _flatten(part, "", own, 0)
        flat.update(own)
    event: list[str] = []
    size = 0
    for name, value in flat.items():
        entry = f"{json.dumps(name)}: {value}"
        if event and size + len(entry) > _MOST_CHARS:
            yield "{" + ", ".join(event) + "}"
            event, size = [], 0
        event.append(entry)
        size += len(entry)
    if event:
        yield "{" + ", ".join(event) + "}"


def _items(values: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """What a mapping holds; some, as OmegaConf's, raise for a single value that is missing."""
    for key in values:
        try:
            value = values[key]
        except Exception as error:  # noqa: BLE001 - training is worth more than its record
            value = f"<without a value: {type(error).__name__}>"
        yield key, value


def _flatten(values: Mapping[Any, Any], prefix: str, flat: dict[str, str], depth: int) -> None:
    for key, value in _items(values):
        name = _text(f"{prefix}/{key}" if prefix else str(key))
        nested = _as_nested(value) if depth < _MOST_DEPTH else None
        if nested:
            _flatten(nested, name, flat, depth + 1)
            continue
        text = json.dumps(_plain(value, 0))
        if len(text) > _MOST_CHARS:
            report(f"config: {name!r} is longer than {_MOST_CHARS} characters; the rest of it is left out")
            text = json.dumps(_text(str(value))[: _MOST_CHARS // 12])
        flat[_free_name(name, flat)] = text


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    """The name, or one beside it: `{"a": {"b": 1}, "a/b": 2}` and `{1: "x", "1": "y"}` have one name for two settings."""
    if name not in taken:
        return name
    number = 2
    while f"{name} ({number})" in taken:
        number += 1
    free = f"{name} ({number})"
    report(f"config: two settings are called {name!r}; the second is stored as {free!r}. Rename one of them.")
    return free


def _is_list(value: Any) -> bool:
    """Lists of other libraries too; what is a sequence of something else, as bytes, is its text."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return True
    return isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview, range))


def _plain(value: Any, depth: int) -> Any:
    """What JSON has a type for keeps it, and so do numbers that it cannot hold; everything else is its text."""
    if value is None or isinstance(value, (bool, int)) and -(1 << 63) <= value < 1 << 64:
        return value
    if isinstance(value, int):
        # In base 16, since Python refuses to write long numbers in base 10.
        return {_NUMBER: hex(value) if value.bit_length() > _LONGEST_DECIMAL_BITS else str(int(value))}
    if isinstance(value, float):
        return value if math.isfinite(value) else {_NUMBER: _NOT_FINITE[str(float(value))]}
    if isinstance(value, str):
        return _text(value)
    if _is_list(value) and depth < _MOST_DEPTH:
        with contextlib.suppress(Exception):
            return [_plain(item, depth + 1) for item in value]
    nested = _as_nested(value) if depth < _MOST_DEPTH else None
    if nested is not None:
        plain: dict[str, Any] = {}
        for key, item in _items(nested):
            plain[_free_name(_text(str(key)), plain)] = _plain(item, depth + 1)
        return plain
    # Scalars of numpy and torch.
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        try:
            return _plain(item(), depth + 1)
        except (TypeError, ValueError, RuntimeError):
            pass
    try:
        return _text(str(value))
    except Exception as error:  # noqa: BLE001 - training is worth more than its record
        return f"<{type(value).__name__} without a text: {type(error).__name__}>"


def loads(text: str) -> dict[str, Any]:
    """Settings as they were given."""
    settings: dict[str, Any] = json.loads(text, object_hook=_as_given)
    return settings


def _as_given(found: dict[str, Any]) -> Any:
    number = found.get(_NUMBER) if len(found) == 1 else None
    if not isinstance(number, str):
        return found
    try:
        return float(number) if number in _NOT_FINITE.values() else int(number, 0)
    except ValueError:
        return found


def _text(text: str) -> str:
    # Half of a character cannot be stored; what stands in its place is what the native half would put there.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
