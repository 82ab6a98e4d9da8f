"""Training steps that survive running out of memory: the same samples again in smaller micro-batches, on all ranks alike."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..._trouble import require, require_type, whole_number
from ..in_run import newest_step, tell_facts, tell_mark, tell_metrics
from ..measuring.accounting import TensorMeter, device_of
from ..measuring.oom_recovery import attempt, release
from ..measuring.trial import random_state, set_random_state
from .batch_growth import BatchGrowth
from .batch_normalization import NormalizationWarning
from .batch_size import NoBatchFits
from .gradient_sum import GradientSum
from .language_model_loss import LanguageModelLoss
from .micro_batches import LossSum, accumulate, batch_length, count_targets
from .probes import free_device_bytes
from .rank_agreement import least_and_sum, smallest_of_all, sum_of_all, world_size
from .told_batch import ToldBatch, tell_weights

# A larger size is tried only where one and a half times what it adds is free.
HEADROOM = 1.5
# A program that has logged nothing after so many steps counts no steps of its own.
_PATIENCE_STEPS = 10
# In an exchange of smallest numbers: no size failed here.
_NEVER = 1 << 62


@dataclass(frozen=True)
class BatchStep:
    """What one training step did."""

    loss: float
    """Loss of the whole batch, the samples of all ranks: the same number on each of them."""
    micro_batch: int
    """Samples that went through the model at a time."""
    retries: int
    """How often memory ran out on some rank and the samples were run again."""


class AdaptiveBatches:
    """Runs training steps of whole batches through micro-batches of a size that fits.

    `loss_sum(model, micro_batch)` gives the sum of the losses; `count(batch)` says over how many targets a batch is averaged.
    Without `count`, `language_model_loss_sum` counts what the model itself averages over, and any other loss the labels that are not -100, or samples.
    When memory runs out on any rank, all ranks drop the step's gradients, restore RNG state and run the same samples in micro-batches of half the size. After `grow_after` steps without trouble the size grows again where there is room, but not to one that failed within the last `retry_after` steps.
    The current run gets a mark at each change of the size, and the size as `batch/size` (unless `tell_size=False`).
    Gradients are exchanged once per step, after all ranks have agreed that backward went well: pass the model itself, not wrapped in DistributedDataParallel (a wrapper is unwrapped).

    >>> model = torch.nn.Linear(8, 1)
    >>> batches = AdaptiveBatches(
    ...     model, torch.optim.SGD(model.parameters(), lr=0.1), lambda model, x: model(x).square().sum(), micro_batch=4
    ... )
    >>> step = batches.step(torch.ones(10, 8))
    >>> step.micro_batch, step.retries
    (4, 0)
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_sum: LossSum,
        *,
        micro_batch: int,
        minimum: int = 1,
        maximum: int | None = None,
        count: Callable[[Any], float] | None = None,
        max_grad_norm: float | None = None,
        grow_after: int = 100,
        retry_after: int = 1000,
        meter: TensorMeter | None = None,
        tell_size: bool = True,
    ) -> None:
        require_type(model, torch.nn.Module, "model")
        require_type(optimizer, torch.optim.Optimizer, "optimizer")
        minimum = whole_number(minimum, "minimum", least=1)
        micro_batch = whole_number(micro_batch, "micro_batch", least=1)
        maximum = None if maximum is None else whole_number(maximum, "maximum", least=1)
        grow_after = whole_number(grow_after, "grow_after", least=1)
        retry_after = whole_number(retry_after, "retry_after", least=1)
        require(micro_batch >= minimum, f"micro_batch is {micro_batch}, below minimum, {minimum}")
        require(maximum is None or maximum >= micro_batch, f"maximum is {maximum}, below micro_batch, {micro_batch}")
        if max_grad_norm is not None:
            require_type(max_grad_norm, (int, float), "max_grad_norm")
            require(max_grad_norm > 0, f"max_grad_norm must be positive, not {max_grad_norm}")
        wrapped = getattr(model, "module", None)
        is_wrapper = isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel))
        self.model: torch.nn.Module = wrapped if is_wrapper and isinstance(wrapped, torch.nn.Module) else model
        own = {id(parameter) for parameter in self.model.parameters()}
        theirs = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        require(bool(own & theirs), "the optimizer has none of the model's parameters: make it from model.parameters(), after the model is on its device")
        self.optimizer = optimizer
        self.micro_batch = micro_batch
        self.ooms = 0
        self.failed_in_step: list[int] = []
        """Sizes that ran out of memory in the latest step, one after the other."""
        self._loss_sum = loss_sum
        self._minimum = minimum
        self._maximum = maximum
        own_count = functools.partial(loss_sum.count, self.model) if isinstance(loss_sum, LanguageModelLoss) else count_targets
        self._count: Callable[[Any], float] = own_count if count is None else count
        self._max_grad_norm = max_grad_norm
        self._meter = meter
        self._device = device_of(self.model)
        self._growth = BatchGrowth(grow_after, retry_after)
        self._told = ToldBatch()
        self._recovered = 0
        self._level_before = 0
        self._told_size: int | None = None
        self._tells_size = tell_size
        self._steps = 0
        self._normalization = NormalizationWarning()

    def step(self, batch: Any) -> BatchStep:
        """One training step on this rank's samples, optimizer included. Every rank has to call it."""
        samples = batch_length(batch)
        # Of several ranks one may have nothing to add; it waits for the others all the same.
        require(samples > 0 or world_size() > 1, "the batch is empty: it has no samples")
        targets = sum_of_all(self._count(batch)) or 1
        states = random_state(self._device)
        retries = 0
        self.failed_in_step = []
        while True:
            size = min(self.micro_batch, samples)
            if size < samples:
                self._normalization.on_split(self.model, stacklevel=2)
            self.optimizer.zero_grad(set_to_none=True)
            self._reset_peak()
            tried = attempt(lambda: self._loss_and_sum(batch, targets))
            loss, gradients = tried.result or (0.0, None)
            if tried.oom:
                release(self.model, self.optimizer)
            failed_size = size if tried.oom else _NEVER
            # One exchange: did all go well, to which size would each rank go next, which size failed, and what is the loss of all?
            verdict = (int(not tried.oom), self._next_size(failed_size, samples), failed_size)
            (went_well, next_size, failed_size), loss = least_and_sum(verdict, loss)
            if went_well:
                break
            # Also what was made for an exchange that does not happen.
            tried.result = gradients = None
            retries += 1
            self.ooms += 1
            self._growth.note_failure(failed_size)
            release(self.model, self.optimizer)
            set_random_state(self._device, states)
            self.failed_in_step.append(failed_size)
            if next_size < self._minimum:
                tell_facts("batch", {"failed_micro_batch": failed_size})
                tell_weights(self.model, self.optimizer, self._limit())
                raise NoBatchFits(
                    f"memory ran out with micro-batches of {failed_size}, and the minimum is {self._minimum}: {tried.oom or 'on another rank'}"
                )
            tell_mark(f"batch size {self.micro_batch} -> {next_size}: out of memory with {failed_size} samples")
            self.micro_batch = next_size
        if gradients is not None:
            gradients.exchange()
        tried.result = gradients = None
        self._update()
        self.optimizer.zero_grad(set_to_none=True)
        self._growth.note_success()
        self._recovered += retries
        done = BatchStep(loss, self.micro_batch, retries)
        self._steps += 1
        self._tell_size()
        self._told.tell(self.micro_batch, samples=samples or self.micro_batch, recovered=self._recovered, maximum=self._maximum)
        if not retries and next_size > self.micro_batch:
            tell_mark(f"batch size {self.micro_batch} -> {next_size}: {self._growth.clean_steps} steps without failure, with memory to spare")
            self.micro_batch = next_size
            self._growth.clean_steps = 0
        return done

    def _loss_and_sum(self, batch: Any, targets: float) -> tuple[float, GradientSum]:
        loss = accumulate(self.model, batch, self._loss_sum, size=self.micro_batch, targets=targets)
        return loss, GradientSum(self.model)

    def _update(self) -> None:
        def update() -> None:
            if self._max_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._max_grad_norm)
            self.optimizer.step()

        if self._steps or world_size() == 1:
            update()
            return
        # The optimizer's state appears in its first step: where that does not fit on one rank, the others must not go on and wait for it.
        tried = attempt(update)
        if not smallest_of_all(int(not tried.oom)):
            raise NoBatchFits(f"memory ran out in the first step of the optimizer: {tried.oom or 'on another rank'}")

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint: a resumed training begins with the size that it had."""
        return {
            "micro_batch": self.micro_batch,
            "ooms": self.ooms,
            "clean_steps": self._growth.clean_steps,
            "failed_size": self._growth.failed_size,
            "steps_since_failure": self._growth.steps_since_failure,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes up what `state_dict` gave."""
        missing = [name for name in self.state_dict() if not isinstance(state, Mapping) or name not in state]
        require(not missing, f"this is not a state of AdaptiveBatches: it has no {', '.join(missing)}")
        self.micro_batch = max(self._minimum, int(state["micro_batch"]))
        if self._maximum is not None:
            self.micro_batch = min(self.micro_batch, self._maximum)
        self.ooms = int(state["ooms"])
        self._growth.clean_steps = int(state["clean_steps"])
        self._growth.failed_size = state["failed_size"]
        self._growth.steps_since_failure = int(state["steps_since_failure"])

    def _tell_size(self) -> None:
        step = newest_step(self._steps if self._steps >= _PATIENCE_STEPS else None)
        # A figure without a step would be counted as one of the program's own.
        if self._tells_size and step is not None and self.micro_batch != self._told_size:
            self._told_size = self.micro_batch
            tell_metrics({"batch/size": float(self.micro_batch)}, step=step)

    def _next_size(self, failed_size: int, samples: int) -> int:
        """The size that this rank would take next: half after a failure (0 below the least), more where there is room."""
        if failed_size != _NEVER:
            return max(failed_size // 2, self._minimum) if failed_size > self._minimum else 0
        larger = min(self._larger_size(), samples)
        if larger <= self.micro_batch or not self._growth.due_after_this_step or not self._has_room(larger):
            return self.micro_batch
        return larger

    def _larger_size(self) -> int:
        larger = self._growth.larger(self.micro_batch)
        return larger if self._maximum is None else min(larger, self._maximum)

    def _has_room(self, size: int) -> bool:
        """By what this step took: its memory grows at most in proportion to the micro-batch."""
        peak, limit = self._peak(), self._limit()
        if peak is None or limit is None:
            return True
        per_sample = (peak - self._level_before) / self.micro_batch
        return peak + HEADROOM * per_sample * (size - self.micro_batch) <= limit

    def _reset_peak(self) -> None:
        if self._meter is not None:
            self._meter.reset_peak()
            self._level_before = self._meter.level
        elif self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
            self._level_before = torch.cuda.memory_allocated(self._device)

    def _peak(self) -> int | None:
        if self._meter is not None:
            return self._meter.peak
        return torch.cuda.max_memory_reserved(self._device) if self._device.type == "cuda" else None

    def _limit(self) -> int | None:
        if self._meter is not None:
            return self._meter.limit_bytes
        return free_device_bytes(self._device) if self._device.type == "cuda" else None
