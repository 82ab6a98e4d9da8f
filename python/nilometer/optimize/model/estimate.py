"""How much memory a training step of a model takes, before it is trained: measured on small batches and extrapolated, or by arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..._trouble import require, require_type
from ..batches.memory_fit import fit_memory
from ..batches.sample_inputs import has_position_table, longest_sequence, made_samples, resized
from ..measuring.accounting import device_of, tensor_bytes
from ..measuring.level_trace import SMALL, extrapolated_peak, step_levels
from ..measuring.oom_recovery import attempt, is_out_of_memory, release
from ..measuring.trial import LossFunction, Trial

_MIB = 1 << 20
# Bytes of state per byte of 32-bit parameters.
_STATES = {"adamw": 2.0, "adam": 2.0, "sgd": 0.0, "sgd_momentum": 1.0, "adafactor": 0.01, "adamw8bit": 0.51, "none": 0.0}

_DOES_NOT_FIT = "a small step does not fit"
# Short enough for every model that takes sequences.
_SHORT_LENGTH = 8


def estimate_memory_requirements(
    model: torch.nn.Module,
    batch_size: int,
    seq_len: int | None = None,
    *,
    sample: Any = None,
    loss: LossFunction | None = None,
    optimizer: str | torch.optim.Optimizer = "adamw",
    probe_mb: float = 256.0,
) -> dict[str, Any]:
    """Weights, gradients, optimizer state, activations and their total at the peak in MB (2**20 bytes), for one training step of this batch.

    Activations are measured by running forward and backward on a batch: your `sample` with its rows repeated, or one that is made where the model says
    what it takes (Hugging Face models, Lightning's `example_input_array`, models that begin with an embedding or a linear layer).
    Steps that would take more than `probe_mb` are not run: their memory is extrapolated from smaller ones (`method` is then `extrapolated`).
    A model that cannot be run is estimated from its parameters and configuration (`method` is `arithmetic`), and `explanation` says why.
    No other length than `seq_len` is ever measured: a model that runs, but not with that length, raises a ValueError.
    The model is afterwards as it was. `optimizer` is a name (adamw, adam, sgd, sgd_momentum, adafactor, adamw8bit, none) or an optimizer that has made a step.

    >>> figures = estimate_memory_requirements(torch.nn.Linear(100, 100), batch_size=64)
    >>> figures["method"], figures["weights_mb"], figures["gradients_mb"], figures["optimizer_mb"]
    ('measured', 0.0385, 0.0385, 0.0771)
    """
    require_type(model, torch.nn.Module, "model")
    require_type(batch_size, int, "batch_size")
    require_type(seq_len, (int, type(None)), "seq_len")
    require(batch_size >= 1, f"batch_size must be at least 1, not {batch_size}")
    require(seq_len is None or seq_len >= 1, f"seq_len must be at least 1, not {seq_len}")
    parameters = list(model.parameters())
    weights = tensor_bytes(parameters, list(model.buffers()))
    gradients = tensor_bytes([parameter for parameter in parameters if parameter.requires_grad])
    state = _state_bytes(optimizer, parameters)
    _check_length(model, sample, seq_len)
    samples = [sample] if sample is not None else made_samples(model, seq_len)
    batches, peak, reason = _measured(model, samples, batch_size, loss, probe_mb * _MIB)
    if not batches and sample is None and seq_len is not None:
        _refuse_length(model, seq_len, loss, reason)
    figures: dict[str, Any] = {"batch_size": batch_size, "seq_len": seq_len, "parameters": sum(parameter.numel() for parameter in parameters)}
    if batches:
        activations = max(0.0, peak - weights - gradients)
        method = "measured" if batches == [batch_size] else "extrapolated"
        explanation = f"forward and backward were run with {' and '.join(map(str, batches))} samples on {device_of(model)}"
    else:
        activations, method = _by_arithmetic(model, batch_size, seq_len), "arithmetic"
        explanation = f"the model was not run ({reason}): activations are " + (
            "those of a transformer of its configuration" if activations else "not included; pass sample="
        )
    parts = {"weights": weights, "gradients": gradients, "optimizer": state, "activations": activations}
    update = _update_bytes(optimizer, parameters)
    figures |= {f"{name}_mb": round(value / _MIB, 4) for name, value in (parts | {"optimizer_step": update}).items()}
    # When the optimizer makes its step, activations are gone.
    figures["total_mb"] = round((weights + gradients + state + max(activations, update)) / _MIB, 4)
    figures |= {"method": method, "explanation": explanation}
    return figures


def _measured(
    model: torch.nn.Module, samples: list[Any], batch_size: int, loss: LossFunction | None, most_bytes: float
) -> tuple[list[int], float, str]:
    """Batches that were run, the peak of a step with `batch_size`, and the reason where nothing could be run."""
    reason = "it does not declare what inputs it takes"
    for sample in samples:

        def levels(batch: int, sample: Any = sample) -> list[int]:
            return step_levels(Trial(model, resized(sample, batch), loss))

        tried = attempt(lambda: _peak_of(levels, batch_size, most_bytes))
        if tried.result is None:
            release()
            reason = f"{_DOES_NOT_FIT}: {tried.oom}"
            continue
        batches, peak, reason = tried.result
        if batches:
            return batches, peak, ""
    return [], 0.0, reason


def _peak_of(levels: Callable[[int], list[int]], batch_size: int, most_bytes: float) -> tuple[list[int], float, str]:
    try:
        if batch_size <= SMALL[1]:
            return [batch_size], max(levels(batch_size)), ""
        first, second = (levels(batch) for batch in SMALL)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        # Whatever a model says to a made-up input.
        return [], 0.0, f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    peak = extrapolated_peak(first, second, *SMALL, batch_size)
    if peak is not None and peak - first[0] > most_bytes:
        return list(SMALL), peak, ""
    # Small enough, or its operations depend on the batch: it is run itself where that may be.
    largest = batch_size if peak is not None else SMALL[1]
    while peak is None and largest < batch_size and 2 * (max(second) - second[0]) <= most_bytes:
        largest = min(2 * largest, batch_size)
        second = levels(largest)
    if largest == batch_size:
        return [batch_size], max(levels(batch_size)), ""
    fit = fit_memory([(SMALL[0], 1, max(first)), (largest, 1, max(second))])
    return [SMALL[0], largest], fit.peak(batch_size), ""


def _check_length(model: torch.nn.Module, sample: Any, seq_len: int | None) -> None:
    """Raises where it is known before a run that this length cannot be measured."""
    if seq_len is None:
        return
    if sample is not None:
        lengths = {size for leaf in tree_leaves(sample) if isinstance(leaf, torch.Tensor) for size in leaf.shape[1:]}
        require(seq_len in lengths, f"seq_len is {seq_len}, but no tensor of the sample has that length: leave seq_len out, or pass a sample of that length")
        return
    longest, setting = longest_sequence(model)
    if longest is not None and longest < seq_len and has_position_table(model, longest):
        raise ValueError(_too_long(seq_len, longest, setting))


def _refuse_length(model: torch.nn.Module, seq_len: int, loss: LossFunction | None, reason: str) -> None:
    """Raises where a model that could not be run with this length runs with another one, or without a length."""
    if reason.startswith(_DOES_NOT_FIT):
        return
    others = [*made_samples(model, None), *made_samples(model, min(seq_len, _SHORT_LENGTH))]
    if not _measured(model, others, SMALL[0], loss, 0.0)[0]:
        return
    longest, setting = longest_sequence(model)
    if longest is not None and longest < seq_len:
        raise ValueError(_too_long(seq_len, longest, setting))
    raise ValueError(f"the model does not run with seq_len={seq_len} ({reason}), but without seq_len or with another length: pass a length that it accepts, or sample=")


def _too_long(seq_len: int, longest: int, setting: str) -> str:
    return f"seq_len is {seq_len}, but the model takes at most {longest} tokens ({setting} of its configuration)"


def _state_bytes(optimizer: str | torch.optim.Optimizer, parameters: list[torch.nn.Parameter]) -> float:
    if isinstance(optimizer, torch.optim.Optimizer):
        require(bool(optimizer.state), "the optimizer has no state yet: run one step first, or pass its name")
        return float(tensor_bytes(list(optimizer.state.values())))
    require(optimizer in _STATES, f"optimizer must be one of {', '.join(_STATES)} or an optimizer, not {optimizer!r}")
    return _STATES[optimizer] * tensor_bytes([parameter for parameter in parameters if parameter.requires_grad])


def _update_bytes(optimizer: str | torch.optim.Optimizer, parameters: list[torch.nn.Parameter]) -> float:
    """What Adam holds for a moment while it updates: two tensors of one parameter, or one of all where it updates all together, as on GPUs."""
    name = (optimizer if isinstance(optimizer, str) else type(optimizer).__name__).lower()
    sizes = [parameter.numel() * parameter.element_size() for parameter in parameters if parameter.requires_grad]
    if not name.startswith("adam") or not sizes:
        return 0.0
    return float(sum(sizes) if any(parameter.is_cuda for parameter in parameters) else 2 * max(sizes))


def _by_arithmetic(model: torch.nn.Module, batch_size: int, seq_len: int | None) -> float:
    """Activations of a transformer by its configuration: 17 + 2.5 · heads · length / hidden values per token, layer and hidden unit (Korthikanti et al. 2022, in values)."""
    config = getattr(model, "config", None)
    figures = [getattr(config, name, None) for name in ("num_hidden_layers", "hidden_size", "num_attention_heads")]
    if seq_len is None or not all(isinstance(figure, int) and figure > 0 for figure in figures):
        return 0.0
    layers, hidden, heads = (int(figure) for figure in figures if figure is not None)
    element = next((parameter.element_size() for parameter in model.parameters()), 4)
    return layers * batch_size * seq_len * hidden * (17 + 2.5 * heads * seq_len / hidden) * element
