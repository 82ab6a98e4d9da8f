"""Generation of text with a cache of keys and values, as far as memory is concerned."""

from __future__ import annotations

from typing import Any

import torch

from .._trouble import require

# Tokens are generated one by one; a trace takes some at a time where they are many. A pass over so few takes less than that over the prompt.
_PASSES = 32


def generated(model: torch.nn.Module, batch: Any, new_tokens: int) -> None:
    """Runs a model of Hugging Face over a batch, and then over what it would generate."""
    ids = batch.get("input_ids") if isinstance(batch, dict) else None
    require(ids is not None and hasattr(model, "generate"), f"{type(model).__name__} does not generate text from input_ids")
    prompt = ids.shape[1]
    at_once = max(1, min(-(-new_tokens // _PASSES), max(prompt, 64) // 8))
    output = model(**batch, use_cache=True, logits_to_keep=1)
    left = new_tokens
    while left > 0:
        cache, count = output.past_key_values, min(at_once, left)
        del output
        following = torch.empty(ids.shape[0], count, dtype=torch.int64)
        output = model(input_ids=following, past_key_values=cache, use_cache=True, logits_to_keep=1)
        left -= count
