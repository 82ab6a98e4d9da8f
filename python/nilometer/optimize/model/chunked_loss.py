"""Cross-entropy over a large vocabulary without ever holding all logits: the head runs chunk by chunk, and again in backward."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

CHUNKS = 8


def chunked_cross_entropy(
    hidden: torch.Tensor,
    head: Callable[[torch.Tensor], torch.Tensor],
    labels: torch.Tensor,
    *,
    ignore_index: int = -100,
    chunks: int = CHUNKS,
    denominator: torch.Tensor | float | None = None,
) -> torch.Tensor:
    """The cross-entropy of `head(hidden)` and `labels`, which have the same leading dimensions.

    `head` maps hidden states to logits, such as the model's `lm_head`. At any time the logits of one chunk exist, in float32.
    The mean is over the labels that are not `ignore_index`, or over `denominator`, such as the tokens of all micro-batches of a step.

    >>> head = torch.nn.Linear(8, 100)
    >>> hidden, labels = torch.randn(4, 6, 8), torch.randint(0, 100, (4, 6))
    >>> whole = functional.cross_entropy(head(hidden).flatten(0, 1), labels.flatten())
    >>> bool(torch.allclose(chunked_cross_entropy(hidden, head, labels), whole))
    True
    """
    if hidden.shape[:-1] != labels.shape:
        raise ValueError(f"hidden states of shape {tuple(hidden.shape)} do not fit labels of shape {tuple(labels.shape)}")
    if chunks < 1:
        raise ValueError(f"chunks must be positive, not {chunks}")
    rows, targets = hidden.flatten(0, -2), labels.flatten().to(hidden.device)

    def part(rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(head(rows).float(), targets, ignore_index=ignore_index, reduction="sum")

    total = torch.zeros((), device=hidden.device, dtype=torch.float32)
    for some_rows, some_targets in zip(rows.chunk(chunks), targets.chunk(chunks), strict=True):
        total = total + checkpoint(part, some_rows, some_targets, use_reentrant=False)
    if denominator is None:
        denominator = (targets != ignore_index).sum()
    return total / denominator


class ChunkedHead:
    """Lets a causal language model of Hugging Face compute its loss in chunks; such a training step has no logits in its output."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model: Any = model
        self._head: Any = getattr(model, "lm_head", None)
        self._earlier_loss: Any = getattr(model, "loss_function", None)
        self._step = threading.local()
        self._replaced: list[tuple[Any, Any]] = []

    def refusal(self) -> str:
        """Why this model cannot have it, or nothing."""
        if not isinstance(self._head, torch.nn.Module):
            return "the model has no lm_head"
        if getattr(self._earlier_loss, "__name__", "") != "ForCausalLMLoss":
            return "the model's loss is not that of a causal language model of Hugging Face"
        return ""

    def put_on(self) -> None:
        """Replaces the forward of model and head, and the model's loss."""
        for module, forward in ((self._model, self._forward), (self._head, self._head_forward)):
            self._replaced.append((module, vars(module).get("forward")))
            setattr(self, f"_earlier_{len(self._replaced)}", module.forward)
            module.forward = forward
        self._model.loss_function = self._loss

    def take_off(self) -> None:
        """Model, head and loss as they were."""
        while self._replaced:
            module, earlier = self._replaced.pop()
            if earlier is None:
                del module.forward
            else:
                module.forward = earlier
        vars(self._model).pop("_loss_function", None)
        if getattr(self._model, "loss_function", None) is not self._earlier_loss:
            self._model.loss_function = self._earlier_loss

    def _forward(self, *args: Any, **kwargs: Any) -> Any:
        forward: Any = self._earlier_1  # type: ignore[attr-defined]
        trains = kwargs.get("labels") is not None and torch.is_grad_enabled() and kwargs.get("return_dict") is not False
        if not trains:
            return forward(*args, **kwargs)
        self._step.is_chunked = True
        try:
            output = forward(*args, **kwargs)
        finally:
            self._step.is_chunked = False
        output.logits = None
        return output

    def _head_forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The hidden states themselves where the loss is to take them through the head."""
        if getattr(self._step, "is_chunked", False):
            return hidden
        logits: torch.Tensor = self._earlier_2(hidden)  # type: ignore[attr-defined]
        return logits

    def _loss(self, logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **kwargs: Any) -> Any:
        if not getattr(self._step, "is_chunked", False):
            return self._earlier_loss(logits=logits, labels=labels, vocab_size=vocab_size, **kwargs)
        ignore_index = kwargs.get("ignore_index", -100)
        targets = kwargs.get("shift_labels")
        if targets is None:
            targets = functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
        head: Any = self._earlier_2  # type: ignore[attr-defined]
        return chunked_cross_entropy(
            logits, head, targets, ignore_index=ignore_index, denominator=kwargs.get("num_items_in_batch")
        )
