"""What is known of a running program, in the shape that the rules of advice take."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from .. import _native
from .in_run import _known


def recommendations(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the rules recommend on these facts, best first; nothing where nothing is wrong. `saving` is None where none is known.

    >>> recommendations({})
    []
    """
    found: list[dict[str, Any]] = json.loads(_native.recommendations(json.dumps(facts)))
    return [{"rule": one["rule"], "text": one["text"], "change": one["change"], "evidence": one["evidence"], "saving": None} | one for one in found]


def known_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same without what was not measured."""
    return {
        subject: [_known(one) for one in values] if isinstance(values, list) else _known(values)
        for subject, values in facts.items()
        if values
    }


def host_facts(readings: Any, limit_bytes: int | None) -> dict[str, Any]:
    """Memory of the process tree against its limit, from a look of the monitor."""
    facts: dict[str, Any] = {"peak_bytes": _native.peak_rss(), "limit_bytes": limit_bytes}
    for reading in readings:
        if reading.device == "host":
            facts["peak_bytes"] = max(facts["peak_bytes"], reading.allocated)
            facts["limit_bytes"] = min(reading.total, limit_bytes) if limit_bytes and reading.total else reading.total or limit_bytes
    return facts


def torch_facts() -> dict[str, Any]:
    """PyTorch's allocator on the fullest GPU; nothing where none is used."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available() or not torch.cuda.is_initialized():
        return {}
    device = max(range(torch.cuda.device_count()), key=torch.cuda.memory_reserved)
    statistics = torch.cuda.memory_stats(device)
    settings = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    return {
        "device_bytes": torch.cuda.get_device_properties(device).total_memory,
        "has_bfloat16": torch.cuda.is_bf16_supported(),
        "peak_allocated_bytes": torch.cuda.max_memory_allocated(device),
        "peak_reserved_bytes": torch.cuda.max_memory_reserved(device),
        "expandable_segments": "expandable_segments:true" in settings.lower(),
        "allocation_retries": statistics.get("num_alloc_retries"),
    }


def buffer_facts(manager: Any) -> list[dict[str, Any]]:
    """Each buffer of a manager, with what it will take when it is full."""
    names = manager.stats()["buffers"]
    return [{"name": name, "library": "nilometer", "projected_bytes": manager._buffers[name].projected_bytes} for name in names]
