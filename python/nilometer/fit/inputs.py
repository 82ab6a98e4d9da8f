"""Batches for models that say what they take."""

from __future__ import annotations

from typing import Any

import torch

from .._trouble import require

_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration")


def made_batch(model: torch.nn.Module, batch_size: int, seq_len: int | None, train: bool) -> Any:
    """A batch of shapes for a model of Hugging Face."""
    config = getattr(model, "config", None)
    takes = getattr(model, "main_input_name", None)
    require(config is not None and takes is not None, f"{type(model).__name__} does not say what it is called with: pass batch=")
    with torch.device("meta"):
        if takes == "pixel_values":
            size = config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2
            dtype = next(model.parameters()).dtype
            batch: dict[str, Any] = {"pixel_values": torch.empty(batch_size, config.num_channels, *size, dtype=dtype)}
            return batch | ({"labels": torch.empty(batch_size, dtype=torch.int64)} if train else {})
        require(takes == "input_ids", f"{type(model).__name__} is called with {takes}: pass batch=")
        length = seq_len if seq_len is not None else min(512, getattr(config, "max_position_embeddings", None) or 512)
        ids = torch.empty(batch_size, length, dtype=torch.int64)
        if not train:
            return {"input_ids": ids}
        has_token_labels = type(model).__name__.endswith(_CAUSAL)
        labels = ids if has_token_labels else torch.empty(batch_size, dtype=torch.int64)
        return {"input_ids": ids, "labels": labels}
