"""What the arrays of a buffer look like: from Gymnasium's spaces, or from a shape and a dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Any

_KINDS = {
    "bool": "bool",
    "uint8": "u8",
    "int8": "i8",
    "uint16": "u16",
    "int16": "i16",
    "uint32": "u32",
    "int32": "i32",
    "uint64": "u64",
    "int64": "i64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
}
_MOST_STACKED = 16


class ArraySpec(NamedTuple):
    """One row of a column."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def described(self) -> tuple[str, tuple[int, ...], str]:
        """For the note that is saved with a buffer."""
        return self.name, self.shape, self.dtype.name

    def column(self) -> dict[str, Any]:
        """As the native half reads it."""
        return {"name": self.name, "kind": _KINDS[self.dtype.name], "shape": list(self.shape)}


def check_array_dtype(dtype: np.dtype[Any]) -> None:
    """Refuses arrays that cannot be cached."""
    if dtype.name not in _KINDS:
        raise TypeError(f"{dtype} is not supported; bool, integers and floats of up to 8 bytes are")
    if not dtype.isnative:
        raise TypeError(f"the byte order of {dtype} is not supported; convert it with array.astype(array.dtype.newbyteorder('='))")


def spec_of(name: str, space: Any) -> ArraySpec:
    """Of a space with `shape` and `dtype`, a discrete one, or a pair of shape and dtype."""
    if isinstance(space, tuple):
        shape, dtype = space
    elif hasattr(space, "n") and not getattr(space, "shape", None):
        shape, dtype = (1,), np.int64
    else:
        try:
            shape, dtype = space.shape, space.dtype
        except AttributeError:
            raise TypeError(f"{name} is {space!r}; a space or a pair of shape and dtype is expected") from None
    dtype = np.dtype(dtype).newbyteorder("=")
    if dtype.name not in _KINDS:
        raise TypeError(f"{name} has the dtype {dtype}; numbers and bool can be stored")
    return ArraySpec(name, tuple(int(size) for size in shape), dtype)


def observation_specs(space: Any) -> tuple[bool, list[ArraySpec]]:
    """Whether observations are dictionaries, and their parts."""
    parts = getattr(space, "spaces", space if isinstance(space, dict) else None)
    if isinstance(parts, dict):
        return True, [spec_of(str(name), part) for name, part in parts.items()]
    return False, [spec_of("observation", space)]


def action_spec(space: Any) -> ArraySpec:
    """Actions as Stable-Baselines3 stores them: one axis, and no float64."""
    spec = spec_of("action", space)
    size = int(np.prod(spec.shape, dtype=np.int64))
    dtype = np.dtype(np.float32) if spec.dtype == np.float64 else spec.dtype
    return ArraySpec("action", (max(size, 1),), dtype)


def guess_stack(spec: ArraySpec) -> tuple[int, str]:
    """How many frames an image is likely to have, and on which axis. A wrong guess costs nothing but the saving."""
    if spec.dtype != np.uint8 or len(spec.shape) != 3:
        return 1, "first"
    first, last = spec.shape[0], spec.shape[-1]
    axis, channels = ("first", first) if first <= last else ("last", last)
    if channels > 3 and channels % 3 == 0:
        channels //= 3
    return (channels, axis) if channels not in (1, 3) and channels <= _MOST_STACKED else (1, axis)
