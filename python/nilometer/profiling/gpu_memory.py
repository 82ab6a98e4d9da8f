"""GPU memory as torch counts it."""

from __future__ import annotations

from collections import deque
from typing import Any

from .. import _native
from .._allocator_figures import NOTHING, AllocatorFigures, read_allocator
from .._trouble import NilometerError, report, require_type
from ..memory.sampler import own_sampler
from ..run import Run, current_step, run_to_log_to
from ._cuda import device_index, torch_with_cuda

_GB = 1 << 30
_MOST_MEASUREMENTS = 10_000


class GPUMemoryProfiler:
    """Measures what torch has allocated and reserved on a GPU, without making the program wait for the GPU.

    `*_gb` are 2**30 bytes. Every measurement is stored in the run with its step.
    On a GPU a measurement has `fragmentation` too, the share of the reserved memory that lies in free pieces of segments in use (0.0 is none),
    with those pieces as `inactive_split_gb`, and `unallocated_gb`, all that is reserved and holds no tensor; the summary has its last, mean and highest value.
    Without a CUDA device `available` is False and every figure is 0.0, but for leaks, which are looked for in host memory
    (that of the program and its children).

    >>> profiler = GPUMemoryProfiler(device=0)
    >>> stats = profiler.measure("after_forward")
    >>> sorted(stats)[:2]
    ['allocated_gb', 'max_allocated_gb']
    >>> baseline = profiler.set_baseline()
    >>> profiler.detect_leak(threshold_gb=0.5)
    False
    """

    def __init__(self, device: Any = 0, *, run: Run | None = None) -> None:
        index = device_index(device)
        self.device = 0 if index is None else index
        if run is not None:
            require_type(run, _native.Run, "run")
        self._run = run
        self._torch = torch_with_cuda()
        if self._torch is not None and self.device >= self._torch.cuda.device_count():
            raise NilometerError(f"there is no CUDA device {self.device}: torch sees {self._torch.cuda.device_count()}")
        self.measurements: deque[tuple[str, dict[str, float]]] = deque(maxlen=_MOST_MEASUREMENTS)
        """The last measurements with their labels; the run has all."""
        self._count = 0
        self._sum_allocated = 0.0
        self._peak_allocated = 0.0
        self._peak_reserved = 0.0
        self._fragmentation = _Extremes()
        self.baseline_gb: float | None = None
        self._has_host = False
        if self._torch is None:
            try:
                own_sampler()
                self._has_host = True
            except NilometerError as error:
                report(str(error))

    @property
    def available(self) -> bool:
        """Whether there is a GPU to measure."""
        return self._torch is not None

    def measure(self, label: str = "") -> dict[str, float]:
        """One reading, kept under a label."""
        figures = self._read()
        stats = {
            "allocated_gb": figures.allocated / _GB,
            "reserved_gb": figures.reserved / _GB,
            "max_allocated_gb": figures.peak_allocated / _GB,
            "max_reserved_gb": figures.peak_reserved / _GB,
        }
        if self.available:
            stats |= self._free_parts(figures)
        self.measurements.append((label, stats))
        self._count += 1
        self._sum_allocated += stats["allocated_gb"]
        self._peak_allocated = max(self._peak_allocated, stats["max_allocated_gb"])
        self._peak_reserved = max(self._peak_reserved, stats["max_reserved_gb"])
        if self.available:
            free, total = self._torch.cuda.mem_get_info(self.device)
            run = self._run if self._run is not None else run_to_log_to()
            run.torch_memory(
                self.device,
                allocated_bytes=figures.allocated,
                reserved_bytes=figures.reserved,
                peak_allocated_bytes=figures.peak_allocated,
                peak_reserved_bytes=figures.peak_reserved,
                device_free_bytes=free,
                device_total_bytes=total,
                inactive_split_bytes=figures.inactive_split,
                alloc_retries=figures.alloc_retries,
                ooms=figures.ooms,
            )
        return stats

    def _free_parts(self, figures: AllocatorFigures) -> dict[str, float]:
        """What is reserved and holds no tensor."""
        parts = {"unallocated_gb": figures.unallocated / _GB}
        if figures.inactive_split is not None and figures.fragmentation is not None:
            parts["inactive_split_gb"] = figures.inactive_split / _GB
            parts["fragmentation"] = figures.fragmentation
            self._fragmentation.add(figures.fragmentation)
        return parts

    def set_baseline(self) -> float:
        """Takes what is allocated now as what should stay; gives it in GiB."""
        self.baseline_gb = self._held_gb("baseline")
        return self.baseline_gb

    def detect_leak(self, threshold_gb: float = 0.5) -> bool:
        """Whether more than `threshold_gb` is allocated beyond the baseline. The first call without a baseline sets it."""
        if self.baseline_gb is None:
            self.set_baseline()
        return self.growth_gb() > threshold_gb

    def growth_gb(self) -> float:
        """What is allocated beyond the baseline."""
        return self._held_gb("leak check") - (self.baseline_gb or 0.0)

    def host_reading(self) -> dict[str, Any] | None:
        """The host's memory, where there is no GPU; None otherwise."""
        return own_sampler().monitor.read(current_step()) if self._has_host else None

    def _held_gb(self, label: str) -> float:
        host = self.host_reading()
        return self.measure(label)["allocated_gb"] if host is None else host["memory_bytes"] / _GB

    def reset_peak(self) -> None:
        """Begins a new peak: `max_*` are counted from here."""
        if self.available:
            self._torch.cuda.reset_peak_memory_stats(self.device)

    def get_summary(self) -> dict[str, Any]:
        """Peak and mean of the measurements so far; `fragmentation` is None where no GPU was measured."""
        return {
            "peak_allocated_gb": self._peak_allocated,
            "peak_reserved_gb": self._peak_reserved,
            "mean_allocated_gb": self._sum_allocated / self._count if self._count else 0.0,
            "baseline_gb": self.baseline_gb,
            "measurements": self._count,
            "fragmentation": self._fragmentation.summary(),
        }

    def _read(self) -> AllocatorFigures:
        return NOTHING if self._torch is None else read_allocator(self._torch, self.device)


class _Extremes:
    """Last, mean and highest of a value over time, without keeping it."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0
        self._last = 0.0
        self._highest = 0.0

    def add(self, value: float) -> None:
        self._count += 1
        self._sum += value
        self._last = value
        self._highest = max(self._highest, value)

    def summary(self) -> dict[str, float] | None:
        if not self._count:
            return None
        return {"last": self._last, "mean": self._sum / self._count, "max": self._highest}
