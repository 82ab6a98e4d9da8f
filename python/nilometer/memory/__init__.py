"""Watching memory from inside the program: profiles, warnings before it runs out, leaks."""

from .._native import peak_rss
from .debugger import MemoryDebugger
from .leak import LeakDetector, LeakReport
from .oom import OOMDetector, OOMPrediction, RiskLevel
from .profiler import MemoryProfiler
from .readings import DeviceReading

__all__ = [
    "DeviceReading",
    "LeakDetector",
    "LeakReport",
    "MemoryDebugger",
    "MemoryProfiler",
    "OOMDetector",
    "OOMPrediction",
    "RiskLevel",
    "peak_rss",
]
