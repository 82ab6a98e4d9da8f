"""Settings (hyperparameters) as they are stored: flat, with their types and their full length."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping

from ._trouble import report

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# A record of the run file holds a megabyte.
_MOST_CHARS = 200_000
_MOST_DEPTH = 16


def as_mapping(values: Any) -> Mapping[Any, Any]:
    """A dictionary, a namespace or a dataclass, as a dictionary."""
    if values is None:
        return {}
    if isinstance(values, Mapping):
        return values
    fields = getattr(values, "__dataclass_fields__", None)
    if fields is not None and not isinstance(values, type):
        return {name: getattr(values, name) for name in fields}
    if hasattr(values, "__dict__"):
        return dict(vars(values))
    report(f"config: a {type(values).__name__} is not a dictionary, a namespace or a dataclass")
    return {}


def config_events(*parts: Mapping[Any, Any]) -> Iterator[str]:
    """JSON objects that together hold all settings; nested ones are flattened with `/`."""
    flat: dict[str, str] = {}
    for part in parts:
        _flatten(part, "", flat, 0)
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


def _flatten(values: Mapping[Any, Any], prefix: str, flat: dict[str, str], depth: int) -> None:
    for key, value in values.items():
        name = _text(f"{prefix}/{key}" if prefix else str(key))
        if isinstance(value, Mapping) and value and depth < _MOST_DEPTH:
            _flatten(value, name, flat, depth + 1)
            continue
        text = json.dumps(_plain(value, 0))
        if len(text) > _MOST_CHARS:
            report(f"config: {name!r} is longer than {_MOST_CHARS} characters; the rest of it is left out")
            text = json.dumps(_text(str(value))[: _MOST_CHARS // 12])
        flat[name] = text


def _plain(value: Any, depth: int) -> Any:
    """What JSON has a type for keeps it; everything else is its text."""
    if value is None or isinstance(value, (bool, int)) and -(1 << 63) <= value < 1 << 64:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple, set, frozenset)) and depth < _MOST_DEPTH:
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, Mapping) and depth < _MOST_DEPTH:
        return {_text(str(key)): _plain(item, depth + 1) for key, item in value.items()}
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


def _text(text: str) -> str:
    # Half of a character cannot be stored; what stands in its place is what the native half would put there.
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
