"""Arrays under keys, within a memory budget."""

from __future__ import annotations

import numbers
import threading
from typing import TYPE_CHECKING

import numpy as np

from .. import _native
from .._trouble import whole_number
from ._forks import held_at_forks
from ._memory import folder_path
from ._specs import check_array_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import Any

    from .replay import ReplayBuffer

_MIB = 1 << 20


class BufferManager:
    """A cache of arrays that never takes more memory than it may, and the statistics of all buffers of a program.

    Arrays are compressed where that saves a tenth. What has to leave memory is chosen by how the cache is used: nothing when every array
    comes once an epoch, the least popular when some are asked for more often than others, the oldest when only recent ones are.

    >>> manager = BufferManager(max_bytes=1 << 20)
    >>> manager.put("features", np.zeros((100, 64), np.float32))
    True
    >>> manager.get("features").shape
    (100, 64)
    >>> manager.stats()["hit_rate"]
    1.0

    A forked process has a copy of its own; pickling carries the settings alone.

    Args:
        max_bytes: Memory budget; by default `buffer_size_limit_mb`.
        buffer_size_limit_mb: The same in MiB.
        enable_buffer_compression: Whether arrays are compressed.
        policy: "auto", "pin", "lru" or "tinylfu".
        spill_dir: A folder for arrays that leave memory; without it they are dropped.
        max_disk_bytes: How much that folder may take.
    """

    def __init__(
        self,
        max_bytes: int | None = None,
        *,
        buffer_size_limit_mb: float = 1024,
        enable_buffer_compression: bool = True,
        policy: str = "auto",
        spill_dir: str | os.PathLike[str] | None = None,
        max_disk_bytes: int | None = None,
    ) -> None:
        if max_bytes is not None:
            self.max_bytes = whole_number(max_bytes, "max_bytes", least=1)
        else:
            is_number = isinstance(buffer_size_limit_mb, numbers.Real) and not isinstance(buffer_size_limit_mb, bool)
            if not is_number or not 0 < buffer_size_limit_mb < 1 << 40:
                raise ValueError(f"buffer_size_limit_mb is {buffer_size_limit_mb!r}; it must be a positive number of MiB")
            self.max_bytes = int(buffer_size_limit_mb * _MIB)
        if max_disk_bytes is not None:
            max_disk_bytes = whole_number(max_disk_bytes, "max_disk_bytes", least=0)
        folder = folder_path(spill_dir)
        #: For copies in other processes.
        self._settings = {
            "max_bytes": self.max_bytes,
            "enable_buffer_compression": enable_buffer_compression,
            "policy": policy,
            "spill_dir": folder,
            "max_disk_bytes": max_disk_bytes,
        }
        self._cache = _native.ArrayCache(self.max_bytes, policy, enable_buffer_compression, folder, max_disk_bytes)
        self._lock = threading.Lock()
        #: Of each number, the key, the dtype and the shape.
        self._entries: dict[int, tuple[Hashable, np.dtype[Any], tuple[int, ...]]] = {}
        self._buffers: dict[str, ReplayBuffer] = {}
        held_at_forks.add(self)

    def _begin_fork(self) -> None:
        self._lock.acquire()

    def _end_fork(self) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        """The settings: an unpickled manager begins empty."""
        return _from_settings, (type(self), self._settings)

    def put(self, key: Hashable, array: Any) -> bool:
        """Keeps an array. False where it was not taken: it is too large, or the policy keeps others."""
        given = np.asarray(array)
        check_array_dtype(given.dtype)
        value = np.ascontiguousarray(given)
        number = _number(key)
        with self._lock:
            gone = self._cache.put(number, value)
            self._entries[number] = (key, value.dtype, given.shape)
            for other in gone:
                self._entries.pop(other, None)
        return number not in gone

    def get(self, key: Hashable, default: Any = None) -> Any:
        """A copy of the array, or the default."""
        number = _number(key)
        with self._lock:
            entry = self._entries.get(number)
            # Asked also where there is none: how often a key is asked for decides whether it is kept.
            found = self._cache.find(number) if entry is None or entry[0] == key else None
        if entry is None or found is None:
            return default
        # Read without the lock, so that threads unpack beside each other; what was found does not change any more.
        _key, dtype, shape = entry
        out = np.empty(shape, dtype=dtype)
        found.read(out)
        return out

    def get_or_make(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The array, made and kept where it is not there."""
        found = self.get(key)
        if found is None:
            found = np.asarray(make())
            self.put(key, found)
        return found

    def remove(self, key: Hashable) -> bool:
        """Forgets an array. Whether it was there."""
        number = _number(key)
        with self._lock:
            entry = self._entries.get(number)
            if entry is None or entry[0] != key:
                return False
            del self._entries[number]
            return self._cache.remove(number)

    def __contains__(self, key: Hashable) -> bool:
        entry = self._entries.get(_number(key))
        return entry is not None and entry[0] == key

    def __len__(self) -> int:
        return len(self._entries)

    def add_buffer(self, name: str, buffer: ReplayBuffer) -> ReplayBuffer:
        """Counts a replay buffer in the statistics, under a name."""
        self._buffers[name] = buffer
        return buffer

    def stats(self) -> dict[str, Any]:
        """Hits, evictions, bytes raw and stored, the policy in force, and the statistics of each replay buffer; `hit_rate` and `compression_ratio` are None where nothing tells."""
        with self._lock:
            found = self._cache.statistics()
        asked = found["hits"] + found["misses"]
        found["hit_rate"] = found["hits"] / asked if asked else None
        found["max_bytes"] = self.max_bytes
        buffers = {name: buffer.stats() for name, buffer in self._buffers.items()}
        raw = found["raw_bytes"] + sum(one["raw_bytes"] for one in buffers.values())
        stored = found["stored_bytes"] + sum(one["memory_bytes"] + one["disk_bytes"] for one in buffers.values())
        found["compression_ratio"] = raw / stored if raw and stored else None
        found["buffers"] = buffers
        return found


def _from_settings(cls: type[BufferManager], settings: dict[str, Any]) -> BufferManager:
    return cls(**settings)


def _number(key: Hashable) -> int:
    return hash(key) & 0xFFFF_FFFF_FFFF_FFFF
