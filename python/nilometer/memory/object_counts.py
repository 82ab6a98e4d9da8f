"""How many objects of each type live, of those that Python's garbage collector tracks."""

from __future__ import annotations

import collections
import gc
from collections.abc import Iterable
from typing import Any

COUNTED_OBJECTS = "objects tracked by the garbage collector: containers and instances, not numbers, texts or bytes"
"""What is counted, in words. Frozen objects (`gc.freeze`) are left out too."""


def count_by_type(objects: Iterable[Any] | None = None) -> collections.Counter[type]:
    """Of these objects, or of all that are tracked. By `type` itself: what an object says of its class is not asked."""
    return collections.Counter(map(type, gc.get_objects() if objects is None else objects))


def count_by_name() -> collections.Counter[str]:
    """Of all that are tracked, by the type's qualified name."""
    counts: collections.Counter[str] = collections.Counter()
    for kind, number in count_by_type().items():
        counts[kind.__qualname__] += number
    return counts
