"""Functions, blocks and training loops that leave no garbage behind."""

from __future__ import annotations

import contextlib
import functools
import gc
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar, overload

from ..._trouble import require, require_type
from ..config import MemoryOptimizationConfig
from ..host import process_heap
from ..host.cleanup import clean_up, empty_gpu_cache
from ..host.housekeeping import start_collector
from .optimization_system import MemoryOptimizationSystem

Function = TypeVar("Function", bound="Callable[..., Any] | classmethod[Any, Any, Any]")
# Below this growth nothing is worth a collection.
_LEAST_MB = 16.0
_MIB = 1 << 20


@contextlib.contextmanager
def memory_efficient_context(*, threshold_mb: float = 0.0) -> Iterator[dict[str, Any]]:
    """Collects garbage and gives unused memory back when the block ends, also by an exception.

    The dictionary has the measured figures afterwards, as `quick_memory_optimization` gives them, and by how much the block grew (`growth_mb`).
    With `threshold_mb` nothing is done where the block grew by less: a full collection is not free.

    >>> with memory_efficient_context() as figures:
    ...     values = [bytes(1000) for _ in range(1000)]
    >>> figures["memory_saved_mb"] >= 0, "growth_mb" in figures
    (True, True)
    """
    _check_threshold(threshold_mb)
    figures: dict[str, Any] = {}
    before = process_heap.rss_bytes()
    try:
        yield figures
    finally:
        growth = (process_heap.rss_bytes() - before) / _MIB
        figures["growth_mb"] = round(growth, 3)
        if growth >= threshold_mb or threshold_mb <= 0:
            figures |= clean_up([("garbage collection", gc.collect), ("GPU cache", empty_gpu_cache), ("heap trim", process_heap.trim)])


def _check_threshold(threshold_mb: float) -> None:
    require_type(threshold_mb, (int, float), "threshold_mb")
    require(threshold_mb >= 0, f"threshold_mb must not be negative, not {threshold_mb}")


@overload
def memory_efficient_decorator(function: Function) -> Function: ...
@overload
def memory_efficient_decorator(*, threshold_mb: float = ...) -> Callable[[Function], Function]: ...
def memory_efficient_decorator(function: Any = None, *, threshold_mb: float = _LEAST_MB) -> Any:
    """Collects garbage and gives unused memory back after each call that grew the process by `threshold_mb` or more.

    Takes functions, `async` functions, and generators of both kinds, with or without arguments of its own;
    above `@staticmethod` and `@classmethod` as well as below.

    >>> @memory_efficient_decorator
    ... def squares(count):
    ...     return [number * number for number in range(count)]
    >>> squares(3)
    [0, 1, 4]
    """
    _check_threshold(threshold_mb)
    if function is None:
        return functools.partial(memory_efficient_decorator, threshold_mb=threshold_mb)
    if isinstance(function, (staticmethod, classmethod)):
        # What they make of a function is no function: wrapped as one it would be bound like a method.
        return type(function)(memory_efficient_decorator(threshold_mb=threshold_mb)(function.__func__))
    if isinstance(function, (int, float)) or not callable(function):
        raise TypeError(f"memory_efficient_decorator decorates a function, not {type(function).__name__}: name its argument, threshold_mb=")

    def context() -> contextlib.AbstractContextManager[Any]:
        return memory_efficient_context(threshold_mb=threshold_mb)

    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def call_async_generator(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            with context():
                async with contextlib.aclosing(function(*args, **kwargs)) as items:
                    async for item in items:
                        yield item

        return call_async_generator
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            with context():
                return await function(*args, **kwargs)

        return call_async
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def call_generator(*args: Any, **kwargs: Any) -> Any:
            with context():
                return (yield from function(*args, **kwargs))

        return call_generator

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with context():
            return function(*args, **kwargs)

    return call


@contextlib.contextmanager
def memory_efficient_training(config: MemoryOptimizationConfig | None = None, **collector_settings: Any) -> Iterator[MemoryOptimizationSystem]:
    """A training loop of your own with garbage collected between steps and memory watched: call `step()` on what it gives, once per step.

    Collections follow steps (`GarbageCollector`, whose settings may be given) instead of the settings' thresholds; nothing is traced by line.
    Unused memory is freed at the end.

    >>> with memory_efficient_training() as training:
    ...     for _ in range(3):
    ...         training.step(samples=8)
    >>> training.get_comprehensive_report()["training"]["steps"]
    3
    """
    if config is None:
        config = MemoryOptimizationConfig(enable_memory_profiling=False)
    collector, is_ours = start_collector(**collector_settings)
    system = MemoryOptimizationSystem(config)
    try:
        with system:
            system.use_collector(collector)
            try:
                yield system
            finally:
                system.optimize_memory_usage()
    finally:
        if is_ours:
            collector.stop()
