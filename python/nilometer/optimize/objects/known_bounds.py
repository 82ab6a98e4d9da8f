"""How many entries something takes at most, where it says so: what fills up to a bound is no leak."""

from __future__ import annotations

import collections
import functools
import gc
from typing import Any

_NAMES = ("capacity", "maxlen", "max_len", "max_size", "maxsize")
_LONG = 64


def is_bounded(thing: Any, owner: Any) -> bool:
    """Whether this container has room for a known number of entries: by itself, or by a number that the object has which holds it.

    Attributes are read as they are stored: no code of the program runs.
    """
    kind = type(thing)
    if issubclass(kind, collections.deque):
        return _maxlen(thing) is not None
    for cache in (thing, owner):
        # It holds its entries directly, and in a dictionary.
        if type(cache) is functools._lru_cache_wrapper:
            return cache.cache_info().maxsize is not None
    return owner is not None and _has_bound(stored_attributes(owner), thing)


def is_bounded_by_whoever_holds_it(thing: Any) -> bool:
    """The same where no way leads to it from the program's variables: asks everything that refers to it, which takes a walk over all objects."""
    for referrer in gc.get_referrers(thing):
        # Of some objects it is their dictionary.
        attributes = referrer if type(referrer) is dict else stored_attributes(referrer)
        if is_bounded(thing, referrer) or _has_bound(attributes, thing):
            return True
    return False


def _has_bound(attributes: dict[Any, Any], thing: Any) -> bool:
    length = _length(thing)
    if length is None:
        return False
    bounds = (attributes.get(name, attributes.get(f"_{name}")) for name in _NAMES)
    return any(type(bound) is int and bound >= length for bound in bounds)


def is_long(thing: Any) -> bool:
    """Whether it is a container of many entries."""
    return (_length(thing) or 0) >= _LONG


def _length(thing: Any) -> int | None:
    kind = type(thing)
    return next((base.__len__(thing) for base in (list, dict, set, collections.deque) if issubclass(kind, base)), None)


def _maxlen(thing: Any) -> int | None:
    maxlen: int | None = collections.deque.maxlen.__get__(thing)
    return maxlen


def stored_attributes(thing: Any) -> dict[str, Any]:
    """Those of an object's own dictionary."""
    try:
        own = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return own if type(own) is dict else {}
