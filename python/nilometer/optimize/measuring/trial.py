"""One training step on a sample, as a trial: the model, its gradients and the random state are afterwards as they were."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from ..._trouble import byte_count, require, require_type
from ..objects.tracing import tracing_paused
from .accounting import device_of, meter_for
from .model_snapshot import attributes_of
from .without_dropout import WithoutDropout

# A single step may wait for a kernel that is compiled or chosen by trial, or for another program.
TIMED_STEPS = 3
# Short steps on a CPU are repeated more often, for so many seconds: others disturb them more.
_SHORT_SECS, _SHORT_STEPS = 0.45, 9
# First steps load libraries and fill caches: as long as each is faster by this share than the one before, no time is taken.
_FASTER, _MOST_WARM_UPS = 0.2, 5

LossFunction = Callable[[Any], torch.Tensor]


@dataclass
class Trial:
    """A model with a sample and the way from its output to a loss."""

    model: torch.nn.Module
    sample: Any
    loss: LossFunction | None = None
    optimizer: torch.optim.Optimizer | None = None
    budget_bytes: int | None = None
    """What a step may hold at its peak, for the steps that can be taken as far as needed."""
    is_warm: bool = field(default=False, init=False)
    """Whether steps have been run until they no longer got faster."""

    @property
    def device(self) -> torch.device:
        return device_of(self.model)

    def forward(self) -> Any:
        """The model's output: a mapping is passed as keywords, a tuple or list as arguments, anything else as the only argument."""
        if isinstance(self.sample, Mapping):
            return self.model(**self.sample)
        if isinstance(self.sample, (tuple, list)):
            return self.model(*self.sample)
        return self.model(self.sample)

    def step(self) -> torch.Tensor:
        """Forward and backward; gives the loss."""
        loss = loss_of(self.forward(), self.loss)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def held(self) -> list[Any]:
        """Tensors that exist already and count towards the peak."""
        state = dict(self.optimizer.state) if self.optimizer is not None else {}
        return [list(self.model.parameters()), list(self.model.buffers()), list(state.values()), self.sample]


def check_trial(model: Any, sample: Any, budget_bytes: float | None = None) -> int | None:
    """Raises for what nothing can be measured on: no model, a sample without elements, a budget that is no number of bytes. Gives the budget."""
    require_type(model, torch.nn.Module, "model")
    tensors = [leaf for leaf in tree_leaves(sample) if isinstance(leaf, torch.Tensor)]
    require(not tensors or any(tensor.numel() for tensor in tensors), "the sample is empty: its tensors have no elements")
    return None if budget_bytes is None else byte_count(budget_bytes, "budget_bytes")


def loss_of(output: Any, loss: LossFunction | None) -> torch.Tensor:
    """The loss of an output: what the function says, the output's own loss, or a stand-in, the mean square of all of it."""
    if loss is not None:
        return loss(output)
    own = own_loss(output)
    if own is not None:
        return own
    parts = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    if not parts:
        raise ValueError("the model's output has no floating-point tensor; pass loss=, a function from the output to a loss")
    return torch.stack([part.float().square().mean() for part in parts]).sum()


def own_loss(output: Any) -> torch.Tensor | None:
    """The loss that a model computed itself, as those of Hugging Face do."""
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    return own if isinstance(own, torch.Tensor) else None


@dataclass(frozen=True)
class StepFigures:
    """What one step took and gave."""

    peak_bytes: int
    secs: float
    loss: torch.Tensor
    gradients: Mapping[str, torch.Tensor | None] = field(repr=False)
    buffers: Mapping[str, torch.Tensor] = field(repr=False)


def random_state(device: torch.device) -> list[Any]:
    """The state of the generators that a step on this device draws from."""
    states = [torch.get_rng_state()]
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device))
    return states


def set_random_state(device: torch.device, states: list[Any]) -> None:
    """Puts a state back that `random_state` gave."""
    torch.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)


@contextlib.contextmanager
def preserved(model: torch.nn.Module) -> Iterator[None]:
    """Random state, gradients, buffers and attributes of modules are afterwards as they were; meanwhile there are no gradients."""
    device = device_of(model)
    states = random_state(device)
    put_attributes_back = attributes_of(model)
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        put_attributes_back()
        with torch.no_grad():
            for buffer, kept in buffers:
                buffer.copy_(kept)
        for parameter, gradient in gradients:
            parameter.grad = gradient
        set_random_state(device, states)


def measure_step(trial: Trial, *, timed: bool = True, keep_gradients: bool = False) -> StepFigures:
    """Runs steps for their time and one for its peak, each from the same random state, and takes nothing of them over.

    It begins without gradients; with `keep_gradients`, where there are some, with zeros instead.
    Counting slows a step down, so the time is that of steps that are neither counted nor traced (tracemalloc): the median of three on a GPU, the shortest of some on a CPU.
    """
    model, device = trial.model, trial.device
    secs = 0.0
    if timed:
        with tracing_paused():
            secs = _timed(trial)
    had_gradients = [parameter for parameter in model.parameters() if keep_gradients and parameter.grad is not None]
    with preserved(model):
        for parameter in had_gradients:
            parameter.grad = torch.zeros_like(parameter)
        meter = meter_for(device, [*trial.held(), [parameter.grad for parameter in had_gradients]])
        with meter:
            loss = trial.step()
            peak_bytes = meter.peak
        return _figures(model, loss, peak_bytes, secs)


def step_without_dropout(trial: Trial) -> tuple[StepFigures, bool]:
    """What a step gives without dropout, and whether there was any; its peak and time are not measured.

    In a model that is checkpointed already, what runs again in backward does so with dropout, and torch notices: this raises `CheckpointError`.
    """
    with preserved(trial.model), WithoutDropout() as without:
        return _figures(trial.model, trial.step(), 0, 0.0), without.found


def _figures(model: torch.nn.Module, loss: torch.Tensor, peak_bytes: int, secs: float) -> StepFigures:
    gradients = {
        name: None if parameter.grad is None else parameter.grad.detach().cpu().clone() for name, parameter in model.named_parameters()
    }
    buffers = {name: buffer.detach().cpu().clone() for name, buffer in model.named_buffers()}
    return StepFigures(peak_bytes, secs, loss.cpu(), gradients, buffers)


def _timed(trial: Trial) -> float:
    device = trial.device
    _warm_up(trial)
    times: list[float] = []
    while len(times) < TIMED_STEPS or (device.type == "cpu" and len(times) < _SHORT_STEPS and sum(times) < _SHORT_SECS):
        times.append(_step_secs(trial))
    return min(times) if device.type == "cpu" else statistics.median(times)


def _warm_up(trial: Trial) -> None:
    """One step for caches and allocators; before a trial's first time as many as it takes."""
    last = _step_secs(trial)
    for _ in range(0 if trial.is_warm else _MOST_WARM_UPS):
        secs = _step_secs(trial)
        if secs > (1 - _FASTER) * last:
            break
        last = secs
    trial.is_warm = True


def _step_secs(trial: Trial) -> float:
    with preserved(trial.model):
        _settle(trial.device)
        begun = time.perf_counter()
        trial.step()
        _settle(trial.device)
        return time.perf_counter() - begun


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
