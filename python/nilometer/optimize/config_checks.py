"""Checks of settings: one sentence that names the field and the fix."""

from __future__ import annotations

import math
import numbers
import reprlib
from typing import Any

# How each kind of field is written in its dataclass, and which numbers it takes; those of numpy are among them.
_KINDS: dict[str, type] = {"int": numbers.Integral, "float": numbers.Real, "bool": bool}
_WORDS = {"int": "a whole number", "float": "a number", "bool": "true or false"}
# The garbage collector's thresholds are C integers, and nothing else is counted higher.
_LARGEST_COUNT = 2**31 - 1


def check_type(value: Any, kind: str, name: str) -> Any:
    """The value as the field's type says, or TypeError. A whole number may be written 8.0, a number 8."""
    if kind.endswith(" | None"):
        if value is None:
            return None
        kind = kind.removesuffix(" | None")
    if kind == "int" and isinstance(value, float) and value.is_integer():
        value = int(value)
    expected: Any = _KINDS[kind]
    if not isinstance(value, expected) or isinstance(value, bool) != (kind == "bool"):
        raise TypeError(f"{name} must be {_WORDS[kind]}, not {reprlib.repr(value)}")
    if kind == "bool":
        return value
    if kind == "int":
        at_most(value, _LARGEST_COUNT, name)
        return int(value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, not {number}")
    return number


def at_least(value: float, least: float, name: str, *, above: bool = False) -> None:
    """Raises ValueError for less than `least`, or with `above` for that itself too."""
    if value < least or (above and value == least):
        raise ValueError(f"{name} must be {'more than' if above else 'at least'} {least:g}, not {_short(value)}")


def at_most(value: float, most: float, name: str) -> None:
    """Raises ValueError for more than `most`."""
    if value > most:
        raise ValueError(f"{name} must be at most {most:.10g}, not {_short(value)}")


def fraction(value: float, name: str) -> None:
    """Raises ValueError for what is no share of a whole."""
    if not 0 < value <= 1:
        hint = f": write {value / 100:g} for {value:g} %" if 1 < value <= 100 else ""
        raise ValueError(f"{name} must be above 0 and at most 1, not {value:g}{hint}")


def in_order(config: object, lower: str, upper: str, *, may_be_equal: bool) -> None:
    """Raises ValueError where the first field is not below the second, or more than it."""
    low, high = getattr(config, lower), getattr(config, upper)
    if low > high or (low == high and not may_be_equal):
        relation = "at most" if may_be_equal else "below"
        raise ValueError(f"{lower} ({_short(low)}) must be {relation} {upper} ({_short(high)}): lower {lower} or raise {upper}")


def _short(value: float) -> str:
    try:
        return f"{value:.10g}"
    except OverflowError:
        return "a number of more than 300 digits"
