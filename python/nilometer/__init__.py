"""Nilometer: a memory gauge and run recorder for machine-learning training jobs.

    import nilometer

    run = nilometer.init(name="my-run")        # optional: the first point makes a run by itself
    for step in range(1000):
        nilometer.log({"loss": 1 / (step + 1)}, step=step)

Under `nilo run -- python train.py` everything lands in that run, beside its memory.
The classes lie in `nilometer.memory`, `.profiling`, `.metrics`, `.buffers`, `.optimize`, `.fit` and `.bpe`, and most are importable from here; they are loaded when first used.
"""

from __future__ import annotations

import importlib

from ._native import __version__, peak_rss
from ._trouble import NilometerError, NilometerWarning
from .run import Run, active_run, current_run, finish, init, log, mark

# Type checkers take this for `typing.TYPE_CHECKING`; importing `typing` would take longer than all the rest.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .bpe import BPE as BPE
    from .bpe import BPEWithMonitoring as BPEWithMonitoring
    from .bpe import compare_vocab_sizes as compare_vocab_sizes
    from .bpe import train_bpe_with_monitoring as train_bpe_with_monitoring
    from .buffers import BufferManager as BufferManager
    from .buffers import ReplayBuffer as ReplayBuffer
    from .memory import LeakDetector as LeakDetector
    from .memory import MemoryDebugger as MemoryDebugger
    from .memory import MemoryProfiler as MemoryProfiler
    from .memory import OOMDetector as OOMDetector
    from .metrics import GRPOMetricsTracker as GRPOMetricsTracker
    from .metrics import MetricTracker as MetricTracker
    from .metrics import ScoreDistributionTracker as ScoreDistributionTracker
    from .metrics import TrainingLogger as TrainingLogger
    from .optimize import MemoryOptimizationConfig as MemoryOptimizationConfig
    from .optimize import MemoryOptimizationSystem as MemoryOptimizationSystem
    from .optimize import TrainingMemoryConfig as TrainingMemoryConfig
    from .optimize import TrainingMemoryOptimizer as TrainingMemoryOptimizer
    from .optimize import create_memory_efficient_config as create_memory_efficient_config
    from .optimize import create_memory_optimized_config as create_memory_optimized_config
    from .optimize import estimate_memory_requirements as estimate_memory_requirements
    from .optimize import memory_efficient_context as memory_efficient_context
    from .optimize import memory_efficient_decorator as memory_efficient_decorator
    from .optimize import memory_efficient_training as memory_efficient_training
    from .optimize import quick_memory_optimization as quick_memory_optimization
    from .profiling import ComprehensiveProfiler as ComprehensiveProfiler
    from .profiling import GPUMemoryProfiler as GPUMemoryProfiler
    from .profiling import ThroughputTracker as ThroughputTracker
    from .profiling import TrainingTimer as TrainingTimer
    from .profiling import repeat as repeat
    from .reading import RecordedRun as RecordedRun
    from .reading import read_run as read_run

# Where each name lives. Loading a module only when it is asked for keeps `import nilometer` short.
_HOMES = {
    "BPE": "bpe",
    "BPEWithMonitoring": "bpe",
    "compare_vocab_sizes": "bpe",
    "train_bpe_with_monitoring": "bpe",
    "BufferManager": "buffers",
    "ReplayBuffer": "buffers",
    "LeakDetector": "memory",
    "MemoryDebugger": "memory",
    "MemoryProfiler": "memory",
    "OOMDetector": "memory",
    "GRPOMetricsTracker": "metrics",
    "MetricTracker": "metrics",
    "ScoreDistributionTracker": "metrics",
    "TrainingLogger": "metrics",
    "MemoryOptimizationConfig": "optimize",
    "MemoryOptimizationSystem": "optimize",
    "TrainingMemoryConfig": "optimize",
    "TrainingMemoryOptimizer": "optimize",
    "create_memory_efficient_config": "optimize",
    "create_memory_optimized_config": "optimize",
    "estimate_memory_requirements": "optimize",
    "memory_efficient_context": "optimize",
    "memory_efficient_decorator": "optimize",
    "memory_efficient_training": "optimize",
    "quick_memory_optimization": "optimize",
    "ComprehensiveProfiler": "profiling",
    "GPUMemoryProfiler": "profiling",
    "ThroughputTracker": "profiling",
    "TrainingTimer": "profiling",
    "repeat": "profiling",
    "RecordedRun": "reading",
    "read_run": "reading",
}
# They are functions of PyTorch models: `import *` works without PyTorch too.
_NEED_TORCH = {"TrainingMemoryOptimizer", "estimate_memory_requirements"}
_MODULES = {"bpe", "buffers", "fit", "integrations", "memory", "metrics", "optimize", "profiling", "reading", "torch"}

__all__ = [
    "NilometerError",
    "NilometerWarning",
    "Run",
    "__version__",
    "active_run",
    "current_run",
    "finish",
    "init",
    "log",
    "mark",
    "peak_rss",
    *sorted(_HOMES.keys() - _NEED_TORCH),
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES} - {"TYPE_CHECKING", "annotations", "importlib"})
