"""The workers of a DataLoader, however they are started: their points land in the same run, and caches work in them."""

import numpy as np
import pytest
import torch

import nilometer
from nilometer import BufferManager


class Squares(torch.utils.data.Dataset):
    """Logs what it loads, in the process that loads it."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        nilometer.log({"loaded": float(index)}, step=index)
        return torch.tensor(float(index * index))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_log_into_the_run_of_their_parent(recorded, start):
    nilometer.log({"parent": 1.0}, step=0)
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, multiprocessing_context=start)
    total = 0.0
    for step, batch in enumerate(loader):
        total += float(batch.sum())
        nilometer.log({"parent": total}, step=step + 1)
    run = recorded()
    assert sorted(run.series("loaded").value.tolist()) == [float(index) for index in range(32)]
    assert run.series("parent").value.tolist()[-1] == sum(index * index for index in range(32))
    assert len({path.name.split(".")[0] for path in run.path.glob("python-*")}) == 3


class CachedSquares(torch.utils.data.Dataset):
    """Says of each row whether it was in the cache."""

    def __init__(self):
        self.cache = BufferManager(max_bytes=1 << 20)

    def __len__(self):
        return 8

    def __getitem__(self, index):
        is_cached = index in self.cache
        row = self.cache.get_or_make(index, lambda: np.full(100, index * index, np.float64))
        return float(row[0]), is_cached


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_have_a_cache_of_their_own(start):
    dataset = CachedSquares()
    for index in range(4):
        dataset[index]
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=1, multiprocessing_context=start, persistent_workers=True
    )
    first, second = list(loader), list(loader)
    assert [value for value, _ in first] == [value for value, _ in second] == [float(index * index) for index in range(8)]
    # A forked worker has what was there before; a spawned one begins empty.
    assert [is_cached for _, is_cached in first] == ([True] * 4 if start == "fork" else [False] * 4) + [False] * 4
    assert all(is_cached for _, is_cached in second)
    assert len(dataset.cache) == 4
