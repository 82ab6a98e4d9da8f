"""What the rules of advice want to know of a model and its optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from ..checkpoints.block_chain import find_chain
from ..checkpoints.refusals import is_checkpointed
from ..measuring.accounting import device_of, tensor_bytes
from ..measuring.oom_recovery import attempt, release
from ..measuring.trial import Trial
from .forward_tensors import forward_tensors
from .parameter_storage import untied_bytes
from .steps import AUTOCASTS, StepOutcome

# The rules of advice that recommend what a step does.
_RULES = {
    "bfloat16 autocast": "use-autocast",
    "checkpoint plan": "checkpoint-blocks",
    "chunked cross-entropy": "chunk-cross-entropy",
    "sdpa attention": "use-sdpa",
    "zero_grad(set_to_none=True)": "set-gradients-to-none",
}


def facts_of_model(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    sample: Any = None,
    peak_bytes: int | None = None,
    outcomes: Iterable[StepOutcome] = (),
) -> dict[str, Any]:
    """The fields of `model` in `docs/schema/facts.json` that are known; what a step takes only where one was measured."""
    outcomes = list(outcomes)
    parameters = list(model.parameters())
    weights = tensor_bytes(parameters, list(model.buffers()))
    trained = tensor_bytes([parameter for parameter in parameters if parameter.requires_grad])
    state = tensor_bytes(list(optimizer.state.values())) if optimizer is not None else 0
    zeroed = [parameter.grad for parameter in parameters if parameter.grad is not None and not bool(parameter.grad.any())]
    frozen = [parameter.grad for parameter in parameters if parameter.grad is not None and not parameter.requires_grad]
    facts: dict[str, Any] = {
        "parameters": sum(parameter.numel() for parameter in parameters),
        "on_gpu": device_of(model).type != "cpu",
        "weight_bytes": weights,
        "optimizer": type(optimizer).__name__ if optimizer is not None else None,
        "optimizer_state_bytes": state or None,
        "dropout": _largest_dropout(model),
        "untied_bytes": untied_bytes(model) or None,
        "frozen_gradient_bytes": tensor_bytes(frozen) or None,
        "zeroed_gradient_bytes": tensor_bytes(zeroed) or None,
    }
    facts |= facts_of_steps(model)
    if outcomes:
        facts["not_worth_it"] = [_RULES[outcome.name] for outcome in outcomes if outcome.name in _RULES and outcome.has_figures and not outcome.applied]
    if peak_bytes is not None:
        # Weights, gradients, state and the batch are there for certain; what is left of the peak is kept for the backward pass.
        activations = peak_bytes - weights - trained - state - tensor_bytes(sample)
        facts |= {"peak_bytes": peak_bytes, "gradient_bytes": trained, "activation_bytes": max(0, activations)}
        if sample is not None:
            facts |= _forward_facts(Trial(model, sample))
    return {name: value for name, value in facts.items() if value is not None}


def facts_of_steps(model: torch.nn.Module) -> dict[str, Any]:
    """What steps change in a model, as it is now, whoever changed it and when."""
    facts: dict[str, Any] = {"uses_half_precision": _is_half(model)}
    chain = find_chain(model)
    if chain is not None:
        facts["repeated_blocks"] = len(chain.blocks)
        facts["checkpointed_blocks"] = sum(is_checkpointed(block) for block in chain.blocks)
    checkpoints = [module for module in model.modules() if getattr(module, "gradient_checkpointing", False) is True]
    if checkpoints:
        # Hugging Face checkpoints all blocks or none.
        facts["checkpointed_blocks"] = facts.get("repeated_blocks", len(checkpoints))
        facts["preserves_random_state"] = all(_preserves_random_state(module) for module in checkpoints)
    return facts


def _forward_facts(trial: Trial) -> dict[str, Any]:
    try:
        tried = attempt(lambda: forward_tensors(trial))
    except Exception:
        return {}  # compiled and sharded models may not be looked into; everything else of them is known
    if tried.result is None:
        release()
        return {}
    return {"logits_bytes": tried.result.logits_bytes or None, "attention_score_bytes": tried.result.attention_score_bytes or None}


def _preserves_random_state(module: torch.nn.Module) -> bool:
    function = getattr(module, "_gradient_checkpointing_func", None)
    keywords = getattr(function, "keywords", None) or {}
    return bool(keywords.get("preserve_rng_state", True))


def _largest_dropout(model: torch.nn.Module) -> float:
    return max((float(module.p) for module in model.modules() if isinstance(module, torch.nn.modules.dropout._DropoutNd)), default=0.0)


def _is_half(model: torch.nn.Module) -> bool:
    kinds = {parameter.dtype for parameter in model.parameters()}
    is_autocast = getattr(vars(model).get("forward"), AUTOCASTS, False) or torch.is_autocast_enabled(device_of(model).type)
    return is_autocast or bool(kinds & {torch.float16, torch.bfloat16})
