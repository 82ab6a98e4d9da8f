"""Where time and GPU memory go in the training step."""

from .comprehensive import ComprehensiveProfiler
from .gpu_memory import GPUMemoryProfiler
from .throughput import ThroughputTracker
from .timer import TrainingTimer
from .timing import Repeated, repeat

__all__ = [
    "ComprehensiveProfiler",
    "GPUMemoryProfiler",
    "Repeated",
    "ThroughputTracker",
    "TrainingTimer",
    "repeat",
]
