"""What is said of one kind of objects that accumulates: its name, its size, and who holds the newest."""

from __future__ import annotations

import collections
import tracemalloc
from typing import Any

from .holders import Holder
from .known_bounds import is_bounded_by_whoever_holds_it
from .leaked_objects import GrowingKind, object_bytes
from .newest_objects import line_of
from .object_samples import Kind
from .program_objects import newest_entries

# The sizes of so many are averaged.
_WEIGHED = 32


def described_kind(kind: Kind, rates: tuple[float, float], newest: list[Any], holders: dict[int, Holder]) -> GrowingKind | None:
    """None where it fills what takes a known number of entries."""
    count, size = rates
    places = [holders[id(one)] for one in newest if id(one) in holders]
    usual = collections.Counter(place.container for place in places).most_common(1)
    path, holder, is_bounded = next(place for place in places if place.container == usual[0][0]) if usual else (None, None, False)
    if is_bounded:
        return None  # it fills, and stops
    if kind[0] == "container":
        container = newest[0] if newest else []
        if path is None and is_bounded_by_whoever_holds_it(container):
            return None
        entry, name = next(iter(newest_entries(container, 1)), None), type(container).__name__
        return GrowingKind(
            name=f"{name} entries",
            count_per_step=count,
            bytes_per_step=count * object_bytes(entry),
            holder=None if path is None else f"{path} ({name})",
            entry_type=type(entry).__name__,
        )
    if kind[0] == "tensor":
        _, shape, dtype, device, graph = kind
        return GrowingKind(f"tensor {shape} {dtype} {device}", count, size, holder, is_tensor=True, has_graph=bool(graph))
    name = kind[2] if kind[1] in ("builtins", "__main__") else f"{kind[1]}.{kind[2]}"
    # Where holders are known, those without one are temporary, or ours.
    held = [one for one in newest if id(one) in holders] or newest
    sizes = [object_bytes(one) for one in held[-_WEIGHED:]]
    line = next(filter(None, map(line_of, reversed(held))), None) if tracemalloc.is_tracing() else None
    return GrowingKind(name, count, count * sum(sizes) / max(1, len(sizes)), holder, line=line)
