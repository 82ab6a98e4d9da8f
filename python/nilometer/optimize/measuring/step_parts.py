"""The peaks of a training step, part by part: what a larger batch takes follows from each of them, not from the highest alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .accounting import CudaMeter, TensorMeter


class StepParts:
    """Takes the meter's peak of each part of the steps that are run while it is entered.

    A part ends where a module without children is through, where the gradient of its output is known, where that of a parameter is, and around `optimizer.step()`.
    The hooks change nothing. Modules of TorchScript take none, and a compiled model may not call those of its modules: such steps have fewer parts.

    >>> from nilometer.optimize import TensorMeter
    >>> model = torch.nn.Linear(4, 4)
    >>> with TensorMeter() as meter, StepParts(meter, model, None) as parts:
    ...     model(torch.zeros(2, 4)).sum().backward()
    >>> len(parts.peaks)
    5
    """

    def __init__(self, meter: TensorMeter | CudaMeter, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
        self.peaks: list[int] = []
        self._meter = meter
        self._model = model
        self._optimizer = optimizer
        self._hooks: list[Any] = []
        self._is_open = False

    def __enter__(self) -> StepParts:
        self._is_open = True
        for module in self._model.modules():
            if next(module.children(), None) is None and not isinstance(module, torch.jit.ScriptModule):
                self._hooks.append(module.register_forward_hook(self._after_forward))
        for parameter in self._model.parameters():
            if parameter.requires_grad and parameter.is_leaf:
                self._hooks.append(parameter.register_post_accumulate_grad_hook(self._end_part))
        for name in ("register_step_pre_hook", "register_step_post_hook"):
            # Wrappers of optimizers may have none.
            register: Callable[..., Any] | None = getattr(self._optimizer, name, None)
            if register is not None:
                self._hooks.append(register(self._end_part))
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._end_part()
        # Whoever keeps the loss may come back to its graph.
        self._is_open = False

    def _after_forward(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        self._end_part()
        if isinstance(output, torch.Tensor) and output.requires_grad:
            output.register_hook(self._end_part)

    def _end_part(self, *_: object) -> None:
        if not self._is_open:
            return
        self.peaks.append(self._meter.peak)
        self._meter.reset_peak()
