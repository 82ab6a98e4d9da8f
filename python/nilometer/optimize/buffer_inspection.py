"""What a replay buffer of another library holds, and what it would take stored otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from .. import _native
from .._trouble import require, require_type
from ..buffers import ReplayBuffer
from ..buffers._specs import ArraySpec, guess_stack
from .in_run import tell_facts

_SAMPLE = 64
# Neighbours that share all but one frame, outside of the ends of episodes.
_MOST = 0.9
_LARGEST_TRIAL = 64 << 20


def inspect_buffer(buffer: Any, name: str = "replay") -> dict[str, Any]:
    """Looks at a buffer as Stable-Baselines3 has them, and tells the current run what it found: the fields of `buffers` in `docs/schema/facts.json`.

    A sample of its rows is compared and compressed; nothing is changed. Bytes are those of the rows that are filled, `projected_bytes` those of all.
    Call it once the buffer holds some episodes.
    """
    require_type(name, str, "name")
    if isinstance(buffer, ReplayBuffer):
        facts: dict[str, Any] = {"name": name, "library": "nilometer", "projected_bytes": buffer.projected_bytes}
        tell_facts("buffers", [facts])
        return facts
    if not hasattr(buffer, "observations") or not hasattr(buffer, "pos"):
        raise TypeError(f"buffer must be a replay buffer with `observations` and `pos`, as those of Stable-Baselines3 have, not {type(buffer).__name__}")
    seen = _Rows(buffer)
    require(seen.count > 1, "the buffer has no two transitions yet: call inspect_buffer once it holds some episodes")
    facts = {"name": name, "library": type(buffer).__module__.partition(".")[0]}
    facts["projected_bytes"] = sum(array.nbytes for array in seen.arrays())
    facts |= _number_facts(seen) | _next_facts(seen) | _image_facts(seen)
    tell_facts("buffers", [facts])
    return facts


class _Rows:
    """The filled rows of a buffer, and numbers of some whose follower is there too."""

    def __init__(self, buffer: Any) -> None:
        self.observations = _parts(buffer.observations)
        self.following = _parts(getattr(buffer, "next_observations", None))
        self.size = len(next(iter(self.observations.values())))
        others = [value for key, value in vars(buffer).items() if isinstance(value, np.ndarray) and key not in ("observations", "next_observations")]
        self._others = [array for array in others if array.ndim and len(array) == self.size]
        self.count = self.size if buffer.full else int(buffer.pos)
        first = int(buffer.pos) if buffer.full else 0
        offsets = np.unique(np.linspace(0, max(self.count - 2, 0), _SAMPLE).astype(np.int64))
        self.chosen = (first + offsets) % self.size
        self.after = (self.chosen + 1) % self.size

    def arrays(self) -> Iterator[np.ndarray]:
        yield from self.observations.values()
        yield from self.following.values()
        yield from self._others

    def held_bytes(self, array: np.ndarray) -> float:
        return array.nbytes * self.count / self.size


def _parts(observations: Any) -> dict[str, np.ndarray]:
    """By name, where observations are dictionaries."""
    if observations is None:
        return {}
    return dict(observations) if isinstance(observations, Mapping) else {"": np.asarray(observations)}


def _number_facts(seen: _Rows) -> dict[str, Any]:
    """Observations in float64 come from an environment; whole numbers count where all of them can be narrowed."""
    wide = [array for array in (*seen.observations.values(), *seen.following.values()) if array.dtype == np.float64]
    whole = [array for array in seen.arrays() if array.dtype == np.int64 and array[: seen.count].min() >= 0]
    facts: dict[str, Any] = {}
    if wide:
        facts["float64_bytes"] = sum(map(seen.held_bytes, wide))
    if whole:
        facts |= {"int64_bytes": sum(map(seen.held_bytes, whole)), "int64_largest": max(int(array[: seen.count].max()) for array in whole)}
    return facts


def _next_facts(seen: _Rows) -> dict[str, Any]:
    if not seen.following:
        return {}
    repeats = [_equal_rows(seen.following[name][seen.chosen], array[seen.after]) for name, array in seen.observations.items()]
    return {
        "next_observation_repeats_ratio": float(np.mean(np.logical_and.reduce(repeats))),
        "next_observation_bytes": sum(map(seen.held_bytes, seen.following.values())),
    }


def _image_facts(seen: _Rows) -> dict[str, Any]:
    # Rows, environments, and at least two axes of a picture.
    images = {name: array for name, array in seen.observations.items() if array.dtype == np.uint8 and array.ndim >= 4}
    if not images:
        return {}
    stored = [*images.values(), *(seen.following[name] for name in images if name in seen.following)]
    facts: dict[str, Any] = {"image_bytes": sum(map(seen.held_bytes, stored)), "image_compression_ratio": _compression(seen, images)}
    stacked = [_stacked_frames(seen, array) for array in images.values()]
    if min(stacked) > 1:
        facts["stacked_frames"] = min(stacked)
    return facts


def _compression(seen: _Rows, images: Mapping[str, np.ndarray]) -> float:
    """Each picture by itself, as a buffer stores it that reads single rows."""
    cache = _native.ArrayCache(_LARGEST_TRIAL, "lru", True, None, None)
    raw = stored = 0
    for array in images.values():
        for row in seen.chosen:
            picture = np.ascontiguousarray(array[row, 0])
            cache.put(0, picture)
            raw += picture.nbytes
            stored += cache.statistics()["stored_bytes"]
    return raw / stored if stored else 1.0


def _stacked_frames(seen: _Rows, array: np.ndarray) -> int:
    """Frames of a stack of which the next row has all but the oldest; 1 where they are none."""
    frames, axis = guess_stack(ArraySpec("", array.shape[2:], array.dtype))
    if frames < 2:
        return 1
    place = 2 if axis == "first" else array.ndim - 1
    width = array.shape[place] // frames
    before, after = np.moveaxis(array[seen.chosen], place, 0), np.moveaxis(array[seen.after], place, 0)
    shared = _equal_rows(np.moveaxis(before[width:], 0, -1), np.moveaxis(after[:-width], 0, -1))
    return frames if float(np.mean(shared)) >= _MOST else 1


def _equal_rows(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    same: np.ndarray = (one == other).reshape(len(one), -1).all(axis=1)
    return same
