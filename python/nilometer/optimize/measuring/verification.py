"""Does a changed model still compute the same? Loss and all gradients are compared: the loss alone can be right by accident."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .trial import StepFigures

# Autocast to bfloat16 keeps the loss to 1e-5 and gradients to a cosine of 1.000 on a small transformer; these are wide of that.
LOSS_TOLERANCE = 1e-2
COSINE_TOLERANCE = 0.99


@dataclass(frozen=True)
class Comparison:
    """How far two steps are apart."""

    identical: bool
    """Loss, every gradient and every buffer are equal in every bit."""
    difference: str
    """What differs first, or nothing."""
    loss_error: float
    """Relative difference of the losses."""
    gradient_error: float
    """Norm of the difference of all gradients, relative to their norm."""
    gradient_cosine: float
    """Cosine of the angle between all gradients."""

    def within(self, loss_tolerance: float = LOSS_TOLERANCE, cosine_tolerance: float = COSINE_TOLERANCE) -> bool:
        """Whether the two agree as well as the tolerances ask; a NaN never does."""
        return self.loss_error <= loss_tolerance and self.gradient_cosine >= cosine_tolerance


def compare(before: StepFigures, after: StepFigures) -> Comparison:
    """Compares a step of the changed model with one of the model as it was."""
    difference = _first_difference(before, after)
    inner = ours = theirs = apart = 0.0
    for name, gradient in before.gradients.items():
        other = after.gradients.get(name)
        if gradient is None or other is None:
            continue
        a, b = gradient.double().flatten(), other.double().flatten()
        inner += float(a @ b)
        ours += float(a @ a)
        theirs += float(b @ b)
        apart += float((a - b) @ (a - b))
    norms = (ours * theirs) ** 0.5
    loss, other_loss = float(before.loss), float(after.loss)
    return Comparison(
        identical=not difference,
        difference=difference,
        loss_error=abs(loss - other_loss) / max(abs(loss), 1e-12),
        gradient_error=(apart / ours) ** 0.5 if ours else (0.0 if not apart else float("inf")),
        gradient_cosine=inner / norms if norms else float(ours == theirs),
    )


def _first_difference(before: StepFigures, after: StepFigures) -> str:
    if not _equal(before.loss, after.loss):
        return f"the loss is {float(after.loss)!r} instead of {float(before.loss)!r}"
    for what, ours, theirs in (
        ("gradient of", before.gradients, after.gradients),
        ("buffer", before.buffers, after.buffers),
    ):
        for name, tensor in ours.items():
            other = theirs.get(name)
            if (tensor is None) != (other is None) or (tensor is not None and other is not None and not _equal(tensor, other)):
                return f"the {what} {name} differs"
    return ""


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a.nan_to_num(), b.nan_to_num()))
