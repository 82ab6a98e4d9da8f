"""Samples of a model: those that it declares itself, and samples of another batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_map

from ..._trouble import require
from ..measuring.accounting import device_of
from .micro_batches import batch_length


def declared_sample(model: torch.nn.Module) -> tuple[Any, str]:
    """An input that the model's author has written down, and where; (None, "") where there is none.

    Hugging Face models have `dummy_inputs`, Lightning modules `example_input_array`.
    """
    for name in ("example_input_array", "dummy_inputs"):
        try:
            found = getattr(model, name, None)
        except Exception:  # noqa: BLE001 - a property of the model's own, which may need what is not there
            continue
        if found is None or callable(found):
            continue
        sample = dict(found) if isinstance(found, Mapping) else found
        ids = sample.get("input_ids") if isinstance(sample, dict) else None
        if isinstance(ids, torch.Tensor) and "labels" not in sample and is_causal(model):
            sample["labels"] = ids.clone()
        return on_device(sample, device_of(model)), name
    return None, ""


def is_causal(model: torch.nn.Module) -> bool:
    """Whether a model of Hugging Face predicts each label from the tokens before it."""
    return type(model).__name__.endswith(("ForCausalLM", "LMHeadModel"))


def on_device(sample: Any, device: torch.device, *, non_blocking: bool = False) -> Any:
    """The sample with its tensors on a device. Mappings of a collator's own type become plain ones."""
    plain = dict(sample) if hasattr(sample, "keys") else sample
    return tree_map(lambda leaf: leaf.to(device, non_blocking=non_blocking) if isinstance(leaf, torch.Tensor) else leaf, plain)


def resized(sample: Any, batch: int) -> Any:
    """A sample of this many rows, of those that there are.

    >>> resized(torch.arange(3), 5).tolist()
    [0, 1, 2, 0, 1]
    """
    rows = batch_length(sample)
    require(rows > 0, "the sample is empty: it has no rows")
    index = torch.arange(batch) % rows

    def resize(leaf: Any) -> Any:
        return leaf[index.to(leaf.device)] if isinstance(leaf, torch.Tensor) and leaf.dim() else leaf

    return tree_map(resize, sample)


def made_samples(model: torch.nn.Module, seq_len: int | None) -> list[Any]:
    """Inputs of one row that the model may take, the likeliest first: by its configuration, what it declares, or its first layer."""
    device = device_of(model)
    config = getattr(model, "config", None)
    vocabulary = getattr(config, "vocab_size", None)
    found: list[Any] = []
    if isinstance(vocabulary, int) and getattr(model, "main_input_name", "input_ids") == "input_ids":
        length = seq_len or min(128, getattr(config, "max_position_embeddings", 128) or 128)
        ids = torch.arange(length, device=device).remainder(vocabulary)[None]
        found.append({"input_ids": ids, "labels": ids.clone()} if is_causal(model) else {"input_ids": ids})
    declared, _ = declared_sample(model)
    if declared is not None:
        found.append(declared)
    first = next((module for module in model.modules() if next(module.children(), None) is None and next(module.parameters(), None) is not None), None)
    if isinstance(first, torch.nn.Embedding):
        found.append(torch.arange(seq_len or 128, device=device).remainder(first.num_embeddings)[None])
    elif isinstance(first, torch.nn.Linear):
        dtype = first.weight.dtype
        if seq_len is not None:
            found.append(torch.ones(1, seq_len, first.in_features, device=device, dtype=dtype))
        found.append(torch.ones(1, first.in_features, device=device, dtype=dtype))
    return found
