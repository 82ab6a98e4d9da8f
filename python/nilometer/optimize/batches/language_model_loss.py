"""The loss of a Hugging Face model in shares that add up to the model's own loss of the whole batch."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from ..measuring.trial import preserved
from .micro_batches import batch_length
from .sample_inputs import is_causal

_IGNORED = -100


class LanguageModelLoss:
    """The model's own loss, a mean over its targets, times how many they are.

    Causal models predict each label from the tokens before it, so that the first label of a row is no target; which models do so is asked of each once, with one row.
    Not every model knows `num_items_in_batch`; all know their mean.
    """

    def __init__(self) -> None:
        self._shifts: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()

    def __call__(self, model: torch.nn.Module, batch: Any) -> torch.Tensor:
        """The sum of the losses of a micro-batch's targets."""
        return self.share(model, batch, 1.0)

    def share(self, model: torch.nn.Module, part: Any, targets: float) -> torch.Tensor:
        """What a micro-batch adds to the loss of a whole batch of `targets`."""
        counted = self.count(model, part)
        if not counted:
            # The mean over nothing is NaN; the whole batch has other targets.
            return torch.zeros((), requires_grad=True)
        if not isinstance(part, Mapping):
            # Python's own sentence would hold the whole model.
            raise TypeError(f'a batch for a language model is a mapping such as {{"input_ids": ..., "labels": ...}}, not {type(part).__name__}')
        loss: torch.Tensor = model(**part).loss
        return loss * (counted / targets)

    def count(self, model: torch.nn.Module, batch: Any) -> int:
        """Targets of a batch: labels that are not -100, without the first of each row where the model shifts them; samples without labels."""
        labels = batch.get("labels") if isinstance(batch, Mapping) else None
        if not isinstance(labels, torch.Tensor):
            return batch_length(batch)
        if labels.dim() > 1 and not labels.is_floating_point() and self._is_shifting(model, batch):
            labels = labels[..., 1:]
        return int((labels != _IGNORED).sum())

    def _is_shifting(self, model: torch.nn.Module, batch: Any) -> bool:
        known = self._shifts.get(model)
        if known is None:
            known = self._shifts[model] = _shifts_labels(model, batch)
        return known


def _shifts_labels(model: torch.nn.Module, batch: Any) -> bool:
    """Whether a label in the first place is left out of the loss, seen by running one row; by the model's name where its loss is not seen."""
    rows = batch_length(batch)
    row = tree_map(lambda leaf: leaf[:1] if isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == rows else leaf, dict(batch))
    row["labels"] = torch.full_like(row["labels"], _IGNORED)
    row["labels"][..., 0] = 0
    seen = _SeenTargets()  # type: ignore[no-untyped-call]
    with preserved(model), torch.no_grad(), seen, contextlib.suppress(Exception):
        # Whatever is wrong with one row, the step itself will tell.
        model.eval()
        model(**row)
    return is_causal(model) if seen.targets is None else seen.targets == 0


class _SeenTargets(TorchFunctionMode):  # type: ignore[no-untyped-call]
    """Counts the targets of calls of `cross_entropy`."""

    targets: int | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "cross_entropy":
            target = kwargs.get("target", args[1] if len(args) > 1 else None)
            if isinstance(target, torch.Tensor) and not target.is_floating_point():
                self.targets = (self.targets or 0) + int((target != _IGNORED).sum())
        return func(*args, **kwargs)


language_model_loss_sum = LanguageModelLoss()
"""The loss sum of a model of Hugging Face, for `AdaptiveBatches`."""
