"""The largest batch that fits, predicted from a few small steps instead of found by running out of memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ..._trouble import byte_count, require, require_type, whole_number
from ..byte_words import in_bytes
from ..in_run import tell_facts, tell_mark
from ..measuring.accounting import device_of
from .memory_fit import MemoryFit, Point, fit_memory
from .part_growth import PartGrowth
from .probes import Prober, SizedStep, StepMemory, restored
from .rank_agreement import smallest_of_all
from .told_batch import tell_weights

# Kept free at the first large step: allocators round and fragment. Once that step came out as predicted, less is enough.
FIRST_MARGIN = 0.08
LAST_MARGIN = 0.02
# Where tensors are counted, nothing is rounded.
COUNTED_MARGIN = 0.005
# A batch that could be larger by no more than this is large enough.
AGREEMENT = 0.02
# Small steps may peak where the batch matters little, in the optimizer: nobody trusts a fit further than this many times its largest step.
FARTHEST = 64
# For models and optimizers so odd that no fit holds.
MOST_STEPS = 16
# Larger batches are refused by kernels of CUDA, not by memory.
MOST = 65_535


class NoBatchFits(RuntimeError):
    """Not even the smallest batch fits into memory."""


@dataclass(frozen=True)
class BatchSize:
    """The batch size that was found, with the evidence."""

    batch_size: int
    """The largest batch that a verified step fitted with, on all ranks."""
    peak_bytes: int
    """Peak of the verified step."""
    budget_bytes: int
    fit: MemoryFit
    points: list[Point] = field(repr=False)
    """Every measured step: batch size, length, peak bytes."""
    ooms: int = 0
    """Steps that ran out of memory while searching."""

    @property
    def probes(self) -> int:
        """Steps that were run, the warm-up left out."""
        return len(self.points) + self.ooms

    def largest(self, length: int, *, margin: float = FIRST_MARGIN) -> int:
        """The largest batch of another length, by the fit, with a share of the budget left free."""
        return self.fit.largest_batch(self.budget_bytes * (1 - margin), length)

    def token_budget(self, length: int, *, margin: float = FIRST_MARGIN) -> int:
        """Padded tokens that fit in batches of up to this length: for `TokenBudgetBatches`."""
        return length * self.largest(length, margin=margin)


def find_batch_size(
    step: SizedStep,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    length: int = 1,
    budget_bytes: int | None = None,
    minimum: int = 1,
    maximum: int = MOST,
) -> BatchSize:
    """Finds the largest batch size whose training step fits.

    `step(batch_size, length)` runs a whole training step, forward to optimizer, on a batch of that shape: make it of your longest samples.
    `length` is their length; with a length above 1, a step of half of it tells how memory grows with length.
    `budget_bytes` is what a step may take; without it, all that this process can have of the GPU.
    `maximum` is the largest size to try; kernels of CUDA refuse batches above its default of 65,535.
    Weights, optimizer state and random state are afterwards as they were. With `torch.distributed`, all ranks agree on the smallest size.

    A first step warms up (the optimizer's state appears), two steps are measured part by part, and the size that their lines predict is verified by a step.
    Raises `NoBatchFits` when not even `minimum` does.

    >>> model = torch.nn.Linear(100, 100)
    >>> optimizer = torch.optim.AdamW(model.parameters())
    >>> def step(batch_size, length):
    ...     model(torch.ones(batch_size, 100)).square().mean().backward()
    ...     optimizer.step()
    ...     optimizer.zero_grad()
    >>> found = find_batch_size(step, model, optimizer, budget_bytes=4_000_000)
    >>> 0.9 < found.peak_bytes / found.budget_bytes <= 1, found.ooms
    (True, 0)
    """
    require_type(model, torch.nn.Module, "model")
    require(callable(step), f"step must be a function of batch size and length, not {type(step).__name__}")
    minimum = whole_number(minimum, "minimum", least=1)
    maximum = whole_number(maximum, "maximum", least=1)
    length = whole_number(length, "length", least=1)
    budget_bytes = None if budget_bytes is None else byte_count(budget_bytes, "budget_bytes")
    require(maximum >= minimum, f"maximum is {maximum}, below minimum, {minimum}")
    device = device_of(model)
    prober = Prober(step, model=model, optimizer=optimizer, device=device, budget_bytes=budget_bytes)
    with restored(model, optimizer, device):
        search = _Search(prober, length, minimum, maximum)
        own = search.run()
    # Every rank comes here, also one on which nothing fits: whoever waits for the others would wait for ever.
    agreed = smallest_of_all(own)
    if agreed < minimum:
        tell_weights(model, optimizer, prober.budget_bytes)
        raise NoBatchFits(search.refusal() if own < minimum else "another rank cannot fit even the smallest batch")
    fit, peak = search.fit(), search.peak(agreed)
    tell_mark(f"largest batch: {agreed} samples, {in_bytes(peak)} of {in_bytes(prober.budget_bytes)}, found in {len(search.points) + search.ooms} steps")
    found = {"largest_micro_batch": agreed, "measured_micro_batch": agreed}
    tell_facts("batch", found | {"budget_bytes": prober.budget_bytes, "bytes_per_sample": fit.per_sample(length)})
    return BatchSize(agreed, peak, prober.budget_bytes, fit, search.points, search.ooms)


class _Search:
    """Probes of one rank."""

    def __init__(self, prober: Prober, length: int, minimum: int, maximum: int) -> None:
        self._prober = prober
        self._length = length
        self._minimum = minimum
        self._limit = maximum
        self._last_margin = COUNTED_MARGIN if prober.is_counted else LAST_MARGIN
        self._steps: dict[int, StepMemory] = {}
        self._shorter: Point | None = None
        self._grew_faster = False
        self.points: list[Point] = []
        self.ooms = 0

    def run(self) -> int:
        """The size that fits here, or 0."""
        low = self._minimum
        # The optimizer's state is made in the first step; the second one has it from its beginning.
        if self._prober.memory(low, self._length) is None:
            self.ooms += 1
            return 0
        if not self._fits(low):
            return 0
        second = min(self._limit, max(2 * low, min(self._surely_fitting(FIRST_MARGIN), FARTHEST * low)))
        if second > low and self._fits(second) and self._length > 1:
            self._measure_shorter()
        margin = FIRST_MARGIN
        for _ in range(MOST_STEPS):
            best = self._best()
            goal = min(self._predicted(margin), self._cautious(margin))
            if self.ooms:
                # The fit was wrong: half of the way to what failed.
                goal = min(goal, (best + self._limit + 1) // 2)
            if goal - best <= best * AGREEMENT:
                if margin == self._last_margin:
                    break
                margin = self._last_margin
                continue
            self._fits(goal)
        return self._best()

    def refusal(self) -> str:
        return (
            f"a batch of {self._minimum} does not fit into {in_bytes(self._prober.budget_bytes)}: {self._prober.last_oom}; "
            "a smaller model, checkpoints or a shorter length is needed"
        )

    def peak(self, size: int) -> int:
        """The peak of a step, measured or, where another rank allows no larger one, expected."""
        if size in self._steps:
            return self._steps[size].peak
        growth = self._growth()
        return int(self.fit().peak(size, self._length) if growth is None else growth.peak(size))

    def fit(self) -> MemoryFit:
        """The line of the part that ends the growth of the batch: small steps may peak in another one, where the batch matters less."""
        growth = self._growth()
        last = None if growth is None else growth.last_part(lambda _: self._prober.budget_bytes)
        if growth is None or last is None:
            return fit_memory(self.points)
        part, _ = last
        points = [(growth.small, self._length, growth.at_small[part]), (growth.large, self._length, growth.at_large[part])]
        if self._shorter is not None:
            # By its peak: the part that ends the growth may be another one there.
            points.append(self._shorter)
        return fit_memory(points)

    def _predicted(self, margin: float) -> int:
        """The largest size that leaves a share of the budget free, not smaller than the best."""
        best, budget = self._best(), self._prober.budget_bytes
        within = budget * (1 - margin)

        def allowed(level: int) -> float:
            # What takes nearly everything at any size may come nearer, half of the way at a time.
            return max(within, (level + budget) / 2) if margin == self._last_margin else within

        growth = self._growth()
        if growth is None:
            return max(best, min(self._limit, fit_memory(self.points).largest_batch(within, self._length)))
        last = growth.last_part(allowed)
        return self._limit if last is None else max(best, min(self._limit, int(last[1] + 1e-9)))

    def _cautious(self, margin: float) -> int:
        """The farthest that lines are trusted: while no part grows, and once the last step took more than its lines said, they promise too much."""
        best, growth = self._best(), self._growth()
        if self._grew_faster:
            return max(best, self._surely_fitting(margin))
        if growth is not None and growth.is_flat:
            return max(2 * best, self._surely_fitting(margin))
        return FARTHEST * best

    def _growth(self) -> PartGrowth | None:
        """Of the two largest steps, as wholes where they do not have the same parts; None where there is only one."""
        if len(self._steps) < 2:
            return None
        small, large = sorted(self._steps)[-2:]
        first, second = self._steps[small], self._steps[large]
        if len(first.parts) == len(second.parts):
            return PartGrowth(small, large, first.parts, second.parts)
        return PartGrowth(small, large, [first.peak], [second.peak])

    def _surely_fitting(self, margin: float) -> int:
        """The size that fits even if all that the largest step took, beyond what is always held, grows with the batch."""
        best = self._best()
        per_sample = (self._steps[best].peak - self._prober.held_bytes) / best
        room = self._prober.budget_bytes * (1 - margin) - self._prober.held_bytes
        return int(room / per_sample) if per_sample > 0 else self._limit

    def _best(self) -> int:
        return max(self._steps, default=0)

    def _fits(self, size: int) -> bool:
        best, growth = self._best(), self._growth()
        step = self._prober.memory(size, self._length)
        if step is None:
            self.ooms += 1
            self._limit = min(self._limit, size - 1)
            return False
        if growth is not None:
            known = self._steps[best].peak
            expected = growth.peak(size) - known
            self._grew_faster = not growth.is_flat and step.peak - known > expected * (1 + AGREEMENT)
        self._steps[size] = step
        self.points.append((size, self._length, step.peak))
        return True

    def _measure_shorter(self) -> None:
        """A step of half of the length tells how memory grows with length."""
        size, length = self._best(), self._length // 2
        step = self._prober.memory(size, length)
        if step is not None:
            self._shorter = (size, length, step.peak)
            self.points.append(self._shorter)
