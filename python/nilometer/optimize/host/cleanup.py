"""Freeing unused memory, each action measured by the kernel's figures before and after."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from ..in_run import tell_optimization
from . import process_heap

_MIB = 1 << 20

Action = tuple[str, Callable[[], Any]]


def quick_memory_optimization() -> dict[str, Any]:
    """Collects garbage, empties PyTorch's cache where it has one, and gives unused heap back to the system.

    What was saved is measured: the resident memory of this process and the memory that PyTorch holds on GPUs, before and after. It may be 0.

    >>> sorted(quick_memory_optimization())
    ['actions', 'gpu_memory_saved_mb', 'memory_after_mb', 'memory_before_mb', 'memory_saved_mb', 'objects_collected', 'optimizations_applied', 'seconds']
    """
    return clean_up([("garbage collection", gc.collect), ("GPU cache", empty_gpu_cache), ("heap trim", process_heap.trim)])


def clean_up(actions: list[Action]) -> dict[str, Any]:
    """Runs the actions one after the other and measures each."""
    begun = time.perf_counter()
    before, gpu_before = process_heap.rss_bytes(), _reserved_bytes()
    rows: list[dict[str, Any]] = []
    level, gpu_level = before, gpu_before
    collected = 0
    for name, run in actions:
        result = run()
        if name == "garbage collection":
            collected = int(result or 0)
        after, gpu_after = process_heap.rss_bytes(), _reserved_bytes()
        rows.append({"name": name, "saved_mb": _saved(level, after), "gpu_saved_mb": _saved(gpu_level, gpu_after)})
        level, gpu_level = after, gpu_after
    tell_optimization("cleanup", applied=True, before_bytes=before, after_bytes=level, measured="resident memory of the process")
    return {
        "memory_saved_mb": _saved(before, level),
        "gpu_memory_saved_mb": _saved(gpu_before, gpu_level),
        "memory_before_mb": round(before / _MIB, 3),
        "memory_after_mb": round(level / _MIB, 3),
        "objects_collected": collected,
        "optimizations_applied": [row["name"] for row in rows if row["saved_mb"] or row["gpu_saved_mb"]],
        "actions": rows,
        "seconds": time.perf_counter() - begun,
    }


def empty_gpu_cache() -> None:
    """PyTorch's cached blocks go back to the driver, where PyTorch uses a GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _reserved_bytes() -> int:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return 0
    return sum(torch.cuda.memory_reserved(device) for device in range(torch.cuda.device_count()))


def _saved(before: int, after: int) -> float:
    """Memory that came in the meantime is nobody's saving, and no debt of ours."""
    return round(max(0, before - after) / _MIB, 3)
