"""What users hand over, as arrays and devices."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from ._specs import ArraySpec


def row(value: Any, spec: ArraySpec, environments: int = 1) -> np.ndarray:
    """An array of the column's dtype; a copy only where it has to be. Another shape, and values that the dtype cannot hold, raise ValueError."""
    given = np.asarray(to_numpy(value))
    expected = (environments, *spec.shape) if environments > 1 else spec.shape
    if given.shape != expected and _without_ones(given.shape) != _without_ones(expected):
        raise ValueError(f"{spec.name} has shape {given.shape}; {expected} is expected")
    if given.dtype == spec.dtype:
        return np.ascontiguousarray(given)
    stored = _converted(given, spec.dtype, spec.name)
    # Floats may be rounded, as everywhere in numpy; a whole number or a bool has to stay what it was.
    if spec.dtype.kind != "f" and not np.can_cast(given.dtype, spec.dtype, "safe"):
        is_kept = stored.reshape(given.shape) == given
        if not np.all(is_kept):
            raise _unfit(spec.dtype, spec.name, f", {given[~is_kept].flat[0]} for example")
    return stored


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A number, an array of one number and a row of them are the same to a buffer."""
    return tuple(length for length in shape if length != 1)


def float32s(value: Any, name: str) -> np.ndarray:
    """Rewards and priorities, which are stored as float32. A number that would become infinite raises ValueError."""
    given = np.asarray(to_numpy(value))
    return np.ascontiguousarray(given) if given.dtype == np.float32 else _converted(given, np.dtype(np.float32), name)


def _converted(given: np.ndarray, dtype: np.dtype[Any], name: str) -> np.ndarray:
    try:
        with np.errstate(over="raise", invalid="ignore"):
            return np.ascontiguousarray(given, dtype=dtype)
    except (FloatingPointError, OverflowError):
        raise _unfit(dtype, name) from None


def _unfit(dtype: np.dtype[Any], name: str, example: str = "") -> ValueError:
    return ValueError(f"{name} has values that {dtype} cannot hold{example}; convert them before adding")


def check_shares(gamma: Any, alpha: Any, beta: Any) -> None:
    """For the settings of returns and priorities."""
    for name, value, most, words in (
        ("gamma", gamma, 1.0, "a number from 0 to 1"),
        ("alpha", alpha, math.inf, "a number, 0 or more"),
        ("beta", beta, math.inf, "a number, 0 or more"),
    ):
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not 0 <= value <= most or math.isinf(value):
            raise ValueError(f"{name} is {value!r}; it must be {words}")


def transition_numbers(indices: Any) -> np.ndarray:
    """Numbers of transitions, as `indices` of a batch has them."""
    given = np.asarray(to_numpy(indices)).reshape(-1)
    if given.size and (given.dtype.kind not in "iu" or given.dtype.kind == "i" and given.min() < 0):
        raise ValueError("indices must be whole numbers, 0 or more, as batch.indices has them")
    return np.ascontiguousarray(given, dtype=np.uint64)


def to_numpy(value: Any) -> Any:
    """Tensors as arrays, everything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def device_of(device: Any) -> Any:
    """A device of PyTorch, or None for numpy."""
    if device is None:
        return None
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)
