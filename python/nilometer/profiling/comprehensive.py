"""Memory, time and throughput of every iteration in one profiler."""

from __future__ import annotations

import datetime
import os
import time
from typing import Any

from .. import _native
from .._trouble import refuse_pickling, report, require_type
from ..run import Run, run_to_log_to
from .gpu_memory import GPUMemoryProfiler
from .throughput import ThroughputTracker
from .timer import TrainingTimer

_GB = 1 << 30


class ComprehensiveProfiler:
    """Wraps the iteration: time it takes, GPU memory after it (host memory without a GPU), samples and tokens a second.

    Rates are of the time in iterations; what lies between them (loading, evaluation, checkpoints) is `outside_sec`.
    The parts are `timer`, `memory` and `throughput`; phases timed within an iteration nest below it.
    What is logged without a step has that of the last iteration until `stop()`, `export_to_json()` or the end of `with profiler:`.

    >>> import os, tempfile
    >>> profiler = ComprehensiveProfiler(device=0)
    >>> for _ in range(3):
    ...     profiler.start_iteration()
    ...     with profiler.timer.phase("forward"):
    ...         pass
    ...     profiler.end_iteration(num_samples=4, num_tokens=64)
    >>> results = profiler.export_to_json(os.path.join(tempfile.mkdtemp(), "profiling_results.json"))
    >>> results["timing"]["iteration"]["count"], sorted(results["throughput"])[:2]
    (3, ['batches_per_sec', 'elapsed_sec'])
    """

    __reduce__ = refuse_pickling

    def __init__(self, device: Any = 0, window_size: int = 100, *, run: Run | None = None) -> None:
        if run is not None:
            require_type(run, _native.Run, "run")
        self._run = run
        self.memory = GPUMemoryProfiler(device, run=run)
        self.timer = TrainingTimer(device, run=run)
        self.throughput = ThroughputTracker(window_size, run=run)
        self.iterations = 0
        self._is_open = False
        self._host_total = 0.0
        self._host_peak = 0
        self._began: float | None = None
        self._ended = 0.0
        # The run that was told its step, and the step.
        self._told: tuple[Run, int] | None = None

    def start_iteration(self, step: int | None = None) -> None:
        """An iteration begins; its step is the count of iterations unless given."""
        if self._is_open:
            report("start_iteration: the iteration before was not ended; it is not timed")
            self.timer.stop("iteration")
        self._is_open = True
        run = self._run if self._run is not None else run_to_log_to()
        run.set_step(self.iterations if step is None else step)
        self._told = None if run.step is None else (run, run.step)
        if self._began is None:
            self._began = time.perf_counter()
        self.throughput.resume()
        self.timer.start("iteration")

    def end_iteration(self, num_samples: float = 1, num_tokens: float = 0) -> None:
        """The iteration is over."""
        if not self._is_open:
            return report("end_iteration: no iteration was started")
        self._is_open = False
        self.timer.stop("iteration")
        self.throughput.update(num_samples, num_tokens)
        self.throughput.pause()
        self._ended = time.perf_counter()
        self.iterations += 1
        if self.memory.available:
            self.memory.measure("iteration")
        elif (reading := self.memory.host_reading()) is not None:
            self._host_total += reading["memory_bytes"]
            self._host_peak = max(self._host_peak, reading["peak_bytes"])

    def stop(self) -> None:
        """Training is over: what is logged without a step from here on counts by itself again. The next iteration goes on."""
        if self._told is not None and not self._told[0].finished and self._told[0].step == self._told[1]:
            self._told[0].set_step(None)
        self._told = None

    def __enter__(self) -> ComprehensiveProfiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def set_baseline(self) -> None:
        """Takes the present GPU memory (host memory without a GPU) as the baseline for leaks."""
        self.memory.set_baseline()

    def detect_leak(self, threshold_gb: float = 0.5) -> bool:
        """Whether that memory grew beyond the baseline."""
        return self.memory.detect_leak(threshold_gb)

    def get_summary(self) -> dict[str, Any]:
        """What `export_to_json` writes."""
        memory = self.memory.get_summary()
        memory["kind"] = "torch"
        if not self.memory.available:
            mean = self._host_total / self.iterations / _GB if self.iterations else 0.0
            memory |= {"peak_allocated_gb": self._host_peak / _GB, "mean_allocated_gb": mean, "kind": "host"}
        throughput = self.throughput.get_overall_throughput()
        whole = 0.0 if self._began is None else self._ended - self._began
        throughput["outside_sec"] = max(whole - throughput["elapsed_sec"], 0.0)
        return {
            "timestamp": datetime.datetime.now().isoformat(timespec="seconds"),
            "device": self.memory.device,
            "iterations": self.iterations,
            "memory": memory,
            "timing": self.timer.get_summary(),
            "bottleneck": self.timer.get_bottleneck(),
            "throughput": throughput,
        }

    def export_to_json(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Writes the summary as JSON, whole or not at all, and gives it. Training is over by then, or an epoch of it: see `stop`."""
        from .._files import write_json

        self.stop()
        summary = self.get_summary()
        write_json(path, summary)
        return summary
