"""Replay buffers and caches of arrays within a memory budget.

`ReplayBuffer` takes the place of the one of Stable-Baselines3; `BufferManager` keeps arrays under keys.
"""

from ._batch import ReplayBatch
from .manager import BufferManager
from .replay import ReplayBuffer

__all__ = ["BufferManager", "ReplayBatch", "ReplayBuffer"]
