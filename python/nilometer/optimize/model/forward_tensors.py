"""The large tensors that a forward pass leaves for the backward pass: logits, and attention scores of all pairs of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..measuring.trial import Trial, preserved


@dataclass(frozen=True)
class ForwardTensors:
    """Bytes of one forward pass on a sample; 0 where there are none."""

    logits_bytes: int
    """Logits over the vocabulary and their gradient, which is as large."""
    attention_score_bytes: int
    """Scores of all pairs of tokens that are kept for the backward pass; those that a checkpoint computes again are not."""


def forward_tensors(trial: Trial) -> ForwardTensors:
    """Runs the model forward once; it is afterwards as it was."""
    scores = _KeptScores()
    with preserved(trial.model), torch.enable_grad(), scores, torch.autograd.graph.saved_tensors_hooks(scores.keep, _itself):
        output = trial.forward()
    return ForwardTensors(_logits_bytes(trial.model, output), scores.kept_bytes)


class _KeptScores(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Results of a softmax that are square in their last two axes, where autograd saves them. Fused attention makes none."""

    _SOFTMAX = (torch.ops.aten._softmax, torch.ops.aten._safe_softmax)

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept_bytes = 0
        self._made: dict[int, tuple[int, ...]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "overloadpacket", None) in self._SOFTMAX and result.dim() > 2 and result.shape[-1] == result.shape[-2]:
            self._made[result.data_ptr()] = tuple(result.shape)
        return result

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        """Counts what autograd saves; a tensor that is saved twice counts once."""
        shape = tuple(tensor.shape)
        # Others are asked for no address: some have none.
        if len(shape) > 2 and shape[-1] == shape[-2] and self._made.get(tensor.data_ptr()) == shape:
            del self._made[tensor.data_ptr()]
            self.kept_bytes += tensor.numel() * tensor.element_size()
        return tensor


def _itself(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _logits_bytes(model: Any, output: Any) -> int:
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    weight = getattr(head, "weight", None)
    if not isinstance(logits, torch.Tensor) or not isinstance(weight, torch.Tensor) or logits.shape[-1] != weight.shape[0]:
        return 0
    return 2 * logits.numel() * logits.element_size()
