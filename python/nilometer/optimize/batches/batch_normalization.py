"""Batch normalization, which sees a micro-batch where it would have seen the batch."""

from __future__ import annotations

import warnings

import torch

from ..._trouble import NilometerWarning


class NormalizationWarning:
    """Says once that splitting a batch changes what a model computes."""

    def __init__(self) -> None:
        self._is_said = False

    def on_split(self, model: torch.nn.Module, *, stacklevel: int) -> None:
        """A batch is about to run in parts. Layers that do not train normalize by what they have learned, in parts as in the whole."""
        if self._is_said or not any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.training for module in model.modules()):
            return
        self._is_said = True
        warnings.warn(
            "batch normalization depends on the size of micro-batches: gradients will not equal those of the whole batch",
            NilometerWarning,
            stacklevel=stacklevel + 1,
        )
