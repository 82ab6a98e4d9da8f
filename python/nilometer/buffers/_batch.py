"""Batches: the arrays that transitions are read into, and what is handed out."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from ._specs import ArraySpec


class ReplayBatch(NamedTuple):
    """Transitions: numpy arrays, or tensors where the buffer has a device. The first six are those of Stable-Baselines3."""

    observations: Any
    actions: Any
    next_observations: Any
    #: 1 where the episode came to its end; 0 where it was cut off by a limit of time.
    dones: Any
    rewards: Any
    #: With n-step returns: what the value of the next observation is to be multiplied with.
    discounts: Any = None
    truncations: Any = None
    #: With priorities: how much the loss of each transition is to count.
    weights: Any = None
    #: The number of each transition, for `update_priorities` and `get`.
    indices: Any = None
    #: The other columns by name.
    extra: Any = None


class BatchArrays:
    """Room for so many transitions, which the native half fills."""

    def __init__(self, count: int, observations: list[ArraySpec], columns: list[ArraySpec]) -> None:
        self._names = [spec.name for spec in observations]
        self._extra = [spec.name for spec in columns[1:]]
        self.observations = [(_room(count, spec), _room(count, spec)) for spec in observations]
        self.columns = [_room(count, spec) for spec in columns]
        #: Rewards, terminated, truncated, discounts.
        self.returns = [np.empty((count, 1), np.float32) for _ in range(4)]
        self.count = count
        self._idle_references = self._references()

    def _references(self) -> int:
        pairs = sum(sys.getrefcount(array) for pair in self.observations for array in pair)
        return pairs + sum(sys.getrefcount(array) for array in (*self.columns, *self.returns))

    def is_idle(self) -> bool:
        """Whether nobody refers to an array any more: no batch, no view of it, no tensor over its memory."""
        return self._references() == self._idle_references

    def batch(self, rows: np.ndarray, weights: np.ndarray | None, *, is_dict: bool, has_discounts: bool) -> ReplayBatch:
        """What is handed out: the same arrays, named."""
        observations: Any
        following: Any
        if is_dict:
            observations = {name: pair[0] for name, pair in zip(self._names, self.observations, strict=True)}
            following = {name: pair[1] for name, pair in zip(self._names, self.observations, strict=True)}
        else:
            observations, following = self.observations[0]
        rewards, terminated, truncated, discounts = self.returns
        extra = dict(zip(self._extra, self.columns[1:], strict=True)) or None
        return ReplayBatch(
            observations,
            self.columns[0],
            following,
            terminated,
            rewards,
            discounts if has_discounts else None,
            truncated,
            weights,
            rows,
            extra,
        )


class BatchPool:
    """Arrays of batches that are used again once nobody refers to them: fresh pages of memory cost more than the transitions that go into them."""

    #: A loop holds a batch while it samples the next, and some threads may sample ahead.
    _MOST_KEPT = 4

    def __init__(self, observations: list[ArraySpec], columns: list[ArraySpec]) -> None:
        self._specs = (observations, columns)
        # Taking from a deque and adding to it are atomic: no two threads have the same arrays.
        self._kept: deque[BatchArrays] = deque()

    def take(self, count: int) -> BatchArrays:
        for _ in range(len(self._kept)):
            try:
                arrays = self._kept.popleft()
            except IndexError:
                break
            if arrays.count == count and arrays.is_idle():
                return arrays
            self.keep(arrays)
        return BatchArrays(count, *self._specs)

    def keep(self, arrays: BatchArrays) -> None:
        """The arrays may be in use still."""
        self._kept.append(arrays)
        if len(self._kept) > self._MOST_KEPT:
            self._kept.popleft()


def normalized(batch: ReplayBatch, env: Any) -> ReplayBatch:
    """Observations and rewards as a `VecNormalize` of Stable-Baselines3 has them."""
    return batch._replace(
        observations=env.normalize_obs(batch.observations),
        next_observations=env.normalize_obs(batch.next_observations),
        rewards=env.normalize_reward(batch.rewards).astype(np.float32),
    )


def on_device(batch: ReplayBatch, device: Any) -> ReplayBatch:
    """Tensors over the same memory, moved where the device is another one. Numbers of transitions stay arrays."""
    import torch

    def moved(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, dict):
            return {name: moved(part) for name, part in value.items()}
        return torch.from_numpy(value).to(device)

    numbers = batch.indices
    return ReplayBatch(*map(moved, batch._replace(indices=None)))._replace(indices=numbers)


def _room(count: int, spec: ArraySpec) -> np.ndarray:
    return np.empty((count, *spec.shape), spec.dtype)
