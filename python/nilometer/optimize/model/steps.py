"""Changes to a model that save memory, each measured on a sample before and after, checked, and undone when it does not help."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import CheckpointError

from ..byte_words import in_bytes
from ..checkpoints.checkpointing import CheckpointOutcome, plan_and_apply
from ..in_run import tell_optimization
from ..measuring.model_snapshot import whole_of
from ..measuring.oom_recovery import is_out_of_memory, release
from ..measuring.trial import LossFunction, StepFigures, Trial, check_trial, measure_step, own_loss, step_without_dropout
from ..measuring.verification import Comparison, compare
from ..objects.tracing import tracing_paused
from .chunked_loss import ChunkedHead
from .optimizer_advice import optimizer_advice
from .step_outcome import StepOutcome as StepOutcome
from .step_outcome import Tier as Tier
from .worth import not_worth_it

# Attention by another kernel sums in another order; float32 agrees to about 1e-7.
SAFE_LOSS_TOLERANCE = 1e-5
SAFE_COSINE_TOLERANCE = 0.99999
# A peak that falls by less than this is not worth a change.
LEAST_SAVING = 0.005
AUTOCASTS = "_autocasts"
"""The mark on a `forward` that runs under autocast."""


class Refused(Exception):
    """A step does not fit a model; its text says why. Where that was found by running it, `measured` has the figures."""

    def __init__(self, reason: str, measured: CheckpointOutcome | None = None) -> None:
        super().__init__(reason)
        self.measured = measured


@dataclass(frozen=True)
class ModelStep:
    """A change: `apply` makes it and gives the function that takes it back, or raises `Refused`."""

    name: str
    tier: Tier
    apply: Callable[[Trial], Callable[[], None]]
    redraws: bool = False
    """Whether other kernels run, which draw other random numbers: results are then compared without dropout."""


def use_sdpa(trial: Trial) -> Callable[[], None]:
    """Fused attention for models of Hugging Face: the table of all pairs of tokens is never stored."""
    model: Any = trial.model
    config = getattr(model, "config", None)
    current = getattr(config, "_attn_implementation", None)
    if not hasattr(model, "set_attn_implementation") or current is None:
        raise Refused("the model has no attention that can be chosen by name")
    if current != "eager":
        raise Refused(f"attention is {current} already")
    try:
        model.set_attn_implementation("sdpa")
    except (ValueError, ImportError) as error:
        raise Refused(str(error).splitlines()[0]) from error
    if model.config._attn_implementation != "sdpa":
        raise Refused("the model has no fused attention")
    return lambda: model.set_attn_implementation(current)


def drop_gradients(trial: Trial) -> Callable[[], None]:
    """Gradients are given back between steps instead of being filled with zeros."""
    optimizer = trial.optimizer
    if optimizer is None:
        raise Refused("no optimizer was given")
    held = [parameter for parameter in trial.model.parameters() if parameter.grad is not None]
    if not held or any(bool(parameter.grad.any()) for parameter in held if parameter.grad is not None):
        raise Refused("no gradients of zeros are held between steps")
    earlier, was_own = optimizer.zero_grad, "zero_grad" in vars(optimizer)

    def zero_grad(set_to_none: bool = True) -> None:
        earlier(set_to_none=True)

    zeros = [(parameter, parameter.grad) for parameter in held]
    optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    optimizer.zero_grad()

    def undo() -> None:
        if was_own:
            optimizer.zero_grad = earlier  # type: ignore[method-assign]
        else:
            del optimizer.zero_grad
        for parameter, gradient in zeros:
            parameter.grad = gradient

    return undo


def use_autocast(trial: Trial) -> Callable[[], None]:
    """Matrix products and what they keep in bfloat16; weights, gradients and optimizer stay as they are."""
    model, device = trial.model, trial.device
    kinds = {parameter.dtype for parameter in model.parameters()}
    if kinds != {torch.float32}:
        raise Refused("the weights are not all in float32")
    if torch.is_autocast_enabled(device.type):
        raise Refused("autocast is on already")
    if device.type == "cuda" and not torch.cuda.is_bf16_supported():
        raise Refused("this GPU has no bfloat16")
    earlier, own = model.forward, vars(model).get("forward")

    def forward(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device.type, dtype=torch.bfloat16):
            output = earlier(*args, **kwargs)
        return output if own_loss(output) is not None else tree_map(_in_float32, output)

    setattr(forward, AUTOCASTS, True)
    model.forward = forward

    def undo() -> None:
        if own is None:
            del model.forward
        else:
            model.forward = own

    return undo


def _in_float32(leaf: Any) -> Any:
    """A loss that is computed from the output is computed in 32 bits, as under autocast."""
    return leaf.float() if isinstance(leaf, torch.Tensor) and leaf.dtype == torch.bfloat16 else leaf


def use_chunked_loss(trial: Trial) -> Callable[[], None]:
    """The loss of a causal language model in chunks, without all logits at a time."""
    head = ChunkedHead(trial.model)
    refusal = head.refusal()
    if refusal:
        raise Refused(refusal)
    head.put_on()
    return head.take_off


def use_checkpoints(trial: Trial) -> Callable[[], None]:
    """The blocks' activations halved by a checkpoint plan, or as few of them checkpointed as the budget asks for."""
    outcome = plan_and_apply(trial, budget_bytes=trial.budget_bytes)
    if not outcome.applied:
        raise Refused(outcome.reason, outcome if outcome.units else None)
    return outcome.undo


