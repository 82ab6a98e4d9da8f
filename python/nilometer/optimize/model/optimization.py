"""A model made leaner: what needs no run first, then steps that are measured on a sample, and the batch that would fit."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..batches.batch_size import AGREEMENT, MOST, NoBatchFits, find_batch_size
from ..batches.micro_batches import batch_length
from ..batches.probes import free_device_bytes
from ..batches.sample_inputs import declared_sample, resized
from ..byte_words import in_bytes
from ..host.free_memory import free_host_bytes
from ..in_run import tell_optimization
from ..measuring.accounting import device_of, tensor_bytes
from ..measuring.level_trace import SMALL, largest_within, step_levels
from ..measuring.oom_recovery import attempt, release
from ..measuring.trial import LossFunction, Trial, check_trial, measure_step
from .facts import facts_of_model, facts_of_steps
from .parameter_storage import StorageSaving, compact_parameters, model_bytes
from .steps import STEPS, ModelStep, StepOutcome, apply_steps

_MIB = 1 << 20
MARGIN = 0.92
"""The share of a budget that a predicted batch may take: allocators round and fragment."""


@dataclass
class ModelOptimization:
    """What was done to a model, with the figures that were measured."""

    measured_on: str
    """What was run: `sample`, `dummy_inputs`, `example_input_array`; `tensor bytes` where nothing was."""
    before_bytes: int
    after_bytes: int
    storage: list[StorageSaving]
    outcomes: list[StepOutcome] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    batch: dict[str, Any] | None = None
    _model: weakref.ref[torch.nn.Module] | None = field(default=None, repr=False)

    def undo(self) -> None:
        """Takes the steps back, the last first. What parameters did not need is not taken again; the batch that fits is no longer known."""
        for outcome in reversed(self.outcomes):
            outcome.undo()
        self.batch = None

    @property
    def undone_bytes(self) -> int:
        """By how much the peak of a step is higher again than it was measured at the end."""
        return sum(outcome.peak_before_bytes - outcome.peak_after_bytes for outcome in self.outcomes if outcome.is_undone)

    @property
    def model(self) -> torch.nn.Module | None:
        """The model, while the program holds it."""
        return None if self._model is None else self._model()

    def as_dict(self) -> dict[str, Any]:
        """For reports: MB are 2**20 bytes."""
        applied = [saving.name for saving in self.storage] + [outcome.name for outcome in self.outcomes if outcome.applied]
        result: dict[str, Any] = {
            "memory_saved_mb": round((self.before_bytes - self.after_bytes) / _MIB, 3),
            "memory_before_mb": round(self.before_bytes / _MIB, 3),
            "memory_after_mb": round(self.after_bytes / _MIB, 3),
            "optimizations_applied": applied,
            "optimizations": [_storage_row(saving) for saving in self.storage] + [optimization_row(outcome) for outcome in self.outcomes],
            "measured_on": self.measured_on,
            "model": {"parameter_count": self.facts.get("parameters"), "footprint_mb": round(self.facts.get("weight_bytes", 0) / _MIB, 3)},
        }
        if self.measured_on == "tensor bytes":
            result["note"] = (
                "only parameter storage was checked: pass a sample batch for checkpoints, attention and precision, which have to be measured by running the model"
            )
        if self.batch is not None:
            result["batch_size"] = self.batch
        return result


def current_facts(optimizations: Sequence[ModelOptimization]) -> dict[str, Any]:
    """What is known of the latest model: as the latest call measured it, and as all calls and what was undone since have left it."""
    latest = optimizations[-1]
    model = latest.model
    if model is None:
        return latest.facts
    of_model = [done for done in optimizations if done.model is model]
    facts = latest.facts | facts_of_steps(model)
    facts["not_worth_it"] = list(dict.fromkeys(rule for done in of_model for rule in done.facts.get("not_worth_it", [])))
    is_measured = not any(done.undone_bytes for done in of_model[:-1])  # on the same batch nobody knows
    for name in ("peak_bytes", "activation_bytes"):
        if name in facts and is_measured:
            facts[name] += latest.undone_bytes
        else:
            facts.pop(name, None)
    return facts


def optimize_model(
    model: torch.nn.Module,
    sample: Any = None,
    *,
    loss: LossFunction | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    tolerance: bool = False,
    steps: Iterable[ModelStep] = STEPS,
    keep_all: bool = False,
) -> ModelOptimization:
    """Gives back what parameters do not need, then tries the steps on the sample, or on one that the model declares."""
    check_trial(model, sample)
    measured_on = "sample"
    if sample is None:
        sample, measured_on = declared_sample(model)
    held = model_bytes(model)
    storage = compact_parameters(model)
    saved = sum(saving.saved_bytes for saving in storage)
    for saving in storage:
        tell_optimization(saving.name, applied=True, before_bytes=held, after_bytes=held - saving.saved_bytes, measured="tensor bytes")
        held -= saving.saved_bytes
    if sample is None:
        return ModelOptimization("tensor bytes", held + saved, held, storage, facts=facts_of_model(model, optimizer), _model=weakref.ref(model))
    first = attempt(lambda: measure_step(Trial(model, sample, loss, optimizer), timed=False, keep_gradients=True))
    if first.result is None:
        release()
        raise NoBatchFits(f"one step on the sample does not fit into memory ({first.oom}): pass a smaller sample")
    outcomes = apply_steps(model, sample, loss=loss, optimizer=optimizer, tolerance=tolerance, steps=steps, keep_all=keep_all)
    before = first.result.peak_bytes + saved
    after = first.result.peak_bytes - sum(outcome.saved_bytes for outcome in outcomes)
    facts = facts_of_model(model, optimizer, sample=sample, peak_bytes=after, outcomes=outcomes)
    return ModelOptimization(measured_on, before, after, storage, outcomes, facts, _model=weakref.ref(model))


def largest_batch(
    model: torch.nn.Module,
    sample: Any,
    *,
    loss: LossFunction | None,
    optimizer: torch.optim.Optimizer | None,
    budget_bytes: int | None,
    verify: bool,
    host_budget_bytes: int | None = None,
) -> dict[str, Any]:
    """The largest batch within a budget: predicted from small steps, or with `verify` found by `find_batch_size`.

    Never more than what is free counts, beside what is held already: of the GPU, or of the host's limit and of `host_budget_bytes`, which is for the whole program.
    The verified search runs the optimizer too; weights and optimizer are afterwards as they were.
    No batch of more than 65,535 samples is given: `is_capped` is then true, and `reason` has what memory would allow.
    """
    device = device_of(model)
    rows = batch_length(sample)
    if device.type == "cuda":
        free: int | None = free_device_bytes(device)
    else:
        free = free_host_bytes(host_budget_bytes)
        # A step's peak counts these, and they are there already.
        free = None if free is None else free + tensor_bytes(*Trial(model, sample, loss, optimizer).held())
    left = [size for size in (budget_bytes, free) if size is not None]
    if not left:
        return {"sample": rows, "largest": None, "is_verified": False, "reason": "free memory is unknown; pass budget_bytes"}
    budget_bytes = min(left)
    if verify:

        def step(batch: int, _length: int) -> None:
            Trial(model, resized(sample, batch), loss, optimizer).step()
            if optimizer is not None:
                optimizer.step()
            (optimizer or model).zero_grad(set_to_none=True)

        try:
            found = find_batch_size(step, model, optimizer, budget_bytes=budget_bytes)
        except NoBatchFits as refusal:
            return {"sample": rows, "largest": 0, "is_verified": True, "reason": str(refusal)}
        fitting = found.fit.largest_batch(found.budget_bytes) if found.batch_size >= MOST * (1 - AGREEMENT) else found.batch_size
        return _batch_row(rows, found.batch_size, fitting, found.fit.per_sample(), budget_bytes, is_verified=True)
    found_here = predicted_batch(lambda batch: Trial(model, resized(sample, batch), loss, optimizer), MARGIN * budget_bytes)
    if found_here is None:
        return {"sample": rows, "largest": None, "is_verified": False, "reason": "operations of the model depend on the batch; pass verify_batch=True"}
    largest, bytes_per_sample = found_here
    row = _batch_row(rows, min(largest, MOST), largest, bytes_per_sample, budget_bytes, is_verified=False)
    if not largest:
        held = tensor_bytes(*Trial(model, None, loss, optimizer).held())
        row["reason"] = f"not even one sample fits: model and optimizer take {in_bytes(held)} before a step, and a step may hold {in_bytes(MARGIN * budget_bytes)}"
    return row


def predicted_batch(trial_of: Callable[[int], Trial], budget_bytes: float) -> tuple[int, float] | None:
    """The largest batch within a budget and the bytes of one more sample, predicted from two small steps; None where these do not tell."""
    tried = attempt(lambda: (step_levels(trial_of(SMALL[0])), step_levels(trial_of(SMALL[1]))))
    if tried.result is None:
        release()
        return None
    first, second = tried.result
    return largest_within(first, second, *SMALL, budget_bytes)


def _batch_row(rows: int, largest: int, fitting: int, bytes_per_sample: float, budget_bytes: int, *, is_verified: bool) -> dict[str, Any]:
    """`fitting` is what memory alone would allow."""
    row: dict[str, Any] = {
        "sample": rows,
        "largest": largest,
        "is_verified": is_verified,
        "is_capped": fitting > MOST,
        "budget_mb": round(budget_bytes / _MIB, 3),
        "mb_per_sample": round(bytes_per_sample / _MIB, 6),
    }
    if row["is_capped"]:
        allowed = f"memory would allow about {fitting:,} samples" if bytes_per_sample > 0 else "memory does not limit the batch"
        row["reason"] = f"capped at {MOST:,} samples, above which kernels of CUDA refuse a batch; {allowed}"
    return row


def _storage_row(saving: StorageSaving) -> dict[str, Any]:
    return {"name": saving.name, "applied": True, "reason": saving.reason, "saved_mb": round(saving.saved_bytes / _MIB, 3), "measured": "tensor bytes"}


def optimization_row(outcome: StepOutcome) -> dict[str, Any]:
    """A step for reports; one that was not tried or failed has no figures."""
    known = outcome.has_figures
    return {
        "name": outcome.name,
        "applied": outcome.applied,
        "reason": outcome.reason,
        "tier": outcome.tier.value,
        "saved_mb": round(outcome.saved_bytes / _MIB, 3) if known else None,
        "peak_before_mb": round(outcome.peak_before_bytes / _MIB, 3) if known else None,
        "peak_after_mb": round(outcome.peak_after_bytes / _MIB, 3) if known else None,
        "seconds_before": outcome.secs_before if known else None,
        "seconds_after": outcome.secs_after if known else None,
        "measured": outcome.measured,
    }
