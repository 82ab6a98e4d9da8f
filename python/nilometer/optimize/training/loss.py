"""The loss of a batch, from a data loader's batch and a loss function, in shares that add up over micro-batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..._trouble import NilometerWarning, require
from ..batches.micro_batches import batch_length
from ..batches.sample_inputs import is_causal
from ..measuring.trial import Trial, loss_of

# Parts of batches whose loss is checked: targets that are ignored are not in each.
_CHECKED_PARTS = 16
_TARGET_KEYS = ("labels", "label", "targets", "target", "y")


class BatchLoss:
    """`loss_fn(output, target)` of batches `(input, target)`; a batch with more parts gives the model all but the last.

    Of a mapping, the target is what `labels`, `label`, `targets`, `target` or `y` names, and the rest are keywords of the model.
    Without a `loss_fn` the model computes its own loss, as Hugging Face models do.
    Losses are means over samples, or over what the loss function averages over; one with `reduction="sum"` stays a sum.
    """

    def __init__(self, loss_fn: Callable[..., torch.Tensor] | None, model: torch.nn.Module) -> None:
        require(loss_fn is None or callable(loss_fn), f"loss_fn must be a function of output and target, not {type(loss_fn).__name__}")
        self.loss_fn = loss_fn
        self.reduction = getattr(loss_fn, "reduction", "mean")
        if self.reduction not in ("mean", "sum"):
            raise ValueError(f"loss_fn must give one number: its reduction is {self.reduction!r}; use 'mean' or 'sum'")
        self._shifts_labels = loss_fn is None and is_causal(model)
        # Torch's loss modules say what they average over; of a function it is tried.
        self._checks_left = 0 if loss_fn is None or hasattr(loss_fn, "reduction") else _CHECKED_PARTS

    def split(self, batch: Any) -> tuple[Any, Any]:
        """Inputs of the model, and the target of the loss function (None where there is none)."""
        if isinstance(batch, Mapping):
            if self.loss_fn is None:
                return batch, None
            key = next((key for key in _TARGET_KEYS if key in batch), None)
            if key is None:
                raise ValueError(f"a batch with the keys {', '.join(map(str, batch))} has no target for loss_fn: name it one of {', '.join(_TARGET_KEYS)}")
            return {name: value for name, value in batch.items() if name != key}, batch[key]
        if isinstance(batch, (tuple, list)) and len(batch) > 1 and self.loss_fn is not None:
            return batch[0] if len(batch) == 2 else tuple(batch[:-1]), batch[-1]
        return batch, None

    def trial(self, model: torch.nn.Module, batch: Any, optimizer: torch.optim.Optimizer | None = None) -> Trial:
        """A batch as a trial step."""
        inputs, target = self.split(batch)
        return Trial(model, inputs, self._of_output(target), optimizer)

    def loss(self, model: torch.nn.Module, batch: Any, *, is_part: bool = False) -> torch.Tensor:
        """The loss of a batch as a plain training loop computes it; of a part of one, it is checked that such losses add up."""
        inputs, target = self.split(batch)
        trial = Trial(model, inputs, self._of_output(target), None)
        output = trial.forward()
        loss = loss_of(output, trial.loss)
        if is_part:
            self._check_mean(output, target)
        if loss.dim():
            raise ValueError(f"loss_fn must give one number, not a tensor of shape {tuple(loss.shape)}: take its mean")
        return loss

    def count(self, batch: Any) -> float:
        """How much the mean loss of a batch counts: targets that are not ignored (by their weights), or samples."""
        _, target = self.split(batch)
        weight, ignored = getattr(self.loss_fn, "weight", None), getattr(self.loss_fn, "ignore_index", None)
        if isinstance(target, torch.Tensor) and ignored is not None and not target.is_floating_point():
            counted = target[target != ignored]
            return float(counted.numel() if weight is None else weight[counted].sum())
        labels = batch.get("labels") if isinstance(batch, Mapping) and self.loss_fn is None else None
        if isinstance(labels, torch.Tensor):
            counted = labels[..., 1:] if self._shifts_labels else labels
            return float((counted != -100).sum())
        return float(batch_length(batch))

    def share(self, model: torch.nn.Module, part: Any, targets: float) -> torch.Tensor:
        """What a micro-batch adds to the loss of the whole batch, which counts `targets` over all ranks."""
        if self.reduction == "sum":
            return self.loss(model, part)
        counted = self.count(part)
        if not counted:
            # The mean over nothing is NaN; the whole batch has other targets.
            return torch.zeros((), requires_grad=True)
        return self.loss(model, part, is_part=counted < targets) * (counted / targets)

    def __call__(self, model: torch.nn.Module, part: Any) -> torch.Tensor:
        """The sum of the losses of a micro-batch."""
        return self.share(model, part, 1.0)

    def _check_mean(self, output: Any, target: Any) -> None:
        """Whether the loss is a mean over samples: then those of two halves, by their samples, are that of both."""
        loss_fn = self.loss_fn
        if self._checks_left == 0 or loss_fn is None or not isinstance(output, torch.Tensor) or not isinstance(target, torch.Tensor):
            return
        rows = len(output) if output.dim() else 0
        if rows < 2 or not target.dim() or len(target) != rows:
            return
        self._checks_left -= 1
        half = rows // 2
        with torch.no_grad():
            whole = float(loss_fn(output, target))
            parts = half * float(loss_fn(output[:half], target[:half])) + (rows - half) * float(loss_fn(output[half:], target[half:]))
        if not abs(parts / rows - whole) <= 1e-3 * max(abs(whole), 1e-6):
            self._checks_left = 0
            warnings.warn(
                "loss_fn is not a mean over samples: the gradients of micro-batches do not add up to those of the whole batch."
                " Use a loss module such as torch.nn.CrossEntropyLoss(ignore_index=...), whose targets are counted, or an initial_batch_size that is not split",
                NilometerWarning,
                stacklevel=2,
            )

    def _of_output(self, target: Any) -> Callable[[Any], torch.Tensor] | None:
        loss_fn = self.loss_fn
        if loss_fn is None:
            return None
        return (lambda output: loss_fn(output)) if target is None else (lambda output: loss_fn(output, target))
