"""Watching memory from inside the program: profiles, warnings before it runs out, leaks."""

from .._native import peak_rss
from .debugger import MemoryDebugger
from .forecaster import Forecast, Forecaster, Growth, RiskLevel
from .fragmentation import analyze_fragmentation
from .leak import LeakDetector
from .leak_report import LeakReport
from .oom import OOMDetector
from .prediction import OOMPrediction
from .profiler import MemoryProfiler
from .readings import DeviceReading

__all__ = [
    "DeviceReading",
    "Forecast",
    "Forecaster",
    "Growth",
    "LeakDetector",
    "LeakReport",
    "MemoryDebugger",
    "MemoryProfiler",
    "OOMDetector",
    "OOMPrediction",
    "RiskLevel",
    "analyze_fragmentation",
    "peak_rss",
]
