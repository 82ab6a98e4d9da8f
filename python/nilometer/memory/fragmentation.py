"""How much of what PyTorch holds of a GPU is free but in pieces, and what to do about it."""

from __future__ import annotations

import inspect
import json
import os
import sys
from typing import Any

from .. import _native
from .._allocator_figures import AllocatorFigures, read_allocator
from .readings import device_names

# Segments of this size are worth keeping whole; PyTorch's notes on CUDA memory management suggest splitting limits from there on.
_LARGE_SEGMENT_BYTES = 128 << 20
# A large segment is pinned by little where its live blocks take less than this part of it.
_LITTLE_SHARE = 0.1

_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def analyze_fragmentation(device: int | str = 0) -> dict[str, Any]:
    """How fragmented the memory is that PyTorch holds of a GPU, as a plain dictionary of bytes and shares.

    `device` is its index, or a name such as `"cuda:0"`.

    `fragmentation_index` is the share of `reserved_bytes` in free pieces of segments that a live tensor keeps (`inactive_split_bytes`): 0.0 is none.
    `cached_bytes` is all that is reserved and holds no tensor, those pieces and `releasable_bytes`, the wholly free segments.
    `largest_free_block_bytes` is the largest allocation that is served without asking the GPU for more.
    A figure that this PyTorch does not tell is None. `recommendations` are sentences, each for something that was found.

    Without CUDA, and before the program has used it, `available` is False, `reason` says why, and there are no figures. PyTorch is not imported for it.

    >>> analyze_fragmentation()["available"]
    False
    """
    [name] = device_names([device])
    if not name.isdigit():
        return _unavailable(name, "only GPUs have such an allocator")
    index = int(name)
    torch = sys.modules.get("torch")
    if torch is None:
        return _unavailable(index, "PyTorch is not imported")
    try:
        if not torch.cuda.is_initialized():
            reason = "the program has not used CUDA yet" if torch.cuda.is_available() else "there is no CUDA device"
            return _unavailable(index, reason)
        if index >= torch.cuda.device_count():
            return _unavailable(index, f"there is no CUDA device {index}: PyTorch sees {torch.cuda.device_count()}")
        figures = read_allocator(torch, index)
        segments = _segments(torch, index)
    except Exception as error:  # noqa: BLE001 - torch half loaded, another allocator, or a device that stopped answering
        return _unavailable(index, f"PyTorch does not report it: {error}")
    return _analysis(index, figures, segments)


def _unavailable(device: int | str, reason: str) -> dict[str, Any]:
    return {"available": False, "device": device, "reason": reason, "recommendations": []}


def _analysis(device: int, figures: AllocatorFigures, segments: list[dict[str, Any]] | None) -> dict[str, Any]:
    analysis: dict[str, Any] = {
        "available": True,
        "device": device,
        "reason": None,
        "allocated_bytes": figures.allocated,
        "reserved_bytes": figures.reserved,
        "cached_bytes": figures.unallocated,
        "inactive_split_bytes": figures.inactive_split,
        "fragmentation_index": figures.fragmentation,
        "cached_share": figures.unallocated / figures.reserved if figures.reserved else 0.0,
        "alloc_retries": figures.alloc_retries,
        "ooms": figures.ooms,
        **_segment_figures(segments),
    }
    analysis["recommendations"] = _native.fragmentation_advice(json.dumps(analysis | {"expandable_segments": _are_expandable(analysis)}))
    return analysis


def _segments(torch: Any, device: int) -> list[dict[str, Any]] | None:
    """The segments of one device with their blocks; None where this PyTorch does not tell. The history, if any, is left out where that can be asked for."""
    take = getattr(torch.cuda, "memory_snapshot", None)
    if take is None:
        return None
    has_choice = "include_traces" in inspect.signature(take).parameters
    found = take(include_traces=False) if has_choice else take()
    return [segment for segment in found if segment.get("device", 0) == device]


def _segment_figures(segments: list[dict[str, Any]] | None) -> dict[str, Any]:
    if segments is None:
        return dict.fromkeys(
            (
                "largest_free_block_bytes",
                "releasable_bytes",
                "segments",
                "partly_used_segments",
                "free_segments",
                "barely_used_large_segments",
                "barely_used_large_segment_free_bytes",
                "expandable_segments",
            )
        )
    largest = releasable = partly_used = free = barely_used = barely_used_free = 0
    for segment in segments:
        total = segment["total_size"]
        gaps = [block["size"] for block in segment["blocks"] if block["state"] == "inactive"]
        held = total - sum(gaps)
        largest = max([largest, *gaps])
        if held == 0:
            free += 1
            releasable += total
        elif gaps:
            partly_used += 1
            if total >= _LARGE_SEGMENT_BYTES and held < _LITTLE_SHARE * total:
                barely_used += 1
                barely_used_free += total - held
    return {
        "largest_free_block_bytes": largest,
        "releasable_bytes": releasable,
        "segments": len(segments),
        "partly_used_segments": partly_used,
        "free_segments": free,
        "barely_used_large_segments": barely_used,
        "barely_used_large_segment_free_bytes": barely_used_free,
        "expandable_segments": any(segment.get("is_expandable", False) for segment in segments),
    }


def _are_expandable(analysis: dict[str, Any]) -> bool:
    if analysis["expandable_segments"] is not None:
        return bool(analysis["expandable_segments"])
    return any("expandable_segments:true" in os.environ.get(name, "").lower() for name in _SETTINGS)
