"""Finds the phases of a plain PyTorch loop without a change to the loop.

    watched = nilometer.torch.watch(model, optimizer)

From then on the run has `data`, `forward`, `backward` and `optimizer` for every step, the step itself,
samples (and tokens) a second, and the GPU's memory. `watched.remove()` ends it; `with watch(...)` does so by itself.

`record_history` (in `_torch_history.py`) records what the CUDA allocator does.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

try:
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
except ImportError as error:
    raise ImportError("nilometer.torch needs PyTorch: pip install torch") from error

from . import _native, _open_runs
from ._torch_history import HistoryRecording as HistoryRecording
from ._torch_history import record_history as record_history
from ._training_run import Run, settle_before_finish
from ._trouble import is_strict, report, require, require_type
from .profiling import GPUMemoryProfiler, ThroughputTracker, TrainingTimer

_is_compiling = torch.compiler.is_compiling

_WHOLE = (torch.int64, torch.int32)

# Outputs that are looked at for their gradients.
_MOST_OUTPUTS = 16


def watch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    *,
    loader: torch.utils.data.DataLoader | None = None,
    run: Run | None = None,
    every: int | None = None,
    step: int | None = 0,
) -> Watch:
    """Times the phases of every training step of a model, from hooks.

    `optimizer` is the model's optimizer or several of them; without it, every optimizer that holds parameters of the model.
    `data` is the time from the end of a step to the next forward; with `loader` it is the time that the loader took.
    `every=N` records each Nth step. Otherwise every step is recorded on the CPU, and on a GPU the first three and as many as take 0.05 % of the time.
    On a GPU each phase has the peak of memory that PyTorch had allocated in it, at least and at most; PyTorch's own peak is read and never reset.
    `step` is the number of the first step; None leaves the step to somebody else.
    What lies between the model's output and its first gradient, the loss, belongs to no phase.
    `with watched.throughput.paused():` leaves an evaluation out of the samples a second; in reinforcement learning a call without
    gradients may be part of the training, so it is not left out by itself.

    >>> import nilometer, tempfile
    >>> run = nilometer.init(dir=tempfile.mkdtemp(), memory=False)
    >>> model = torch.nn.Linear(4, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with watch(model, optimizer):
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(8, 4)).sum().backward()
    ...         optimizer.step()
    >>> run.finish()
    >>> recorded = nilometer.read_run(run.path)
    >>> recorded.phases, recorded.throughput("samples").value.tolist()
    (['backward', 'data', 'forward', 'optimizer'], [8.0, 16.0, 24.0])
    """
    require_type(model, torch.nn.Module, "model")
    if every is not None:
        require_type(every, int, "every")
        require(every > 0, f"every must be positive, not {every}")
    if step is not None:
        require_type(step, int, "step")
    if run is not None:
        require_type(run, _native.Run, "run")
    if loader is not None:
        require_type(loader, torch.utils.data.DataLoader, "loader")
    return Watch(model, _optimizers(optimizer), loader, run, every, step)


def batch_size(batch: Any) -> tuple[int, int]:
    """Samples and tokens in a batch: the first tensor's first dimension, and its elements if it is a table of whole numbers.

    >>> batch_size({"input_ids": torch.zeros(4, 32, dtype=torch.int64)})
    (4, 128)
    >>> batch_size([torch.zeros(4, 3), torch.zeros(4)])
    (4, 0)
    """
    # Nearly always the first argument is the tensor.
    tensor = batch[0] if type(batch) is tuple and batch else None
    if type(tensor) is not torch.Tensor:
        tensor = _first_tensor(batch)
    shape = () if tensor is None else tensor.shape
    if not shape:
        return (0, 0)
    is_tokens = len(shape) == 2 and tensor.dtype in _WHOLE
    return (shape[0], shape[0] * shape[1] if is_tokens else 0)


def _say(error: Exception) -> None:
    """What becomes of trouble in a hook: training is worth more than its record."""
    if is_strict():
        raise error
    report(f"watch: {type(error).__name__}: {error}")


class Watch:
    """One watched model. Its parts are `timer`, `throughput` and `memory` (None without a GPU)."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: list[torch.optim.Optimizer],
        loader: Any,
        run: Run | None,
        every: int | None,
        step: int | None,
    ) -> None:
        self._run = run
        self._counts = step is not None
        self.timer = TrainingTimer(run=run)
        self.throughput = ThroughputTracker(run=run)
        self.memory: GPUMemoryProfiler | None = None
        self._model = weakref.ref(model)
        self._steps = _native.StepWatch(
            _parts(),
            self.timer,
            self.throughput,
            functools.partial(_pick_clock, weakref.ref(self)),
            run=run,
            step=step,
            every=every,
        )
        _pick_clock(weakref.ref(self))
        self._steps.tell_step()
        settle_before_finish.add(self)

        self._handles: list[Any] = []
        if _can_be_replicated(model):
            self._handles += [
                model.register_forward_pre_hook(_BeforeForward(self), with_kwargs=True),
                model.register_forward_hook(_AfterForward(self), always_call=True),
            ]
        else:
            attributes = _attributes(model)
            attributes[_CALL] = self._steps.call(model, self, attributes.get(_CALL))
        if optimizers:
            before, after = self._steps.optimizer_hooks()
            for optimizer in optimizers:
                self._handles += [optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)]
        else:
            before, after = self._steps.optimizer_hooks(functools.partial(_owns, self._model))
            self._handles += [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
        self._loader = None if loader is None else weakref.ref(loader)
        if loader is not None:
            # On the object, not on its class: other loaders are none of our business.
            loader._get_iterator = functools.partial(_timed_iterator, weakref.ref(loader), weakref.ref(self))

    @property
    def step(self) -> int:
        """The number of the step that training is at, or that comes next."""
        return self._steps.step

    def remove(self) -> None:
        """Takes the hooks away, and waits for phases that the GPU is still at."""
        if self._steps.is_over:
            return
        for handle in self._handles:
            handle.remove()
        model = self._model()
        if model is not None:
            self._give_back(_attributes(model))
        loader = self._loader and self._loader()
        if loader is not None:
            vars(loader).pop("_get_iterator", None)
        self._steps.close()
        run = self._run if self._run is not None else _open_runs.current()
        if self._counts and run is not None:
            # What the program logs from here on counts by itself again.
            run.set_step(None)

    def settle(self) -> None:
        """Stores what is held back until the end of the step, and waits for phases that the GPU is still at."""
        self._steps.settle()

    def _give_back(self, attributes: dict[str, Any]) -> None:
        call = attributes.get(_CALL)
        # Below somebody else's call ours stays, and hands everything on.
        if isinstance(call, _native.WatchedCall) and call.owner is self:
            if call.previous is None:
                del attributes[_CALL]
            else:
                attributes[_CALL] = call.previous

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<nilometer.torch.Watch at step {self.step}>"


# Where torch keeps the compiled form of a module's call (`Module.compile`). It is left out of copies and of saved models.
_CALL = "_compiled_call_impl"


def _attributes(model: torch.nn.Module) -> dict[str, Any]:
    """The module's own attributes, past whatever its class does when they are set."""
    attributes: dict[str, Any] = object.__getattribute__(model, "__dict__")
    return attributes


def _can_be_replicated(model: torch.nn.Module) -> bool:
    """Whether the model's call must stay as it is, and hooks, which cost more, be used.

    `DataParallel` copies the attributes of modules to every GPU; only one process with several GPUs does so.
    """
    if isinstance(model, torch.jit.ScriptModule) or not hasattr(torch.nn.Module, _CALL):
        return True
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not is_distributed and torch.cuda.is_available() and torch.cuda.device_count() > 1


@functools.cache
def _parts() -> dict[str, Any]:
    """What the native half asks of torch in every step."""
    return {
        "tensor": torch.Tensor,
        "whole": _WHOLE,
        "is_grad_enabled": torch.is_grad_enabled,
        "compiler": torch.compiler,
        "queue_callback": torch.autograd.Variable._execution_engine.queue_callback,
        "carrier": torch.empty(0),
        "batch_size": batch_size,
        "gradient_nodes": _gradient_nodes,
        "say": _say,
    }


def _pick_clock(watch_ref: Any) -> None:
    """Times by the GPU if the model lies on one; asked again before the first forward, since it may have moved."""
    watch = watch_ref()
    model = watch and watch._model()
    parameter = None if model is None else next(model.parameters(), None)
    if parameter is not None and parameter.is_cuda and watch.memory is None:
        from ._gpu_clock import GpuClock

        watch.timer = TrainingTimer(parameter.device, run=watch._run)
        watch.memory = GPUMemoryProfiler(parameter.device, run=watch._run)
        watch._steps.use_gpu(GpuClock(watch.timer, parameter.device), watch.memory.measure)


def _owns(model_ref: Any, optimizer: torch.optim.Optimizer) -> bool:
    """Whether an optimizer holds parameters of the model."""
    model = model_ref()
    own = {id(parameter) for parameter in model.parameters()} if model is not None else set()
    return any(id(parameter) in own for group in optimizer.param_groups for parameter in group["params"])


class _ModelHook:
    """A hook on the model. Copying or saving a model copies its hooks: the copy has one that does nothing,
    made of the standard library alone, so that a saved model loads where Nilometer is not installed.
    """

    __slots__ = ("_watch",)

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def __reduce__(self) -> Any:
        return (getattr, (contextlib.nullcontext(), "__exit__"))


class _BeforeForward(_ModelHook):
    __slots__ = ()

    def __call__(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        # Within a compiled graph there is nothing to time.
        if not _is_compiling():
            self._watch._steps.before_forward(args, kwargs)


class _AfterForward(_ModelHook):
    __slots__ = ()

    def __call__(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not _is_compiling():
            self._watch._steps.after_forward(output)


class _TimedBatches:
    """A loader's iterator whose waits are stored as `data`."""

    def __init__(self, batches: Any, watch: Watch) -> None:
        self._batches = batches
        self._watch = watch

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._batches)

    def __next__(self) -> Any:
        steps = self._watch._steps
        if steps.is_over:
            return next(self._batches)
        steps.before_batch()
        batch = next(self._batches)
        steps.after_batch()
        return batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def _timed_iterator(loader_ref: Any, watch_ref: Any) -> Any:
    loader, watch = loader_ref(), watch_ref()
    batches = type(loader)._get_iterator(loader)
    return batches if watch is None else _TimedBatches(batches, watch)


def _optimizers(given: Any) -> list[torch.optim.Optimizer]:
    if given is None:
        return []
    is_one = hasattr(given, "step")
    if not is_one and not isinstance(given, Iterable):
        raise TypeError(f"optimizer must be an Optimizer or several of them, not {type(given).__name__}")
    found = [given] if is_one else list(given)
    # Accelerate and others wrap the optimizer that does the work.
    found = [getattr(optimizer, "optimizer", optimizer) for optimizer in found]
    for optimizer in found:
        require_type(optimizer, torch.optim.Optimizer, "optimizer")
    return found


def _first_tensor(value: Any, depth: int = 0) -> torch.Tensor | None:
    if isinstance(value, (tuple, list)):
        parts: Any = value
    elif isinstance(value, torch.Tensor):
        return value
    elif isinstance(value, Mapping):
        parts = value.values()
    else:
        return None
    for part in parts:
        if type(part) is torch.Tensor:
            return part
        found = _first_tensor(part, depth + 1) if depth < 3 else None
        if found is not None:
            return found
    return None


def _gradient_nodes(output: Any) -> list[Any]:
    """Where gradients enter the model's graph."""
    nodes: list[Any] = []
    _collect_nodes(output, nodes)
    return nodes


def _collect_nodes(output: Any, nodes: list[Any], depth: int = 0) -> None:
    if isinstance(output, torch.Tensor):
        if output.grad_fn is not None:
            nodes.append(output.grad_fn)
        return
    if depth > 3:
        return
    if isinstance(output, Mapping):
        parts: Any = output.values()
    elif isinstance(output, (tuple, list)):
        parts = output
    elif depth == 0 and hasattr(output, "__dict__"):
        parts = vars(output).values()
    else:
        return
    for part in parts:
        if len(nodes) >= _MOST_OUTPUTS:
            return
        _collect_nodes(part, nodes, depth + 1)
