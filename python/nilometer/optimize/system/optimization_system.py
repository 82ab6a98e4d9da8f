"""One thing around a program that watches memory, keeps garbage and buffers in check, and makes a model fit."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import _native
from ..._trouble import refuse_pickling, require_type, whole_number
from ...memory import MemoryDebugger
from ...memory.training_steps import count_step
from ..config import MemoryOptimizationConfig
from ..host import process_heap
from ..host.cleanup import Action, clean_up, empty_gpu_cache
from ..host.housekeeping import Housekeeping, buffer_metrics, start_collector
from ..in_run import newest_step, tell_facts, tell_metrics
from ..live_facts import recommendations
from ..objects.allocation_lines import AllocationLines
from ..objects.object_leaks import ObjectLeaks
from .facts import facts_of_system
from .step_rate import StepRate

if TYPE_CHECKING:
    import torch

    from ...buffers import BufferManager
    from ..host.garbage import GarbageCollector
    from ..measuring.trial import LossFunction
    from ..model.optimization import ModelOptimization

_MIB = 1 << 20
_ALERTS_KEPT = 100
_TOLD_EVERY_SECS = 1.0


class MemoryOptimizationSystem:
    """Watches memory and alerts, collects garbage, manages buffers within a budget, and optimizes models on measured figures.

    It works between `start()` and `stop()`, or within `with`; `step()` once per training step tells it where steps end.
    Nothing here imports torch unless a model is given.

    >>> with MemoryOptimizationSystem(MemoryOptimizationConfig(enable_memory_profiling=False)) as optimizer:
    ...     results = optimizer.optimize_memory_usage()
    ...     report = optimizer.get_comprehensive_report()
    >>> results["memory_saved_mb"] >= 0, 0 < report["current_memory_usage"]["memory_percent"] < 1
    (True, True)
    """

    def __init__(self, config: MemoryOptimizationConfig | None = None) -> None:
        if config is not None:
            require_type(config, MemoryOptimizationConfig, "config")
        self.config = config = MemoryOptimizationConfig() if config is None else config
        self.monitor = MemoryDebugger(
            monitoring_interval=config.monitoring_interval,
            warning_percent=_percent(config.memory_warning_threshold),
            critical_percent=_percent(config.memory_critical_threshold),
            gpu_warning_percent=_percent(config.gpu_warning_threshold),
            gpu_critical_percent=_percent(config.gpu_critical_threshold),
            count_objects=config.enable_object_counting,
            max_memory_bytes=config.max_memory_bytes,
        )
        self._next_told = 0.0
        self._told_step: int | None = None
        self.buffers: BufferManager | None = _buffer_manager(config)
        self.collector: GarbageCollector | None = None
        self.leaks: ObjectLeaks | None = None
        self.alerts: deque[dict[str, Any]] = deque(maxlen=_ALERTS_KEPT)
        self.cleanups: list[dict[str, Any]] = []
        self.model_optimizations: list[ModelOptimization] = []
        self.lines = AllocationLines(config.profile_top_n)
        self._housekeeping: Housekeeping | None = None
        self._owns_collector = self._is_started = False
        self._begun_at = self._ended_at = 0.0
        self.steps = self.samples = 0
        self.rate = StepRate()
        self._steps_collector = self._is_aside = False
        self._step_thread = 0
        self.monitor.add_alert_callback(self._on_alert)

    __reduce__ = refuse_pickling

    def start(self) -> None:
        """Begins to watch. A second start does nothing."""
        if self._is_started:
            return
        config = self.config
        self._is_started = True
        self._begun_at, self._ended_at = time.perf_counter(), 0.0
        self.collector, self._owns_collector = start_collector(
            thresholds=config.gc_thresholds,
            interval=config.auto_gc_interval,
            pressure=config.memory_critical_threshold,
            limit_bytes=self.limit_bytes,
        )
        self._steps_collector = self._owns_collector
        if config.enable_memory_profiling:
            self.lines.start()
        if config.enable_object_counting:
            self.leaks = ObjectLeaks(top_n=config.profile_top_n, trace_lines=config.enable_memory_profiling)
        self.monitor.start_monitoring()
        self._housekeeping = Housekeeping(self.collector, self.buffers, config.monitoring_interval, config.auto_gc_interval)
        self._housekeeping.start()

    def stop(self) -> None:
        """Stops watching; garbage collection is as it was before. What was done to models stays until `undo`."""
        if not self._is_started:
            return
        self._is_started = False
        # First of all: what is looked at while the rest ends is no longer the program that was watched.
        self.monitor.stop_monitoring()
        if self._housekeeping is not None:
            self._housekeeping.end()
            self.log_buffers()
        with self._aside():
            for subject, values in self.facts().items():
                if subject != "thresholds":
                    tell_facts(subject, values)
        if self.collector is not None and self._owns_collector:
            self.collector.stop()
        if self.leaks is not None:
            self.leaks.stop()
        self.lines.stop()
        self._ended_at = time.perf_counter()

    def __enter__(self) -> MemoryOptimizationSystem:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def limit_bytes(self) -> int:
        """What the program may hold: `max_memory_usage_gb`, or the limit in force where that is smaller."""
        limit = _native.memory_limit()
        return self.config.max_memory_bytes if limit is None else min(limit[0], self.config.max_memory_bytes)

    def use_collector(self, collector: GarbageCollector) -> None:
        """Steps go to this collector, which somebody else starts and stops."""
        self.collector = collector
        self._steps_collector = True

    def step(self, samples: int = 0) -> None:
        """Once per training step, after `optimizer.step()`: garbage is collected here, objects that stay are counted, throughput is measured."""
        samples = whole_number(samples, "samples", least=0)
        self.rate.add(samples)
        self._step_thread = threading.get_ident()
        self.steps += 1
        count_step()
        self.samples += samples
        self._tell_rate()
        if self.collector is not None and self._steps_collector:
            self.collector.step()
        if self.leaks is not None:
            self.leaks.step()

    def _tell_rate(self) -> None:
        """The run learns how training goes, and that it makes steps, about once a second."""
        now = time.perf_counter()
        if now < self._next_told:
            return
        self._next_told = now + _TOLD_EVERY_SECS
        rates = {"steps_per_second": self.rate.steps_per_second, "samples_per_second": self.rate.samples_per_second}
        values = {f"training/{name}": rate for name, rate in rates.items() if rate is not None}
        # A program that logs steps counts them itself.
        of_run = newest_step()
        self._told_step = self.steps if of_run in (None, self._told_step) else of_run
        if values:
            tell_metrics(values, step=self._told_step)

    def optimize_memory_usage(self) -> dict[str, Any]:
        """Frees unused memory: garbage, what was registered for cleanup, PyTorch's cache, unused heap. `memory_saved_mb` is measured, and may be 0."""
        collector = self.collector
        collect = gc.collect if collector is None else (lambda: collector.collect(2))
        actions: list[Action] = [("garbage collection", collect), ("GPU cache", empty_gpu_cache), ("heap trim", process_heap.trim)]
        if self.leaks is not None:
            actions.insert(0, ("registered objects", self.leaks.cleanup))
        result = clean_up(actions)
        self.cleanups.append(result)
        return result

    def optimize_model_architecture(
        self,
        model: torch.nn.Module,
        sample: Any = None,
        *,
        loss: LossFunction | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        tolerance: bool = False,
        keep_all: bool = False,
    ) -> dict[str, Any]:
        """Makes a model leaner without changing its results: parameter storage, fused attention, a checkpoint plan.

        Each step is measured on `sample`, a batch (a mapping is passed as keywords, a tuple as arguments), and taken back where its saving is not worth its time (see `apply_steps`); `keep_all=True` keeps whatever saves.
        Without one, an input that the model declares is taken (`dummy_inputs`, `example_input_array`); otherwise only parameter storage is looked at.
        `tolerance=True` also tries what changes results by rounding. `undo()` takes the steps back.
        """
        from ..model.optimization import optimize_model

        done = optimize_model(model, sample, loss=loss, optimizer=optimizer, tolerance=tolerance, keep_all=keep_all)
        self.model_optimizations.append(done)
        return done.as_dict()

    def optimize_training_pipeline(
        self,
        model: torch.nn.Module,
        sample_input: Any,
        *,
        loss: LossFunction | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        budget_bytes: int | None = None,
        verify_batch: bool = False,
        keep_all: bool = False,
    ) -> dict[str, Any]:
        """Everything that makes a training step smaller: the steps of `optimize_model_architecture`, chunked loss, bfloat16 autocast, and the largest batch.

        The batch is predicted from small steps on the CPU allocator's or the GPU's figures; `verify_batch=True` runs the steps that prove it.
        `budget_bytes` is what a step may take; it never takes more than what is free of the GPU, or of what this program may hold.
        """
        from ..measuring.trial import check_trial
        from ..model.optimization import largest_batch, optimize_model

        budget_bytes = check_trial(model, sample_input, budget_bytes)
        done = optimize_model(model, sample_input, loss=loss, optimizer=optimizer, tolerance=True, keep_all=keep_all)
        done.batch = largest_batch(
            model,
            sample_input,
            loss=loss,
            optimizer=optimizer,
            budget_bytes=budget_bytes,
            verify=verify_batch,
            host_budget_bytes=self.config.max_memory_bytes,
        )
        self.model_optimizations.append(done)
        return done.as_dict()

    def undo(self) -> None:
        """Takes back what was done to models, the last first."""
        for done in reversed(self.model_optimizations):
            done.undo()

    def status(self) -> dict[str, Any]:
        """The monitor's report. It counts objects, which takes a full collection: none that the program asked for."""
        with self._aside():
            return self.monitor.get_status_report()

    def facts(self) -> dict[str, Any]:
        """What is known of the program, by subject, as the rules of advice take it."""
        with self._aside():
            return facts_of_system(self, None if self.leaks is None or not self.steps else self.leaks.report())

    def generate_optimization_recommendations(self) -> list[dict[str, Any]]:
        """What the rules of advice recommend on live facts, best first: `rule`, `text`, `change`, `evidence`, `saving` (None where none is known), `confidence`, `source`."""
        return recommendations(self.facts())

    def get_comprehensive_report(self) -> dict[str, Any]:
        """Memory now, its trend and alerts, buffers, garbage collection, the model, what was done and measured, and what is recommended."""
        from .report import report_of

        with self._aside():
            return report_of(self)

    def export_optimization_report(self, filepath: str | os.PathLike[str]) -> dict[str, Any]:
        """The report as a file, JSON or Markdown by its name (`.json`, `.md`), whole or not at all."""
        from ..report_files import write_report
        from .report import as_markdown

        report = self.get_comprehensive_report()
        write_report(filepath, report, as_markdown)
        return report

    def log_buffers(self) -> None:
        """Logs the figures of the buffers into the current run; the monitoring thread does the same once per interval."""
        if self.buffers is not None:
            metrics = buffer_metrics(self.buffers.stats())
            if metrics:
                tell_metrics(metrics, step=newest_step(self.steps))

    @property
    def seconds(self) -> float:
        """How long it has watched."""
        return (self._ended_at or time.perf_counter()) - self._begun_at if self._begun_at else 0.0

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        """Within it the loop stands still: the time of reports is no time of steps. One within another counts once; on another thread than that of the steps the loop goes on."""
        if self._is_aside:
            yield
            return
        self._is_aside, begun = True, time.perf_counter()
        try:
            with contextlib.nullcontext() if self.collector is None else self.collector.aside():
                yield
        finally:
            self._is_aside = False
            if self._step_thread in (0, threading.get_ident()):
                self.rate.leave_out(time.perf_counter() - begun)

    def _on_alert(self, alert: dict[str, Any]) -> None:
        self.alerts.append(alert)
        if alert["type"] == "critical_memory" and self._is_started and self.collector is not None:
            self.collector.emergency()


def _percent(share: float) -> float:
    # 1 is one percent to whoever takes percentages.
    return 100.0 * share


def _buffer_manager(config: MemoryOptimizationConfig) -> BufferManager | None:
    try:
        from ...buffers import BufferManager
    except ImportError:
        return None  # numpy is not installed
    return BufferManager(config.buffer_bytes, enable_buffer_compression=config.enable_buffer_compression)
