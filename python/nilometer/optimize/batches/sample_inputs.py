"""Samples of a model: those that it declares itself, and samples of another batch size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

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
    """Inputs of one row that the model may take, the likeliest first: by its configuration, what it declares, or its first layer.

    With `seq_len` all of them have that length: an input without a length of its own is then left out.
    """
    device = device_of(model)
    config = getattr(model, "config", None)
    vocabulary = getattr(config, "vocab_size", None)
    longest, _ = longest_sequence(model)
    found: list[Any] = []
    if isinstance(vocabulary, int) and getattr(model, "main_input_name", "input_ids") == "input_ids":
        ids = torch.arange(seq_len or min(128, longest or 128), device=device).remainder(vocabulary)[None]
        found.append({"input_ids": ids, "labels": ids.clone()} if is_causal(model) else {"input_ids": ids})
    declared, _ = declared_sample(model)
    if declared is not None and seq_len is not None:
        declared = _of_length(declared, seq_len)
    if declared is not None:
        found.append(declared)
    first = next((module for module in model.modules() if next(module.children(), None) is None and next(module.parameters(), None) is not None), None)
    if isinstance(first, torch.nn.Embedding):
        found.append(torch.arange(seq_len or 128, device=device).remainder(first.num_embeddings)[None])
    elif isinstance(first, torch.nn.Linear):
        shape = (1, first.in_features) if seq_len is None else (1, seq_len, first.in_features)
        found.append(torch.ones(shape, device=device, dtype=first.weight.dtype))
    return found


def longest_sequence(model: torch.nn.Module) -> tuple[int | None, str]:
    """The longest sequence that the configuration of a model names, and the name; (None, "") where it names none.

    Models that compute positions instead of looking them up may take longer ones.
    """
    config = getattr(model, "config", None)
    for name in ("max_position_embeddings", "n_positions", "block_size", "max_seq_len", "context_length"):
        longest = getattr(config, name, None)
        if isinstance(longest, int) and longest > 0:
            return longest, name
    return None, ""


def has_position_table(model: torch.nn.Module, longest: int) -> bool:
    """Whether positions up to `longest` are looked up in a table: an index beyond it is an error, which a GPU does not recover from."""
    tokens = getattr(model, "get_input_embeddings", lambda: None)()
    tables = [module for module in model.modules() if isinstance(module, torch.nn.Embedding) and module is not tokens]
    # Some tables have up to two rows more, for padding.
    return any(longest <= table.num_embeddings <= longest + 2 for table in tables)


def _of_length(sample: Any, length: int) -> Any:
    """A declared sample with its sequences repeated or cut to a length; None where none of its tensors is a sequence.

    >>> _of_length({"input_ids": torch.tensor([[7, 8, 9]])}, 5)["input_ids"].tolist()
    [[7, 8, 9, 7, 8]]
    >>> _of_length(torch.ones(1, 3, 32, 32), 5) is None
    True
    """
    tensors = [leaf for leaf in tree_leaves(sample) if isinstance(leaf, torch.Tensor)]
    sequences = [tensor for tensor in tensors if tensor.dim() == (3 if tensor.is_floating_point() else 2)]
    if not sequences:
        return None
    declared = sequences[0].shape[1]
    index = torch.arange(length) % declared

    def stretch(leaf: Any) -> Any:
        is_sequence = isinstance(leaf, torch.Tensor) and leaf.dim() >= 2 and leaf.shape[1] == declared
        return leaf[:, index.to(leaf.device)] if is_sequence else leaf

    return tree_map(stretch, sample)
