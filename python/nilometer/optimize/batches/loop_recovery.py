"""Recovery from running out of memory in the loops of Hugging Face's `Trainer` and of Lightning: the same batch again, in parts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..._trouble import require, whole_number
from ..in_run import newest_step, tell_facts, tell_mark, tell_metrics
from ..measuring.accounting import device_of
from ..measuring.oom_recovery import attempt, release
from ..measuring.trial import random_state, set_random_state
from .batch_growth import BatchGrowth
from .batch_normalization import NormalizationWarning
from .batch_size import NoBatchFits
from .gradient_exchange import GradientExchange
from .micro_batches import batch_length, count_targets, split_batch
from .rank_agreement import smallest_of_all
from .told_batch import ToldBatch

# In an exchange of smallest numbers: no size failed here.
_NEVER = 1 << 62

RunPart = Callable[[Any, float], float]
"""Forward and backward of a part of a batch that counts with this share; gives its loss."""


class BatchRecovery:
    """Runs batches whole while they fit, and in parts of half the size once memory has run out; after `grow_after` clean steps it tries more, but not a size that failed within the last `retry_after`.

    Gradients are those of the whole batch. Where memory runs out on one of several ranks, all of them run their batches again, in parts of one size.
    """

    def __init__(self, minimum: int = 1, grow_after: int = 100, retry_after: int = 1000) -> None:
        minimum = whole_number(minimum, "minimum", least=1)
        grow_after = whole_number(grow_after, "grow_after", least=1)
        retry_after = whole_number(retry_after, "retry_after", least=1)
        self.ooms = 0
        self.micro_batch: int | None = None
        """Samples at a time; None while batches run whole."""
        self._minimum = minimum
        self._growth = BatchGrowth(grow_after, retry_after)
        self._told = ToldBatch()
        self._most_rows = 0
        self._normalization = NormalizationWarning()
        self._undo: list[Callable[[], None]] = []

    def undo(self) -> None:
        """The loop runs as before."""
        while self._undo:
            self._undo.pop()()

    def run(self, model: torch.nn.Module, batch: Any, run_part: RunPart, exchange: GradientExchange | None = None, accumulation: int = 1) -> float:
        """Forward and backward of a batch; gives its loss. Gradients are added to those that are there, as backward does.

        `exchange` has then reserved what it needs; `accumulation` is how many batches the loop takes for a step. Every rank has to call it, with a model that exchanges nothing while it runs: who ran out could not join.
        """
        device, rows = device_of(model), batch_length(batch)
        require(rows > 0, "the batch is empty: it has no samples")
        targets = count_targets(batch) or 1
        earlier = [(parameter, parameter.grad) for parameter in model.parameters()]
        for parameter, _ in earlier:
            parameter.grad = None
        states = random_state(device)

        def all_parts(size: int) -> float:
            loss = sum(run_part(part, count_targets(part) / targets) for part in split_batch(batch, size))
            if exchange is not None:
                exchange.reserve()
            return loss

        try:
            while True:
                size = min(self.micro_batch or rows, rows)
                if size < rows:
                    self._normalization.on_split(model, stacklevel=3)
                tried = attempt(lambda size=size: all_parts(size))  # type: ignore[misc]
                failed_size = smallest_of_all(size if tried.oom else _NEVER)
                if failed_size == _NEVER:
                    break
                if exchange is not None:
                    exchange.give_back()
                release(model)
                set_random_state(device, states)
                self._shrink(failed_size, tried.oom or "on another rank")
        finally:
            for parameter, gradient in earlier:
                if gradient is not None:
                    parameter.grad = gradient if parameter.grad is None else gradient.add_(parameter.grad)
        # The last batch of an epoch may be smaller: it is not what the training runs with.
        self._most_rows = max(rows, self._most_rows)
        size = min(self.micro_batch or self._most_rows, self._most_rows)
        self._told.tell(size, samples=self._most_rows, recovered=self.ooms, accumulation=accumulation)
        self._note_success(rows)
        return tried.result or 0.0

    def _shrink(self, size: int, oom: str) -> None:
        self.ooms += 1
        self._growth.note_failure(size)
        if size <= self._minimum:
            tell_facts("batch", {"failed_micro_batch": size})
            raise NoBatchFits(f"memory ran out with {size} samples, and the minimum is {self._minimum}: {oom}")
        self.micro_batch = max(self._minimum, size // 2)
        tell_mark(f"batch size {size} -> {self.micro_batch}: out of memory with {size} samples")
        tell_metrics({"batch/size": float(self.micro_batch)}, step=newest_step(0))

    def _note_success(self, rows: int) -> None:
        if self.micro_batch is None:
            return
        self._growth.note_success()
        larger = min(self._growth.larger(self.micro_batch), rows)
        if self._growth.is_due and larger > self.micro_batch:
            tell_mark(f"batch size {self.micro_batch} -> {larger}: {self._growth.clean_steps} steps without failure")
            tell_metrics({"batch/size": float(larger)}, step=newest_step(0))
            self.micro_batch, self._growth.clean_steps = larger, 0


def recover_trainer(trainer: Any, *, minimum: int = 1, grow_after: int = 100, retry_after: int = 1000) -> BatchRecovery:
    """Lets a Hugging Face `Trainer` survive running out of memory in `training_step`: call it before `trainer.train()`.

    A batch that does not fit is run again in halves, weighted by their labels, down to `minimum` samples; the trainer's batches and steps stay what they are.
    Under torchrun every rank has to call it: they run their batches again together, and gradients are averaged once all of them went well.
    """
    _check_loop(trainer, "trainer", "a Trainer of Hugging Face", ("args", "training_step", "compute_loss"))
    arguments = trainer.args
    if getattr(arguments, "deepspeed", None) or getattr(arguments, "fsdp", None) or arguments.n_gpu > 1:
        raise ValueError(
            "the trainer uses DeepSpeed, FSDP or several GPUs in one process, where a step cannot be run again: start one process for each GPU with torchrun"
        )
    recovery = BatchRecovery(minimum, grow_after, retry_after)
    training_step, compute_loss = trainer.training_step, trainer.compute_loss

    found: list[bool] = []

    def adds_up(model: torch.nn.Module, part: Any, items: Any) -> bool:
        """Whether losses are divided by the items of the whole batch: many models and functions take their number and ignore it, so it is tried, once."""
        if items is None:
            return False
        if not found:
            found.append(_divides_by_items(trainer, model, next(iter(split_batch(part, 1))), items))
        return found[0]

    @functools.wraps(training_step)
    def step(model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        exchange = GradientExchange(model)
        own = exchange.model

        def run_part(part: Any, share: float) -> float:
            # Losses over the items of the whole batch add up; means have to be weighted.
            if share != 1.0 and not adds_up(own, part, num_items_in_batch):
                trainer.compute_loss = lambda *args, **kwargs: share * compute_loss(*args, **kwargs)
            try:
                return float(training_step(own, part, num_items_in_batch))
            finally:
                trainer.compute_loss = compute_loss

        exchange.share_buffers()
        loss = recovery.run(own, dict(inputs), run_part, exchange, arguments.gradient_accumulation_steps)
        exchange.average()
        return torch.tensor(loss, device=arguments.device)

    step._recovery = recovery  # type: ignore[attr-defined]
    trainer.training_step = step
    recovery._undo.append(lambda: setattr(trainer, "training_step", training_step))
    return recovery


def _divides_by_items(trainer: Any, model: torch.nn.Module, sample: Any, items: Any) -> bool:
    device = device_of(model)
    states = random_state(device)
    losses = []
    for factor in (1, 2):
        set_random_state(device, states)
        with torch.no_grad(), trainer.compute_loss_context_manager():
            losses.append(float(trainer.compute_loss(model, trainer._prepare_inputs(dict(sample)), num_items_in_batch=factor * items)))
    set_random_state(device, states)
    return losses[0] != 0 and abs(2 * losses[1] / losses[0] - 1) < 0.01


def recover_lightning(module: Any, *, minimum: int = 1, grow_after: int = 100, retry_after: int = 1000) -> BatchRecovery:
    """Lets a Lightning module survive running out of memory in `training_step` and its backward pass: call it before `trainer.fit(module)`.

    A batch that does not fit is run again in halves, weighted by their samples (by `labels` where a batch has them), down to `minimum` samples. `training_step` is then called once for each part.
    With the strategy `ddp` all ranks run their batches again together, and gradients are averaged once all of them went well. `training_step` must not exchange anything itself then, as `self.log(..., sync_dist=True)` does: a rank that ran out could not join.
    For automatic optimization without a gradient scaler (precision `16-mixed`).
    """
    _check_loop(module, "module", "a module of Lightning", ("automatic_optimization", "training_step", "backward"))
    if not module.automatic_optimization:
        raise ValueError("the module uses manual optimization (automatic_optimization=False): use AdaptiveBatches in its training_step")
    recovery = BatchRecovery(minimum, grow_after, retry_after)
    training_step, backward = module.training_step, module.backward
    computed: list[tuple[torch.nn.Parameter, torch.Tensor]] = []
    pending: list[GradientExchange] = []

    @functools.wraps(training_step)
    def step(batch: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(module.trainer.precision_plugin, "scaler", None) is not None:
            raise ValueError("recovery does not work with a gradient scaler: use precision bf16-mixed or 32")
        given: Any = None
        accumulation = module.trainer.accumulate_grad_batches

        def run_part(part: Any, share: float) -> float:
            nonlocal given
            given = training_step(part, *args, **kwargs)
            loss = given["loss"] if isinstance(given, dict) else given
            with torch.autocast(device_of(module).type, enabled=False):
                (loss * (share / accumulation)).backward()
            return share * float(loss.detach())

        kept = [(parameter, parameter.grad) for parameter in module.parameters()]
        for parameter, _ in kept:
            parameter.grad = None
        exchange = GradientExchange(module.trainer.strategy.model)
        total = recovery.run(module, batch, run_part, exchange, accumulation)
        # DistributedDataParallel, inside of whose forward we are, would wait for gradients that are there already.
        exchange.hold()
        pending[:] = [exchange]
        # Lightning empties gradients after training_step and calls backward then: they are handed over there.
        computed[:] = [(parameter, parameter.grad) for parameter, _ in kept if parameter.grad is not None]
        for parameter, gradient in kept:
            parameter.grad = gradient
        leaf = torch.tensor(total, device=device_of(module), requires_grad=True)
        return {**given, "loss": leaf} if isinstance(given, dict) else leaf

    def hand_over(loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        backward(loss, *args, **kwargs)
        for parameter, gradient in computed:
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
        computed.clear()
        while pending:
            pending.pop().average()

    step._recovery = recovery  # type: ignore[attr-defined]
    module.training_step, module.backward = step, hand_over
    recovery._undo += [lambda: delattr(module, "training_step"), lambda: delattr(module, "backward")]
    return recovery


def _check_loop(loop: Any, name: str, expected: str, needed: tuple[str, ...]) -> None:
    """Refuses what is no such loop, and one that recovers already: two recoveries would run each part of a batch in parts."""
    if not all(hasattr(loop, one) for one in needed):
        raise TypeError(f"{name} must be {expected}, not {type(loop).__name__}")
    recovers = getattr(loop.training_step, "_recovery", None) is not None
    require(not recovers, f"this {name} already recovers from running out of memory: call undo() on the first result before calling this again")
