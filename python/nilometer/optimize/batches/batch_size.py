"""The largest batch that fits, predicted from a few small steps instead of found by running out of memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from ..._trouble import byte_count, require, require_type, whole_number
from ..in_run import tell_facts, tell_mark
from ..measuring.accounting import device_of
from .memory_fit import MemoryFit, Point, fit_memory
from .probes import Prober, SizedStep, restored
from .rank_agreement import smallest_of_all

# Kept free at the first large step: allocators round and fragment. Once that step came out as predicted, less is enough.
FIRST_MARGIN = 0.08
LAST_MARGIN = 0.02
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
    Weights, optimizer state and random state are afterwards as they were. With `torch.distributed`, all ranks agree on the smallest size.

    A first step warms up (the optimizer's state appears), small steps are measured, and the size that their fit foretells is verified by a step.
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
        raise NoBatchFits(search.refusal() if own < minimum else "another rank cannot fit even the smallest batch")
    fit = fit_memory(search.points)
    peak = search.peaks.get(agreed, int(fit.peak(agreed, length)))
    tell_mark(f"largest batch: {agreed} samples, {peak} of {prober.budget_bytes} bytes, found in {len(search.points) + search.ooms} steps")
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
        self.points: list[Point] = []
        self.peaks: dict[int, int] = {}
        self.ooms = 0

    def run(self) -> int:
        """The size that fits here, or 0."""
        low = self._minimum
        # The optimizer's state is made in the first step.
        if self._prober.peak(low, self._length) is None:
            self.ooms += 1
            return 0
        sizes = [low, 2 * low, 4 * low] if self._length == 1 else [low, 4 * low]
        for size in sizes:
            if size <= self._limit and not self._fits(size):
                break
        if self._length > 1 and len(self.peaks) > 1:
            self._measure(max(self.peaks), self._length // 2)
        margin = FIRST_MARGIN
        for _ in range(MOST_STEPS):
            best = self._best()
            goal = min(self._predicted(margin), FARTHEST * best)
            if self._is_bent():
                goal = min(goal, max(best, self._surely_fitting(margin)))
            if self.ooms:
                # The fit was wrong: half of the way to what failed.
                goal = min(goal, (best + self._limit + 1) // 2)
            if goal - best <= best * AGREEMENT:
                if margin == LAST_MARGIN or self.ooms:
                    break
                margin = LAST_MARGIN
                continue
            self._fits(goal)
        return self._best()

    def refusal(self) -> str:
        return (
            f"a batch of {self._minimum} does not fit into {self._prober.budget_bytes} bytes: {self._prober.last_oom}; "
            "a smaller model, checkpoints or a shorter length is needed"
        )

    def _predicted(self, margin: float) -> int:
        fit = fit_memory([(size, self._length, peak) for size, peak in self.peaks.items()])
        budget = self._prober.budget_bytes * (1 - margin)
        return max(self._best(), min(self._limit, fit.largest_batch(budget, self._length)))

    def _is_bent(self) -> bool:
        """Whether the last step grew faster than the one before: it then grows still faster above, and the fit foretells too much."""
        sizes = sorted(self.peaks)
        steps = zip(sizes, sizes[1:], strict=False)
        slopes = [(self.peaks[upper] - self.peaks[lower]) / (upper - lower) for lower, upper in steps]
        return bool(slopes) and (slopes[-1] <= 0 or (len(slopes) > 1 and slopes[-1] > slopes[-2] * (1 + AGREEMENT)))

    def _surely_fitting(self, margin: float) -> int:
        """The size that fits even if all that the largest step took, beyond what is always held, grows with the batch."""
        best = self._best()
        per_sample = (self.peaks[best] - self._prober.held_bytes) / best
        room = self._prober.budget_bytes * (1 - margin) - self._prober.held_bytes
        return int(room / per_sample) if per_sample > 0 else self._limit

    def _best(self) -> int:
        return max(self.peaks, default=0)

    def _fits(self, size: int) -> bool:
        if self._measure(size, self._length):
            return True
        self.ooms += 1
        self._limit = min(self._limit, size - 1)
        return False

    def _measure(self, size: int, length: int) -> bool:
        peak = self._prober.peak(size, length)
        if peak is None:
            return False
        self.points.append((size, length, peak))
        if length == self._length:
            self.peaks[size] = peak
        return True
