"""Finds the phases of a plain PyTorch loop without a change to the loop.

    watched = nilometer.torch.watch(model, optimizer)

From then on the run has `data`, `forward`, `backward` and `optimizer` for every step, the step itself,
samples (and tokens) a second, and the GPU's memory. `watched.remove()` ends it; `with watch(...)` does so by itself.
"""

from __future__ import annotations

import contextlib
import functools
import time
import weakref
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

try:
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
except ImportError as error:
    raise ImportError("nilometer.torch needs PyTorch: pip install torch") from error

from . import _native
from ._trouble import is_strict, report, require, require_type
from .profiling import GPUMemoryProfiler, ThroughputTracker, TrainingTimer
from .profiling.timer import GpuSeconds
from .run import Run, current_run

_engine = torch.autograd.Variable._execution_engine
_is_compiling = torch.compiler.is_compiling

_WHOLE = (torch.int64, torch.int32)

# Outputs that are looked at for their gradients, and GPU phases that may wait for the GPU.
_MOST_OUTPUTS = 16
_MANY_PENDING = 64
_MOST_PENDING = 4096


def watch(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | Iterable[torch.optim.Optimizer] | None = None,
    *,
    loader: torch.utils.data.DataLoader | None = None,
    run: Run | None = None,
    every: int = 1,
    step: int | None = 0,
) -> Watch:
    """Times the phases of every training step of a model, from hooks.

    `optimizer` is the model's optimizer or several of them; without it, every optimizer that holds parameters of the model.
    `data` is the time from the end of a step to the next forward; with `loader` it is the time that the loader took.
    `every=N` records each Nth step only. `step` is the number of the first step; None leaves the step to somebody else.
    What lies between the model's output and its first gradient, the loss, belongs to no phase.

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
    if is_strict():
        raise error
    report(f"watch: {type(error).__name__}: {error}")


def _guarded(hook: Any) -> Any:
    """A hook whose trouble does not reach the training."""

    @functools.wraps(hook)
    def call(*args: Any) -> None:
        try:
            hook(*args)
        except Exception as error:  # noqa: BLE001 - training is worth more than its record
            _say(error)

    return call


class Watch:
    """Hooks on one model. Its parts are `timer`, `throughput` and `memory` (None without a GPU)."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizers: list[torch.optim.Optimizer],
        loader: Any,
        run: Run | None,
        every: int,
        step: int | None,
    ) -> None:
        self._run = run
        self._every = every
        self._counts = step is not None
        self._step = step or 0
        self._is_recorded = self._step % every == 0
        self._has_stepped = False
        self._is_over = False
        self._depth = 0
        self._forward_began: Any = None
        self._has_gradients = False
        self._is_in_backward = False
        self._backward_began: Any = None
        self._optimizer_began: Any = None
        self._optimizer_depth = 0
        self._idle_since: Any = None
        self._has_loader = False
        self._samples = 0
        self._tokens = 0
        self._batch: _Batch | None = None
        self.timer = TrainingTimer(run=run)
        self.throughput = ThroughputTracker(run=run)
        self.memory: GPUMemoryProfiler | None = None
        self._clock: _Clock | _GpuClock = _Clock(self.timer)
        self._clock_is_sure = False
        self._pick_clock(model)
        if self._counts:
            self._destination().set_step(self._step)

        self._model = weakref.ref(model)
        self._handles: list[Any] = [
            model.register_forward_pre_hook(_BeforeForward(self), with_kwargs=True),
            model.register_forward_hook(_AfterForward(self), always_call=True),
        ]
        before, after = self._before_optimizer, self._after_optimizer
        if optimizers:
            for optimizer in optimizers:
                self._handles += [optimizer.register_step_pre_hook(before), optimizer.register_step_post_hook(after)]
        else:
            # These hooks outlive the model, so they must not keep its watch.
            before, after = (functools.partial(_if_owned, weakref.WeakMethod(hook)) for hook in (before, after))
            self._handles += [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
        self._owned: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._loader = None if loader is None else weakref.ref(loader)
        if loader is not None:
            # On the object, not on its class: other loaders are none of our business.
            loader._get_iterator = functools.partial(_timed_iterator, weakref.ref(loader), weakref.ref(self))

    @property
    def step(self) -> int:
        """The number of the step that training is at, or that comes next."""
        return self._step + self._has_stepped

    def remove(self) -> None:
        """Takes the hooks away, and waits for phases that the GPU is still at."""
        if self._is_over:
            return
        self._is_over = True
        for handle in self._handles:
            handle.remove()
        loader = self._loader and self._loader()
        if loader is not None:
            vars(loader).pop("_get_iterator", None)
        if self._has_stepped:
            self._count_samples()
        self._clock.settle(wait=True)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return f"<nilometer.torch.Watch at step {self.step}>"

    def _destination(self) -> Run:
        return self._run if self._run is not None else current_run()

    def _pick_clock(self, module: torch.nn.Module) -> None:
        parameter = next(module.parameters(), None)
        if parameter is not None and parameter.is_cuda and self.memory is None:
            self.timer = TrainingTimer(parameter.device, run=self._run)
            self.memory = GPUMemoryProfiler(parameter.device, run=self._run)
            self._clock = _GpuClock(self.timer, parameter.device, self)
            # Readings of another clock cannot be subtracted.
            self._idle_since = None

    def _now(self) -> Any:
        return self._clock.now() if self._is_recorded else None

    def _before_forward(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if not self._clock_is_sure:
            # The model may have moved to the GPU since.
            self._pick_clock(module)
            self._clock_is_sure = True
        self._is_in_backward = False
        has_gradients = self._has_gradients = torch.is_grad_enabled()
        if has_gradients:
            if self._has_stepped:
                self._advance()
            samples, tokens = batch_size(args)
            if not samples:
                samples, tokens = batch_size(kwargs)
            self._batch = _Batch(self, samples, tokens)
        # A step that raised has left its optimizer open.
        self._optimizer_depth = 0
        now = self._forward_began = self._clock.now() if self._is_recorded else None
        if has_gradients and not self._has_loader:
            self._clock.store("data", self._idle_since, now)
        # An evaluation in between is not waiting for data.
        self._idle_since = None

    def _after_forward(self, output: Any) -> None:
        if self._depth == 0:
            return
        self._depth -= 1
        if self._depth or output is None:
            # Nothing came out of it: an exception.
            return
        if not self._has_gradients:
            self._clock.store("inference", self._forward_began, self._now())
            return
        self._clock.store("forward", self._forward_began, self._now())
        # The hook sits on the graph, so the output stays as it is and nothing of it is kept.
        if type(output) is torch.Tensor:
            if output.grad_fn is not None:
                output.grad_fn.register_prehook(self._batch)
            return
        nodes: list[Any] = []
        _gradient_nodes(output, nodes)
        for node in nodes:
            node.register_prehook(self._batch)

    def _before_backward(self) -> None:
        if not self._is_in_backward:
            self._is_in_backward = True
            self._backward_began = self._now()
            # Runs when the engine has nothing left to do.
            _engine.queue_callback(self._after_backward)

    @_guarded
    def _after_backward(self) -> None:
        if not self._is_in_backward:
            return
        self._is_in_backward = False
        now = self._idle_since = self._now()
        self._clock.store("backward", self._backward_began, now)
        if self._optimizer_began is not None:
            # The optimizer was given a closure: its own work comes after it.
            self._optimizer_began = now

    def _owns(self, optimizer: Any) -> bool:
        """Whether an optimizer holds parameters of the model."""
        owns = self._owned.get(optimizer)
        if owns is None:
            model = self._model()
            own = {id(parameter) for parameter in model.parameters()} if model is not None else set()
            held = (parameter for group in optimizer.param_groups for parameter in group["params"])
            owns = self._owned[optimizer] = any(id(parameter) in own for parameter in held)
        return owns

    @_guarded
    def _before_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        # An interrupted forward is never left, and no optimizer steps within a forward.
        self._depth = 0
        # An optimizer's `step` may call that of its base class, which has hooks too.
        self._optimizer_depth += 1
        if self._optimizer_depth > 1:
            return
        # Within backward there is an optimizer for each parameter: too small to be timed.
        self._optimizer_began = None if self._is_in_backward else self._now()

    @_guarded
    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._optimizer_depth > 1:
            self._optimizer_depth -= 1
            return
        self._optimizer_depth = 0
        if self._is_in_backward:
            self._has_stepped = True
            return
        now = self._clock.now()
        self._clock.store("optimizer", self._optimizer_began, now)
        self._optimizer_began = None
        self._idle_since = now
        self._count_samples()
        if self.memory is not None and self._is_recorded and not self._has_stepped:
            self.memory.measure()
        self._has_stepped = True

    def _count_samples(self) -> None:
        if self._samples:
            self.throughput.update(self._samples, self._tokens)
            self._samples = self._tokens = 0

    def _advance(self) -> None:
        """The next step begins: with its first forward, since several optimizers may have ended the last one."""
        self._count_samples()
        self._has_stepped = False
        self._step += 1
        self._is_recorded = self._step % self._every == 0
        if self._counts:
            self._destination().set_step(self._step)
        self._clock.settle(wait=False)


@_guarded
def _if_owned(method: Any, optimizer: Any, args: Any, kwargs: Any) -> None:
    hook = method()
    if hook is not None and hook.__self__._owns(optimizer):
        hook(optimizer, args, kwargs)


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
            try:
                self._watch._before_forward(module, args, kwargs)
            except Exception as error:  # noqa: BLE001 - training is worth more than its record
                _say(error)


class _AfterForward(_ModelHook):
    __slots__ = ()

    def __call__(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not _is_compiling():
            try:
                self._watch._after_forward(output)
            except Exception as error:  # noqa: BLE001
                _say(error)


class _Batch:
    """What went into one forward. A hook on its graph: counted when its first gradient comes."""

    __slots__ = ("_is_counted", "_samples", "_tokens", "_watch")

    def __init__(self, watch: Watch, samples: int, tokens: int) -> None:
        self._watch = watch
        self._samples = samples
        self._tokens = tokens
        self._is_counted = False

    def __call__(self, gradients: Any) -> None:
        watch = self._watch
        if watch._is_over:
            return
        if not self._is_counted:
            self._is_counted = True
            watch._samples += self._samples
            watch._tokens += self._tokens
        try:
            watch._before_backward()
        except Exception as error:  # noqa: BLE001
            _say(error)


class _Clock:
    """The CPU's clock."""

    def __init__(self, timer: TrainingTimer) -> None:
        self._add = timer.add

    now = staticmethod(time.perf_counter_ns)

    def store(self, name: str, began: int | None, ended: int | None) -> None:
        if began is not None and ended is not None:
            self._add(name, (ended - began) * 1e-9)

    def settle(self, wait: bool) -> None:
        pass


class _GpuClock:
    """Events on the GPU's stream, stored when the GPU has passed them; nothing waits for it."""

    def __init__(self, timer: TrainingTimer, device: torch.device, watch: Watch) -> None:
        self._timer = timer
        self._device = device
        self._watch = weakref.ref(watch)
        self._pending: deque[tuple[GpuSeconds, Any, int | None]] = deque()
        # Making an event costs as much as recording it.
        self._spare: list[Any] = []

    def now(self) -> Any:
        if torch.cuda.is_current_stream_capturing():
            # What is recorded into a graph cannot be read.
            return None
        event = self._spare.pop() if self._spare else torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def store(self, name: str, began: Any, ended: Any) -> None:
        if began is None or ended is None:
            return
        watch = self._watch()
        step = watch._step if watch is not None and watch._counts else self._timer.current_step()
        self._pending.append((GpuSeconds(name, began, ended), began, step))
        if len(self._pending) >= _MANY_PENDING:
            self.settle(wait=False)

    def settle(self, wait: bool) -> None:
        """Stores the durations that are known, each under the step that it was measured in."""
        while self._pending and (wait or len(self._pending) > _MOST_PENDING or self._pending[0][0].ready()):
            seconds, began, step = self._pending.popleft()
            self._timer.add(seconds.path, float(seconds), step)
            # Where one phase ends another may begin, and then this event is the end of one and the beginning of the next.
            # The next one comes later, so that whoever begins with an event is the last to need it.
            self._spare.append(began)


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
        watch = self._watch
        if watch._is_over:
            return next(self._batches)
        watch._has_loader = True
        if watch._has_stepped:
            watch._advance()
        began = watch._now()
        batch = next(self._batches)
        watch._clock.store("data", began, watch._now())
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
    found = [given] if hasattr(given, "step") else list(given)
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


def _gradient_nodes(output: Any, nodes: list[Any], depth: int = 0) -> None:
    """Where gradients enter the model's graph."""
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
        _gradient_nodes(part, nodes, depth + 1)