ZERO_GRAD = ModelStep("zero_grad(set_to_none=True)", Tier.SAFE, drop_gradients)
SDPA = ModelStep("sdpa attention", Tier.SAFE, use_sdpa, redraws=True)
CHECKPOINTS = ModelStep("checkpoint plan", Tier.SAFE, use_checkpoints)
CHUNKED_LOSS = ModelStep("chunked cross-entropy", Tier.TOLERANCE, use_chunked_loss, redraws=True)
AUTOCAST = ModelStep("bfloat16 autocast", Tier.TOLERANCE, use_autocast, redraws=True)

STEPS = (ZERO_GRAD, SDPA, CHUNKED_LOSS, AUTOCAST, CHECKPOINTS)
"""In the order in which they are tried: what costs no time first, and what recomputes last."""


def apply_steps(
    model: torch.nn.Module,
    sample: Any,
    *,
    loss: LossFunction | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    tolerance: bool = False,
    steps: Iterable[ModelStep] = STEPS,
    advice: bool = True,
    budget_bytes: int | None = None,
    keep_all: bool = False,
) -> list[StepOutcome]:
    """Tries steps one after the other, each on top of those that helped, and keeps what lowers the peak of a step, gives the same results and pays.

    With a budget, what is needed to come under it pays. Without one a step pays if it saves 5 % of the peak and 1 MiB, and takes at most 15 % more time
    or no larger a share of it than it saves of the peak; others are "not worth it". `keep_all=True` keeps whatever lowers the peak, however slow it is.
    Steps whose results differ by rounding are tried with `tolerance=True` only. Advice about the optimizer comes last (`advice=False` leaves it out).
    With `budget_bytes`, what a step may hold at its peak, checkpoints are planned for just that, and left out where the steps before them suffice; without it the blocks' activations are halved.
    A step that raises is undone and its outcome says why; when the program is interrupted, all steps are undone first.
    The current run is told what was tried and measured.

    >>> model = torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 64)) for _ in range(6)])
    >>> [outcome.name for outcome in apply_steps(model, torch.randn(512, 64), keep_all=True) if outcome.applied]
    ['checkpoint plan']
    """
    budget_bytes = check_trial(model, sample, budget_bytes)
    trial = Trial(model, sample, loss, optimizer, budget_bytes)
    outcomes: list[StepOutcome] = []
    try:
        # Once for all of them: each pause loses what was traced until then.
        with tracing_paused():
            for step in steps:
                outcomes.append(_tried(trial, step, tolerance=tolerance, keep_all=keep_all))
    except BaseException:
        for outcome in reversed(outcomes):
            outcome.undo()
        raise
    for outcome in outcomes:
        _tell(outcome)
    if optimizer is not None and advice:
        outcomes.append(optimizer_advice(optimizer))
    return outcomes


