"""Checkpoints the blocks of a model so that a training step fits a budget at the least extra time, and proves that nothing else changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..._native import CheckpointCurve
from ..byte_words import in_bytes
from ..in_run import TellUndone, tell_optimization
from ..measuring.oom_recovery import attempt, release
from ..measuring.trial import LossFunction, StepFigures, Trial, check_trial, measure_step
from ..measuring.verification import compare
from .block_chain import ObservedChain, find_chain, observe
from .block_costs import ChainCosts, measure_costs
from .checkpointed_forward import put_on
from .plan_replay import replayed_peak
from .refusals import refusal_of_blocks, refusal_of_calls

# A plan whose measured peak is above the budget is made again with that much less, as often as this.
MOST_PLANS = 3
# Gradients of two runs of a model that are further apart are no rounding.
MOST_NOISE = 1e-3
# How many times the distance of two plain runs checkpoints may be off.
NOISE_FACTOR = 5.0


@dataclass
class CheckpointOutcome:
    """What `checkpoint_model` did, measured on the sample, or why it left the model alone."""

    applied: bool
    reason: str
    """Why nothing was applied, or which plans were possible."""
    chain: str = ""
    """Name of the list of blocks in the model."""
    units: list[Any] = field(default_factory=list)
    """The plan: the number of a kept block, or `(first, last, units inside)` of a segment that is run again."""
    budget_bytes: int | None = None
    peak_before_bytes: int = 0
    peak_after_bytes: int = 0
    predicted_peak_bytes: int = 0
    secs_before: float = 0.0
    secs_after: float = 0.0
    identical: bool = True
    """Loss, gradients and buffers are equal in every bit. Otherwise they are as near as the model is to itself: some GPU kernels add up in any order."""
    _undo: Callable[[], None] | None = field(default=None, repr=False)
    _tell_undone: TellUndone | None = field(default=None, repr=False)

    @property
    def saved_bytes(self) -> int:
        """How much lower the peak of a step is."""
        return self.peak_before_bytes - self.peak_after_bytes if self.applied else 0

    @property
    def checkpointed_blocks(self) -> int:
        """How many blocks are run again."""
        return sum(unit[1] - unit[0] + 1 for unit in self.units if isinstance(unit, tuple))

    def undo(self) -> None:
        """Takes the checkpoints off; the model is as it was, and the run is told."""
        if self._undo is not None:
            self._undo()
            self._undo = None
            self.applied = False
            self.reason = "undone"
            if self._tell_undone is not None:
                self._tell_undone(self.reason)

    def __str__(self) -> str:
        if not self.applied:
            return f"no checkpoints: {self.reason}"
        mib = 1 << 20
        return (
            f"{self.checkpointed_blocks} blocks of {self.chain} checkpointed: peak of a step "
            f"{self.peak_before_bytes / mib:.1f} -> {self.peak_after_bytes / mib:.1f} MiB, "
            f"{1e3 * self.secs_before:.1f} -> {1e3 * self.secs_after:.1f} ms; loss and gradients are "
            + ("identical" if self.identical else "as near as two runs of the model itself")
        )


def checkpoint_model(
    model: torch.nn.Module,
    sample: Any,
    *,
    budget_bytes: int | None = None,
    loss: LossFunction | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    nested: bool = True,
) -> CheckpointOutcome:
    """Checkpoints the repeated blocks of a model so that the peak of a training step stays within a budget.

    `sample` is a batch: a mapping is passed to the model as keywords, a tuple as arguments.
    `budget_bytes` is for everything that a step holds at its peak: weights, gradients, optimizer state, activations. Without it, the activations of the blocks are halved as nearly as can be.
    `loss` is a function from the model's output to a scalar; without it, the output's own loss is taken, or its mean square.
    `optimizer` counts towards the budget once it has state.
    `nested=False` computes no block more than twice.

    The plan is applied only if loss and all gradients of the sample are identical with and without it, dropout included, and if the peak is lower. A model whose GPU kernels differ from run to run may be off by as much as it is from itself (`identical` is then False).
    A model that cannot be checkpointed is left alone, and the outcome says why.

    >>> blocks = [torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)) for _ in range(8)]
    >>> model = torch.nn.Sequential(*blocks)
    >>> outcome = checkpoint_model(model, torch.randn(32, 64))
    >>> outcome.applied, outcome.saved_bytes > 0
    (True, True)
    >>> outcome.undo()
    """
    budget_bytes = check_trial(model, sample, budget_bytes)
    outcome = plan_and_apply(Trial(model, sample, loss, optimizer), budget_bytes=budget_bytes, nested=nested)
    outcome._tell_undone = tell_optimization(
        "checkpoint plan",
        applied=outcome.applied,
        before_bytes=outcome.peak_before_bytes or None,
        after_bytes=outcome.peak_after_bytes or None,
        before_seconds=outcome.secs_before or None,
        after_seconds=outcome.secs_after or None,
        measured="peak of a step on the sample",
        note=outcome.reason,
    )
    return outcome


def plan_and_apply(trial: Trial, *, budget_bytes: int | None = None, nested: bool = True) -> CheckpointOutcome:
    """What `checkpoint_model` does, without telling the run."""
    with _without_cache(trial.model) as forget_cache:
        chain, refusal = _checkable_chain(trial)
        if chain is None:
            return CheckpointOutcome(False, refusal, budget_bytes=budget_bytes)
        measured = attempt(lambda: measure_step(trial))
        before = measured.result
        if before is None:
            release()
            reason = f"a step without checkpoints does not fit, so nothing can be compared ({measured.oom}): pass a smaller sample and budget; the plan holds for larger ones"
            return CheckpointOutcome(False, reason, chain.name, budget_bytes=budget_bytes)
        curve, costs = _solve(trial, chain, nested=nested)
        budget = budget_bytes if budget_bytes is not None else _half(before, curve)
        outcome = CheckpointOutcome(False, "", chain.name, [], budget, before.peak_bytes, before.peak_bytes)
        outcome.secs_before = outcome.secs_after = before.secs
        if before.peak_bytes <= budget and budget_bytes is None:
            outcome.reason = "no plan takes less: the blocks keep no more than their checkpoints would"
            return outcome
        if before.peak_bytes <= budget:
            outcome.reason = f"a step takes {in_bytes(before.peak_bytes)}, which fits into the budget of {in_bytes(budget)}"
            return outcome
        take_off = _apply(trial, chain, curve, costs, before, outcome, must_fit=budget_bytes is not None)
        if take_off is not None:
            outcome._undo = _both(take_off, forget_cache())
        return outcome


def checkpoint_plans(
    model: torch.nn.Module,
    sample: Any,
    *,
    loss: LossFunction | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    nested: bool = True,
) -> list[tuple[int, float]]:
    """The curve of memory against time: peak bytes of a step and seconds of recomputation, for every plan worth having.

    Peaks are predicted from what each block was measured to take, mostly to a few per cent; `checkpoint_model` measures the plan that it applies.
    Nothing is changed. A model that cannot be checkpointed raises a ValueError that says why.
    """
    check_trial(model, sample)
    trial = Trial(model, sample, loss, optimizer)
    with _without_cache(model):
        chain, refusal = _checkable_chain(trial)
        if chain is None:
            raise ValueError(refusal)
        curve, costs = _solve(trial, chain, nested=nested)
    plans: list[tuple[int, float]] = []
    predicted = sorted((replayed_peak(costs, curve.plan(peak)[0]), recompute) for peak, _, recompute in curve.points)
    for peak, recompute in predicted:
        if not plans or recompute < plans[-1][1]:
            plans.append((peak, recompute))
    return plans


def _checkable_chain(trial: Trial) -> tuple[ObservedChain | None, str]:
    chain = find_chain(trial.model)
    if chain is None:
        return None, "the model has no ModuleList or Sequential of two or more blocks of one class"
    refusal = refusal_of_blocks(chain)
    if not refusal:
        observe(trial, chain)
        refusal = refusal_of_calls(chain)
    return (None, refusal) if refusal else (chain, "")


def _solve(trial: Trial, chain: ObservedChain, *, nested: bool) -> tuple[CheckpointCurve, ChainCosts]:
    costs = measure_costs(trial, chain)
    longest = 1 if chain.segment_refusal() else None
    figures = [block.figures() for block in costs.blocks]
    return CheckpointCurve(costs.input_bytes, figures, nested=nested, longest_segment=longest), costs


def _half(before: StepFigures, curve: CheckpointCurve) -> int:
    """What a step takes, less half of what the blocks take, or as much of it as can be had."""
    everything = curve.points[-1][0]
    return before.peak_bytes - (everything - max(everything // 2, curve.minimum_bytes))


def _apply(
    trial: Trial,
    chain: ObservedChain,
    curve: CheckpointCurve,
    costs: ChainCosts,
    before: StepFigures,
    outcome: CheckpointOutcome,
    *,
    must_fit: bool,
) -> Callable[[], None] | None:
    """Puts plans on, each after what the one before really took; gives the function that takes the best one off, or None and the reason in the outcome."""
    assert outcome.budget_bytes is not None
    gives_tuple = isinstance(chain.calls[0][0].output, tuple)
    chain.calls.clear()  # they hold the activations of the sample
    fitting = [peak for peak, _, _ in curve.points if replayed_peak(costs, curve.plan(peak)[0]) <= outcome.budget_bytes]
    available = max(fitting, default=curve.minimum_bytes)
    tried: list[Any] = []
    for _ in range(MOST_PLANS):
        units, peak_bytes, _, _ = curve.plan(max(available, curve.minimum_bytes))
        if units in tried:
            break
        tried.append(units)
        take_off = put_on(chain.blocks, units, gives_tuple=gives_tuple)
        try:
            after = measure_step(trial)
        finally:
            take_off()
        difference, outcome.identical = _difference(trial, before, after)
        if difference:
            outcome.applied, outcome.units = False, units
            outcome.peak_after_bytes, outcome.secs_after = after.peak_bytes, after.secs
            outcome.reason = f"reverted: with checkpoints {difference}"
            return None
        slack = outcome.budget_bytes - after.peak_bytes
        if slack < 0 and outcome.applied:
            break
        outcome.units, outcome.predicted_peak_bytes = units, replayed_peak(costs, units)
        outcome.peak_after_bytes, outcome.secs_after = after.peak_bytes, after.secs
        outcome.applied = slack >= 0
        # What a step really takes is mostly a little less or more than planned for.
        available += slack
        if slack < 0 and peak_bytes == curve.minimum_bytes:
            break
    outcome.applied = outcome.applied or not must_fit
    return _kept(chain, outcome, gives_tuple=gives_tuple)


def _kept(chain: ObservedChain, outcome: CheckpointOutcome, *, gives_tuple: bool) -> Callable[[], None] | None:
    """Puts the chosen plan on, if there is one that helps."""
    if not outcome.applied:
        outcome.reason = (
            f"the budget of {in_bytes(outcome.budget_bytes or 0)} is too small: the leanest plan tried takes {in_bytes(outcome.peak_after_bytes)}"
        )
        return None
    if outcome.peak_after_bytes >= outcome.peak_before_bytes:
        outcome.applied = False
        outcome.reason = f"reverted: the peak did not fall ({in_bytes(outcome.peak_before_bytes)} -> {in_bytes(outcome.peak_after_bytes)})"
        return None
    return put_on(chain.blocks, outcome.units, gives_tuple=gives_tuple)


def _difference(trial: Trial, before: StepFigures, after: StepFigures) -> tuple[str, bool]:
    """What the checkpoints changed, or nothing, and whether every bit is equal. They are off when this is asked."""
    comparison = compare(before, after)
    if comparison.identical:
        return "", True
    again = compare(before, measure_step(trial, timed=False))
    if again.identical:
        return comparison.difference, False
    # The model differs from itself. Wrong recomputation is off by tens of per cent, another order of additions by rounding.
    if again.gradient_error > MOST_NOISE:
        return f"{comparison.difference}; but the model differs from itself too ({again.difference}), so nothing can be proved", False
    if comparison.gradient_error > NOISE_FACTOR * again.gradient_error or comparison.loss_error > MOST_NOISE:
        return f"{comparison.difference}, by more than the model differs from itself", False
    return "", False


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


@contextlib.contextmanager
def _without_cache(model: torch.nn.Module) -> Iterator[Callable[[], Callable[[], None]]]:
    """Models of Hugging Face fill a key-value cache in training too, which recomputation would fill twice: it is switched off.

    Gives a function to leave it off, which in turn gives the one that switches it on again.
    """
    found: list[Any] = [module.config for module in model.modules() if hasattr(module, "config")]
    configs = {id(config): config for config in found}
    switched = [config for config in configs.values() if getattr(config, "use_cache", False) is True]
    for config in switched:
        config.use_cache = False
    left_off = False

    def restore() -> None:
        for config in switched:
            config.use_cache = True

    def leave_off() -> Callable[[], None]:
        nonlocal left_off
        left_off = True
        return restore

    try:
        yield leave_off
    finally:
        if not left_off:
            restore()
