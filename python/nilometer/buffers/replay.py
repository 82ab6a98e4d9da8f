"""The replay buffer."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import numpy as np

from .. import _native
from .._trouble import whole_number
from ._batch import BatchPool, ReplayBatch, normalized, on_device
from ._forks import held_at_forks
from ._memory import budget, check_projection, folder_path, warn_of_drops
from ._specs import ArraySpec, action_spec, guess_stack, observation_specs, spec_of
from ._values import check_shares, device_of, float32s, row, transition_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from typing_extensions import Self

_ROWS_FOR_PROJECTION = 1000


class ReplayBuffer:
    """Transitions in a fraction of the memory that arrays take, read back bit by bit.

    Each frame of stacked observations is stored once, and next observations only where the following transition does not begin with them.
    Frames are stored as differences from key frames or compressed, whichever the first frames show to be best.
    Many threads may sample while one adds.

    >>> buffer = ReplayBuffer(1000, ((4, 84, 84), np.uint8), ((1,), np.int64))
    >>> frames = np.zeros((10, 84, 84), np.uint8)
    >>> for step in range(6):
    ...     buffer.add(frames[step : step + 4], frames[step + 1 : step + 5], action=2, reward=1.0, done=step == 5)
    >>> batch = buffer.sample(32)
    >>> batch.observations.shape, batch.rewards.shape
    ((32, 4, 84, 84), (32, 1))
    >>> buffer.stats()["raw_bytes"] // buffer.stats()["transitions"]
    56468

    Args:
        buffer_size: Transitions, those of all environments together.
        observation_space: A space of Gymnasium, a pair of shape and dtype, or a dictionary of these.
        action_space: A space, or a pair of shape and dtype.
        device: Where batches go: None for numpy arrays, or a device of PyTorch.
        n_envs: Environments that step together.
        optimize_memory_usage: Taken for the sake of Stable-Baselines3; memory is always saved.
        handle_timeout_termination: Whether `TimeLimit.truncated` in infos is heeded.
        stack: Frames in an observation; by default guessed from the shape of images.
        stack_axis: "first" or "last".
        codec: "auto", "raw", "lz4", "zstd" or "patch" for frames. Other columns are narrowed where that loses nothing.
        n_steps: Rewards that are added up.
        gamma: What a reward counts less with each step.
        prioritized: Whether transitions are drawn by priority.
        alpha: How much priorities count.
        beta: How much weights make up for that.
        extra: More columns, as name and space.
        max_bytes: Memory budget; "auto" is half of the memory limit in force.
            Beyond it the cache of decoded frames shrinks, old rows are compressed, then go to `spill_dir`, and where that cannot take them the oldest transitions are dropped.
        spill_dir: A folder for what does not fit into memory; it has to be there.
        cache_bytes: Memory for decoded frames and rows, where a slow codec is used or memory is short; at most a quarter of `max_bytes`.
        seed: Of the drawing.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: Any,
        action_space: Any,
        device: Any = None,
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        stack: int | None = None,
        stack_axis: str | None = None,
        codec: str = "auto",
        n_steps: int = 1,
        gamma: float = 0.99,
        prioritized: bool = False,
        alpha: float = 0.6,
        beta: float = 0.4,
        extra: Mapping[str, Any] | None = None,
        max_bytes: int | str | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        cache_bytes: int = 16 << 20,
        seed: int | None = None,
    ) -> None:
        del optimize_memory_usage
        if codec not in ("auto", "raw", "lz4", "zstd", "patch"):
            raise ValueError(f"codec is {codec!r}; it must be auto, raw, lz4, zstd or patch")
        if stack_axis not in (None, "first", "last"):
            raise ValueError(f"stack_axis is {stack_axis!r}; it must be first or last")
        n_envs = whole_number(n_envs, "n_envs", least=1)
        n_steps = whole_number(n_steps, "n_steps", least=1)
        check_shares(gamma, alpha, beta)
        if seed is not None:
            seed = whole_number(seed, "seed", least=0)
        is_dict, observations = observation_specs(observation_space)
        self._note: dict[str, Any] = {
            "is_dict": is_dict,
            "observations": [spec.described() for spec in observations],
            "action": action_spec(action_space).described()[1:],
            "extra": [spec_of(name, space).described() for name, space in (extra or {}).items()],
            "n_envs": n_envs,
            "n_steps": n_steps,
            "gamma": gamma,
            "beta": beta if prioritized else None,
            "handle_timeout_termination": handle_timeout_termination,
        }
        self._set_up(device)
        settings = {
            "capacity": whole_number(buffer_size, "buffer_size", least=1),
            "environments": n_envs,
            "observations": [self._observation_settings(spec, stack, stack_axis, codec) for spec in observations],
            "columns": [spec.column() for spec in self._columns],
            "priority_exponent": alpha if prioritized else None,
            "max_bytes": budget(max_bytes),
            "compress_cold_rows": codec != "raw",
            "cache_bytes": whole_number(cache_bytes, "cache_bytes", least=0),
        }
        self._spill_dir = folder_path(spill_dir)
        self._store = _native.ReplayStore(json.dumps(settings), self._spill_dir, seed)
        held_at_forks.add(self)
        self._is_projected = max_bytes is not None
        if not self._is_projected:
            check_projection(self.buffer_size, self.projected_bytes, "before compression")

    def _set_up(self, device: Any) -> None:
        """What follows from the note, which is saved with the transitions."""
        note = self._note
        self.device = device_of(device)
        self.n_envs: int = note["n_envs"]
        self.n_steps: int = note["n_steps"]
        self.gamma: float = note["gamma"]
        self.beta: float | None = note["beta"]
        self.handle_timeout_termination: bool = note["handle_timeout_termination"]
        self._is_dict: bool = note["is_dict"]
        self._observations = [ArraySpec(name, tuple(shape), np.dtype(dtype)) for name, shape, dtype in note["observations"]]
        shape, dtype = note["action"]
        self._columns: list[ArraySpec] = [ArraySpec("action", tuple(shape), np.dtype(dtype))]
        self._columns += [ArraySpec(name, tuple(shape), np.dtype(dtype)) for name, shape, dtype in note["extra"]]
        self._pool = BatchPool(self._observations, self._columns)
        self._none_truncated = np.zeros(self.n_envs, dtype=bool)
        self._has_warned_of_drops = False
        _register_with_stable_baselines()

    def _observation_settings(self, spec: ArraySpec, stack: int | None, axis: str | None, codec: str) -> dict[str, Any]:
        guessed, guessed_axis = guess_stack(spec)
        settings = {"stack": guessed if stack is None else stack, "stack_axis": axis or guessed_axis, "codec": codec}
        return spec.column() | settings

    @property
    def projected_bytes(self) -> int:
        """Bytes of the full buffer: what it can take at most, and from 1,000 transitions on what it will take if the rest is like them."""
        return self._store.projected_bytes()

    @property
    def buffer_size(self) -> int:
        """Transitions that it holds at most."""
        return self._store.capacity()

    @property
    def full(self) -> bool:
        """Whether adding drops the oldest."""
        return len(self) == self.buffer_size

    @property
    def pos(self) -> int:
        """Steps added, modulo those that it holds: where Stable-Baselines3 would write next."""
        return self._store.rows()[1] // self.n_envs % (self.buffer_size // self.n_envs)

    def __len__(self) -> int:
        return len(self._store)

    def size(self) -> int:
        """Transitions stored."""
        return len(self)

    def reset(self) -> None:
        """Drops everything."""
        self._store.clear()

    def add(
        self,
        obs: Any,
        next_obs: Any,
        action: Any,
        reward: Any,
        done: Any,
        infos: Sequence[Mapping[str, Any]] | None = None,
        *,
        truncated: Any = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Adds one transition of each environment.

        Args:
            obs: Observations, with an axis for the environments unless there is one alone.
            next_obs: What followed; at the end of an episode its last observation, not the first of the next.
            action: Actions.
            reward: Rewards.
            done: Whether the episode is over, by its end or cut off.
            infos: As Stable-Baselines3 hands them over: `TimeLimit.truncated` says that an episode was cut off.
            truncated: The same, as Gymnasium says it.
            extra: Rows of the other columns.
        """
        is_over = np.asarray(done, dtype=bool).reshape(-1)
        if truncated is not None:
            is_cut = np.asarray(truncated, dtype=bool).reshape(-1)
        elif infos is not None and self.handle_timeout_termination:
            is_cut = np.fromiter((info.get("TimeLimit.truncated", False) for info in infos), dtype=bool)
        else:
            is_cut = self._none_truncated
        if self._is_dict:
            pairs = [(row(obs[s.name], s, self.n_envs), row(next_obs[s.name], s, self.n_envs)) for s in self._observations]
        else:
            spec = self._observations[0]
            pairs = [(row(obs, spec, self.n_envs), row(next_obs, spec, self.n_envs))]
        values = {"action": action} if extra is None else {"action": action, **extra}
        columns = [row(values[spec.name], spec, self.n_envs) for spec in self._columns]
        rewards = float32s(reward, "reward")
        dropped = self._store.add(pairs, columns, rewards, is_over & ~is_cut, is_cut)
        if dropped and not self._has_warned_of_drops:
            self._has_warned_of_drops = True
            warn_of_drops(self._store, self.buffer_size)
        if not self._is_projected and len(self) >= _ROWS_FOR_PROJECTION:
            check_projection(self.buffer_size, self.projected_bytes, "by what is stored so far")
            self._is_projected = True

    def sample(self, batch_size: int, env: Any = None) -> ReplayBatch:
        """Draws transitions, by priority where the buffer has priorities.

        Args:
            batch_size: How many.
            env: A `VecNormalize` of Stable-Baselines3 that normalizes observations and rewards.
        """
        count = whole_number(batch_size, "batch_size", least=0)
        return self._filled(np.empty(count, dtype=np.uint64), env, is_drawn=True)

    def get(self, indices: Any, env: Any = None) -> ReplayBatch:
        """The transitions with these numbers; `oldest_index` is the first one stored."""
        return self._filled(transition_numbers(indices), env, is_drawn=False)

    @property
    def oldest_index(self) -> int:
        """The number of the oldest transition stored."""
        return self._store.rows()[0]

    def update_priorities(self, indices: Any, priorities: Any) -> None:
        """Sets the priorities of transitions that were sampled; those dropped in the meantime are passed over."""
        rows = transition_numbers(indices)
        self._store.set_priorities(rows, float32s(priorities, "priorities").reshape(-1))

    def _filled(self, rows: np.ndarray, env: Any, is_drawn: bool) -> ReplayBatch:
        arrays = self._pool.take(len(rows))
        targets = (rows, arrays.observations, arrays.columns, arrays.returns, self.n_steps, self.gamma)
        weights = None
        if not is_drawn:
            self._store.read(*targets)
        elif self.beta is None:
            self._store.sample(*targets)
        else:
            weights = np.empty((len(rows), 1), np.float32)
            self._store.sample(*targets, self.beta, weights)
        batch = arrays.batch(rows, weights, is_dict=self._is_dict, has_discounts=self.n_steps > 1)
        self._pool.keep(arrays)
        if env is not None:
            batch = normalized(batch, env)
        return batch if self.device is None else on_device(batch, self.device)

    def stats(self) -> dict[str, Any]:
        """What the buffer holds and takes: transitions, bytes raw, in memory (`cache_bytes` of them decoded frames) and on disk, ratios, the codec of each column, the cache's hit rate."""
        found = self._store.statistics()
        stored = found["memory_bytes"] + found["disk_bytes"]
        asked = found["cache_hits"] + found["cache_misses"]
        found["compression_ratio"] = found["raw_bytes"] / stored if found["transitions"] else None
        found["bytes_per_transition"] = stored / found["transitions"] if found["transitions"] else None
        found["hit_rate"] = found["cache_hits"] / asked if asked else None
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves everything. The file is replaced as a whole or not at all."""
        self._store.save(os.fspath(path), json.dumps(self._note))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        device: Any = None,
        *,
        max_bytes: int | str | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
        seed: int | None = None,
    ) -> Self:
        """Loads what `save` wrote. A damaged file raises ValueError; one that cannot be opened, what `open` raises."""
        folder = folder_path(spill_dir)
        with open(path, "rb"):
            pass  # with number and name of the file in the exception
        store, note = _native.ReplayStore.load(os.fspath(path), budget(max_bytes), folder, seed)
        return cls._restored(store, note, device, folder)

    @classmethod
    def _restored(cls, store: _native.ReplayStore, note: str, device: Any, spill_dir: str | None) -> Self:
        buffer = cls.__new__(cls)
        buffer._note = json.loads(note)
        buffer._store = store
        held_at_forks.add(buffer)
        buffer._is_projected = True
        buffer._spill_dir = spill_dir
        buffer._set_up(device)
        if store.dropped()[0]:
            buffer._has_warned_of_drops = True
            warn_of_drops(store, buffer.buffer_size)
        return buffer

    def _begin_fork(self) -> None:
        self._store.begin_fork()

    def _end_fork(self) -> None:
        self._store.end_fork()

    def __reduce__(self) -> tuple[Any, ...]:
        device = None if self.device is None else str(self.device)
        return _from_bytes, (type(self), self._store.to_bytes(json.dumps(self._note)), device, self._spill_dir)


def _from_bytes(cls: type[ReplayBuffer], data: bytes, device: str | None, spill_dir: str | None = None) -> ReplayBuffer:
    store, note = _native.ReplayStore.from_bytes(data, spill_dir)
    return cls._restored(store, note, device, spill_dir)


def _register_with_stable_baselines() -> None:
    """Where Stable-Baselines3 is imported, our buffers count as instances of its class, which it asks for when it loads one."""
    theirs = sys.modules.get("stable_baselines3.common.buffers")
    if theirs is not None and not issubclass(ReplayBuffer, theirs.ReplayBuffer):
        theirs.ReplayBuffer.register(ReplayBuffer)