def _tell(outcome: StepOutcome) -> None:
    if outcome.has_figures:
        outcome._tell_undone = tell_optimization(
            outcome.name,
            applied=outcome.applied,
            before_bytes=outcome.peak_before_bytes,
            after_bytes=outcome.peak_after_bytes,
            before_seconds=outcome.secs_before,
            after_seconds=outcome.secs_after,
            measured="peak of a step on the sample",
            note=outcome.reason,
        )
    elif outcome.measured == "failed":
        tell_optimization(outcome.name, applied=False, note=outcome.reason)


def _tried(trial: Trial, step: ModelStep, *, tolerance: bool, keep_all: bool) -> StepOutcome:
    outcome = StepOutcome(step.name, step.tier, False, "")
    if step.tier is Tier.TOLERANCE and not tolerance:
        outcome.reason = "results differ by rounding: pass tolerance=True to allow it"
        return outcome
    before = measure_step(trial, keep_gradients=True)
    calm_before, has_dropout = before, False
    if step.redraws:
        # A model that is checkpointed already cannot run without dropout: it is then compared as it is.
        with contextlib.suppress(CheckpointError):
            calm_before, has_dropout = step_without_dropout(trial)
    ran_out = False
    undo = put_back = whole_of(trial.model)
    try:
        undo = step.apply(trial)
        del put_back  # it holds weights that the step may have replaced
        after = measure_step(trial, keep_gradients=True)
        calm_after = step_without_dropout(trial)[0] if has_dropout else after
        _judge(outcome, step, before, after, compare(calm_before if has_dropout else before, calm_after))
        if outcome.applied and not keep_all:
            outcome.reason = not_worth_it(before, after, trial.budget_bytes)
            outcome.applied = not outcome.reason
    except Refused as refusal:
        undo()
        outcome.reason = str(refusal)
        if refusal.measured is not None:
            _take_figures(outcome, refusal.measured)
        return outcome
    except Exception as error:
        undo()
        ran_out = is_out_of_memory(error)
        outcome.measured = "failed"
        outcome.reason = f"reverted: {type(error).__name__}: {error}"
    except BaseException:
        undo()
        raise
    else:
        if has_dropout:
            outcome.reason = "; ".join(filter(None, [outcome.reason, "compared without dropout"]))
        if outcome.applied:
            outcome._undo = undo
        else:
            undo()
    if ran_out:
        release()
    return outcome


def _take_figures(outcome: StepOutcome, plan: CheckpointOutcome) -> None:
    """A plan that was run and taken back was measured."""
    outcome.measured = "peak of a step"
    outcome.peak_before_bytes, outcome.secs_before = plan.peak_before_bytes, plan.secs_before
    outcome.peak_after_bytes, outcome.secs_after = plan.peak_after_bytes, plan.secs_after


def _judge(outcome: StepOutcome, step: ModelStep, before: StepFigures, after: StepFigures, comparison: Comparison) -> None:
    outcome.measured = "peak of a step"
    outcome.peak_before_bytes, outcome.secs_before = before.peak_bytes, before.secs
    outcome.peak_after_bytes, outcome.secs_after = after.peak_bytes, after.secs
    outcome.loss_error, outcome.gradient_cosine = comparison.loss_error, comparison.gradient_cosine
    if not _agrees(comparison, step.tier):
        outcome.reason = (
            f"reverted: the loss differs by {comparison.loss_error:.2g} and the cosine of the gradients is {comparison.gradient_cosine:.6f}"
        )
    elif after.peak_bytes > before.peak_bytes * (1 - LEAST_SAVING):
        outcome.reason = f"reverted: the peak did not fall ({in_bytes(before.peak_bytes)} -> {in_bytes(after.peak_bytes)})"
    else:
        outcome.applied = True


def _agrees(comparison: Comparison, tier: Tier) -> bool:
    if tier is Tier.SAFE:
        return comparison.within(SAFE_LOSS_TOLERANCE, SAFE_COSINE_TOLERANCE)
    return comparison.within()
