"""Batches of samples of different lengths, each as large as a budget of padded tokens allows, the same number on every rank."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from ..._trouble import require, whole_number


class TokenBudgetBatches:
    """A batch sampler for `DataLoader(batch_sampler=...)`: samples of similar length together, `longest * count <= max_tokens`.

    Padding counts: a batch takes as many tokens as its longest sample times its samples.
    Every rank plans the same batches from the same seed and takes its share; what is left over when the batches do not divide evenly is left out of that epoch, so that no rank waits for another.
    A sample longer than `max_tokens` is refused.

    >>> batches = TokenBudgetBatches([5, 90, 10, 80, 7, 100, 12], max_tokens=200, shuffle=False)
    >>> list(batches)
    [[0, 4, 2, 6], [3, 1], [5]]
    >>> len(batches)
    3
    """

    def __init__(
        self,
        lengths: Sequence[int],
        *,
        max_tokens: int,
        max_batch: int | None = None,
        rank: int = 0,
        world_size: int = 1,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        require(len(lengths) > 0, "lengths is empty: there are no samples")
        max_tokens = whole_number(max_tokens, "max_tokens", least=1)
        max_batch = None if max_batch is None else whole_number(max_batch, "max_batch", least=1)
        require(min(lengths) >= 0, f"a length is {min(lengths)}; lengths must not be negative")
        require(max(lengths) <= max_tokens, f"a sample has {max(lengths)} tokens, more than max_tokens, {max_tokens}")
        world_size = whole_number(world_size, "world_size", least=1)
        rank = whole_number(rank, "rank", least=0)
        require(0 <= rank < world_size, f"rank {rank} of {world_size} does not exist")
        self._lengths = list(lengths)
        self._max_tokens = max_tokens
        self._max_batch = max_batch
        self._rank = rank
        self._world_size = world_size
        self._seed = seed
        self._shuffle = shuffle
        self._epoch = 0
        self._done = 0
        # Which samples are drawn together changes with the epoch, how many batches there are does not.
        batches = len(self._plan())
        require(batches >= world_size, f"{world_size} ranks have {batches} batches: some would have none; lower max_tokens or max_batch, or use fewer ranks")

    def set_epoch(self, epoch: int) -> None:
        """The epoch whose batches come next: another order, the same on every rank."""
        self._epoch = epoch
        self._done = 0

    def __len__(self) -> int:
        return len(self._share())

    def __iter__(self) -> Iterator[list[int]]:
        share = self._share()
        while self._done < len(share):
            batch = share[self._done]
            self._done += 1
            yield batch
        self._done = 0

    def state_dict(self) -> dict[str, int]:
        """For a checkpoint: epoch, and batches of it that were given out."""
        return {"epoch": self._epoch, "done": self._done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Goes on behind the batches that `state_dict` counted."""
        self._epoch, self._done = state["epoch"], state["done"]

    def _share(self) -> list[list[int]]:
        batches = self._plan()
        whole = len(batches) - len(batches) % self._world_size
        return batches[self._rank : whole : self._world_size]

    def _plan(self) -> list[list[int]]:
        """All batches of all ranks, from seed and epoch alone."""
        draw = random.Random(f"{self._seed}/{self._epoch}")
        order = list(range(len(self._lengths)))
        if self._shuffle:
            draw.shuffle(order)
        order.sort(key=self._lengths.__getitem__)  # stable: samples of one length stay in drawn order
        batches: list[list[int]] = [[]]
        for index in order:
            batch = batches[-1]
            is_full = self._max_batch is not None and len(batch) >= self._max_batch
            if batch and (is_full or self._lengths[index] * (len(batch) + 1) > self._max_tokens):
                batches.append([])
            batches[-1].append(index)
        if self._shuffle:
            draw.shuffle(batches)
        return batches
