"""Puts a dataset's long lists into shared buffers, and back."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from ..._trouble import require, require_type
from .. import in_run
from ..host import process_heap
from .shared_list import SharedList

_DEEPEST = 3
_SAMPLED = 64


class DatasetShare:
    """What `share_dataset` replaced. Call it, or its `undo`, to put lists back: equal ones, not the same objects."""

    def __init__(self, replaced: list[tuple[Any, str, SharedList]], rss_before: int, rss_after: int, left: dict[str, str]) -> None:
        self._replaced = replaced
        self.names = [f"{type(owner).__name__}.{name}" for owner, name, _ in replaced]
        """Attributes that are a `SharedList` now."""
        self.left = left
        """Long lists that stayed, with the reason."""
        self.nbytes = sum(shared.nbytes for _, _, shared in replaced)
        self.rss_before, self.rss_after = rss_before, rss_after
        self._tell_undone: in_run.TellUndone | None = None

    def undo(self) -> None:
        for owner, name, shared in self._replaced:
            # Somebody may have put something else there meanwhile.
            if getattr(owner, name, None) is shared:
                setattr(owner, name, list(shared))
        if self._replaced and self._tell_undone is not None:
            self._tell_undone("undone")
        self._replaced = []

    __call__ = undo

    def __str__(self) -> str:
        parts = [f"{', '.join(self.names)} shared in {self.nbytes / 2**20:.1f} MiB"] if self.names else ["no list was replaced"]
        return "; ".join(parts + [f"{name} stays: {reason}" for name, reason in self.left.items()])


def share_dataset(dataset: Any, *, min_items: int = 1000) -> DatasetShare:
    """Replaces lists of `min_items` items or more among a dataset's attributes, and those of datasets within it, by `SharedList`s.

    Call it before workers start. A dataset that appends to such a list cannot be shared; lists of numbers and texts are shared as well, since reading them copies pages too.
    """
    require_type(min_items, int, "min_items")
    require(min_items >= 1, f"min_items must be at least 1, not {min_items}")
    if isinstance(dataset, (list, tuple, dict)):
        raise TypeError(f"a {type(dataset).__name__} has no attributes to replace: give the loader SharedList(items) instead")
    before = process_heap.rss_bytes()
    replaced: list[tuple[Any, str, SharedList]] = []
    left: dict[str, str] = {}
    for owner, name, value in list(long_lists(dataset, min_items)):
        try:
            shared = SharedList(value)
            setattr(owner, name, shared)
        except (TypeError, AttributeError) as error:
            left[f"{type(owner).__name__}.{name}"] = str(error)
            continue
        replaced.append((owner, name, shared))
        del value
    outcome = DatasetShare(replaced, before, process_heap.rss_bytes(), left)
    outcome._tell_undone = in_run.tell_optimization(
        "shared dataset",
        applied=bool(replaced),
        before_bytes=outcome.rss_before,
        after_bytes=outcome.rss_after,
        measured="resident memory of this process; what workers save shows in their private memory",
        note=str(outcome),
    )
    return outcome


def long_lists(dataset: Any, min_items: int, depth: int = 0) -> Iterator[tuple[Any, str, list[Any]]]:
    """Lists among the attributes of a dataset, and of the datasets that it wraps."""
    attributes = getattr(dataset, "__dict__", {})
    for name, value in list(attributes.items()):
        if type(value) is list and len(value) >= min_items:
            yield dataset, name, value
        elif depth < _DEEPEST:
            for inner in value if type(value) in (list, tuple) else [value]:
                if hasattr(type(inner), "__getitem__") and hasattr(inner, "__dict__") and inner is not dataset:
                    yield from long_lists(inner, min_items, depth + 1)


def count_objects(dataset: Any) -> tuple[int, int]:
    """Python objects in the long lists and dictionaries of a dataset, and the bytes that a `SharedList` of them would take; both by a sample."""
    objects, size = 0, 0
    seen: set[int] = set()
    waiting = [(dataset, 0)]
    while waiting:
        owner, depth = waiting.pop()
        for value in [owner] if type(owner) in (list, dict) else list(getattr(owner, "__dict__", {}).values()):
            if id(value) in seen:
                continue
            seen.add(id(value))
            if type(value) in (list, dict) and len(value) > 0:
                step = max(1, len(value) // _SAMPLED)
                entries = list(value.values() if type(value) is dict else value)[::step][:_SAMPLED]
                objects += int(len(value) * sum(map(_objects_in, entries)) / len(entries))
                size += int(len(value) * sum(map(_pickled_bytes, entries)) / len(entries))
            elif depth < _DEEPEST and hasattr(type(value), "__getitem__") and hasattr(value, "__dict__"):
                waiting.append((value, depth + 1))
    return objects, size


def _objects_in(thing: Any, depth: int = 0) -> int:
    parts = list(thing.values()) if type(thing) is dict else thing if type(thing) in (list, tuple, set) else ()
    return 1 + (sum(_objects_in(part, depth + 1) for part in list(parts)[:_SAMPLED]) if depth < _DEEPEST else 0)


def _pickled_bytes(thing: Any) -> int:
    try:
        return len(pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)) + 8
    except Exception:  # whatever a class of the program raises
        return 0
