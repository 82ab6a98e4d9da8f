"""Runs a function on tensors without data and tells what it would allocate on a GPU."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)

from .._native import replay_allocations
from .._trouble import NilometerError
from .cuda_semantics import CudaSemantics
from .gpus import Gpu, find_gpu
from .library_shims import as_on_a_gpu
from .tape import AllocationTape, TapeMode

_NEEDS_VALUES = (DataDependentOutputException, DynamicOutputShapeException)
_PACKAGE = __file__.rpartition("/")[0]


class TraceError(NilometerError):
    """A program that cannot be traced, because it depends on what tensors contain."""


class Trace:
    """What a traced program would have allocated on a GPU.

    Attributes:
        peak_allocated_bytes: What `torch.cuda.max_memory_allocated()` would tell.
        peak_reserved_bytes: What `torch.cuda.max_memory_reserved()` would tell.
        phase: In which phase most was allocated: forward (which is everything else), backward or optimizer.
        parts: Bytes at that moment by what they are for.
        assumptions: What was assumed because tensors have no values, by line of the program.
    """

    def __init__(self, tape: AllocationTape, assumptions: list[str], gpu: Gpu, expandable_segments: bool) -> None:
        self.gpu = gpu
        self.assumptions = assumptions
        allocated, event, reserved, _ = replay_allocations(tape.ids, tape.sizes, expandable_segments=expandable_segments)
        self.peak_allocated_bytes, self.peak_reserved_bytes = allocated, reserved
        self.events = len(tape.ids)
        self.phase = tape.phase_of_event(event)
        standing = tape.standing_at(event) if self.events else {}
        parts: defaultdict[str, int] = defaultdict(int)
        for number, size in standing.items():
            parts[tape.purpose_of(number)] += size
        parts["rounding"] = allocated - sum(parts.values())
        self.parts = dict(sorted(parts.items(), key=lambda part: -part[1]))

    def __repr__(self) -> str:
        return f"<Trace: {self.peak_allocated_bytes / 2**20:,.1f} MiB allocated at most ({self.phase}), {self.peak_reserved_bytes / 2**20:,.1f} MiB reserved>"


def trace(function: Callable[[], Any], *, gpu: str | Gpu = "H100", expandable_segments: bool = False) -> Trace:
    """Runs a function of yours, which makes a model, trains it for some steps or does anything else with PyTorch, without a GPU and without data.

    Tensors inside have shapes and no values: `.item()` gives 0, and a condition on a value raises `TraceError`.
    Every tensor counts as being on the GPU, whether the function moves it there or not.
    Run two steps at least: the optimizer's state is made in the first one.

    Args:
        function: Called once. Tensors that it brings along from outside count when an operation uses them.
        gpu: Whose libraries to assume (`nilometer.fit.gpus`).
        expandable_segments: Whether PyTorch's allocator has that setting.

    >>> def train():
    ...     model = torch.nn.Linear(1024, 1024, device="cuda")
    ...     optimizer = torch.optim.AdamW(model.parameters())
    ...     for _ in range(2):
    ...         model(torch.randn(4096, 1024, device="cuda")).square().mean().backward()
    ...         optimizer.step()
    ...         optimizer.zero_grad()
    >>> trace(train).phase
    'backward'
    """
    with tracing(gpu, expandable_segments) as session:
        session.run(function)
    return session.result()


class TraceSession:
    """A trace that is being made."""

    def __init__(self, gpu: Gpu, expandable_segments: bool) -> None:
        self.tape = AllocationTape(gpu.workspace_bytes)
        self._gpu, self._expandable_segments = gpu, expandable_segments
        self._semantics = CudaSemantics(self._assume_a_value)
        self._assumptions: dict[str, None] = {}

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Within it, what is allocated belongs to a phase; the modes of the trace are on, whoever calls."""
        before, self.tape.phase = self.tape.phase, name
        try:
            with self._semantics:
                yield
        finally:
            self.tape.phase = before

    def run(self, function: Callable[[], Any]) -> Any:
        try:
            with FakeTensorMode(allow_non_fake_inputs=True), self._registered_weights(), self._semantics, TapeMode(self.tape):
                with as_on_a_gpu(self.phase, self._stepped, lambda weight: self.tape.label(weight, "weights")):
                    return function()
        except _NEEDS_VALUES as error:
            raise TraceError(f"{_user_line(error)} depends on what a tensor contains, which a trace does not know") from error
        except UnsupportedOperatorException as error:
            raise TraceError(f"{_user_line(error)} uses {error}, which PyTorch cannot run without data") from error

    def result(self) -> Trace:
        return Trace(self.tape, list(self._assumptions), self._gpu, self._expandable_segments)

    def _assume_a_value(self) -> None:
        frame = sys._getframe()
        while frame.f_back is not None and (frame.f_code.co_filename.startswith(_PACKAGE) or "/torch/" in frame.f_code.co_filename):
            frame = frame.f_back
        self._assumptions[f"the value asked for in {frame.f_code.co_filename}:{frame.f_lineno} was taken for 0"] = None

    def _stepped(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer made its step: what it keeps, and whose gradients it used."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self.tape.label(parameter, "weights")
                self.tape.label(parameter.grad, "gradients")
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else []:
                self.tape.label(value, "optimizer state")

    @contextlib.contextmanager
    def _registered_weights(self) -> Iterator[None]:
        from torch.nn.modules import module as modules

        def registered(module: torch.nn.Module, name: str, tensor: Any) -> None:
            self.tape.label(tensor, "weights")

        hooks = [modules.register_module_parameter_registration_hook(registered), modules.register_module_buffer_registration_hook(registered)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


@contextlib.contextmanager
def tracing(gpu: str | Gpu, expandable_segments: bool = False) -> Iterator[TraceSession]:
    yield TraceSession(gpu if isinstance(gpu, Gpu) else find_gpu(gpu), expandable_segments)


def _user_line(error: BaseException) -> str:
    """The innermost line that is neither ours nor PyTorch's."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_PACKAGE) and "/torch/" not in frame.filename]
    return f"{lines[-1].filename}:{lines[-1].lineno}" if lines else "the program"
