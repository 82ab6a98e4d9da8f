"""The report of the memory optimization system, as a dictionary and as Markdown. MB are 2**20 bytes, percentages are shares of 1."""

from __future__ import annotations

import dataclasses
import datetime
import os
from typing import TYPE_CHECKING, Any

from ... import _native
from ..host import process_heap
from ..live_facts import recommendations
from ..objects.leaked_objects import ObjectReport, nothing_counted
from ..report_files import bullet_points, is_applied, table
from .facts import facts_of_system

if TYPE_CHECKING:
    from .optimization_system import MemoryOptimizationSystem

_MIB = 1 << 20


def report_of(system: MemoryOptimizationSystem) -> dict[str, Any]:
    """Everything that is known now."""
    status = system.status()
    # Once: looking for what accumulates takes a walk over all objects.
    grown = None if system.leaks is None else system.leaks.report()
    usage = _usage(system, status)
    trends = {device: one["statistics"]["trend"] for device, one in status["devices"].items()}
    latest = system.model_optimizations[-1].as_dict() if system.model_optimizations else None
    return {
        "timestamp": datetime.datetime.now().isoformat(timespec="seconds"),
        "monitored_seconds": round(system.seconds, 3),
        "current_memory_usage": usage,
        "memory_trend": trends.get("host"),
        "trends": trends,
        "alerts": _alerts(system, status["leaks"]),
        "alert_history": list(system.alerts),
        "oom_risk": _risks(status["oom"], usage["limit_source"]),
        "memory_leaks": status["leaks"],
        "object_leaks": _object_leaks(grown, status),
        "top_allocations": system.lines.top(),
        "buffers": None if system.buffers is None else _buffers(system.buffers.stats()),
        "gc": _collector(system),
        "model": None if latest is None else latest["model"],
        "training": _training(system, latest),
        "optimizations": _optimizations(system),
        "recommendations": recommendations(facts_of_system(system, grown if system.steps else None)),
        "config": system.config.to_dict(),
    }


def _alerts(system: MemoryOptimizationSystem, leaks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that stand, and each leak that this report finds: a callback is told of it only once several looks have found it."""
    standing = system.monitor.active_alerts()
    told = {str(alert["device"]) for alert in standing if alert["type"] == "memory_leak"}
    moment = datetime.datetime.now().isoformat(timespec="seconds")
    for leak in leaks:
        if leak["is_leak"] and leak["device"] not in told:
            figures = {name: leak[name] for name in ("kind", "growth_mb", "mb_per_minute")}
            rate = "" if leak["mb_per_minute"] is None else f"; leaks {leak['mb_per_minute']:.1f} MiB/min, for {leak['lasted_secs']:.0f} s so far"
            message = f"{leak['device']}: {leak['growth_mb']:+.1f} MiB beyond its baseline{rate}"
            device = int(leak["device"]) if leak["device"].isdigit() else leak["device"]
            standing.append({"type": "memory_leak", "device": device, "timestamp": moment, "message": message, **figures})
    return standing


def _risks(risks: list[dict[str, Any]], limit_source: str) -> list[dict[str, Any]]:
    """The budget of the program has one name in a report."""
    return [risk | {"limit": limit_source} if risk["limit"] == _native.OWN_BUDGET else risk for risk in risks]


def _usage(system: MemoryOptimizationSystem, status: dict[str, Any]) -> dict[str, Any]:
    host = status["devices"]["host"]["current_usage"]
    held, limit = host["allocated"], system.limit_bytes
    in_force = _native.memory_limit()
    gpus = [
        {
            "device": device,
            "name": one["current_usage"]["limit"],
            "used_mb": _mb(one["current_usage"]["allocated"]),
            "total_mb": _mb(one["current_usage"]["total"]),
            "memory_percent": one["current_usage"]["utilization_percent"] / 100,
            "torch_allocated_mb": _mb(one["current_usage"].get("torch_allocated")),
            "torch_reserved_mb": _mb(one["current_usage"].get("torch_reserved")),
        }
        for device, one in status["devices"].items()
        if device != "host"
    ]
    return {
        "memory_percent": held / limit if limit else 0.0,
        "memory_mb": _mb(held),
        "process_mb": _mb(process_heap.rss_bytes()),
        "peak_mb": _mb(max(_native.peak_rss(), status["devices"]["host"]["statistics"]["peak_allocated"])),
        "limit_mb": _mb(limit),
        "limit_source": "max_memory_usage_gb" if in_force is None or limit < in_force[0] else in_force[1],
        "system": _system_memory(),
        "gpus": gpus,
    }


def _system_memory() -> dict[str, Any] | None:
    """The whole machine, by the kernel's account of what is available."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        available = _native.MemoryMonitor().read()["available_bytes"]
    except (OSError, ValueError):
        return None
    if available is None:
        return None
    return {"total_mb": _mb(total), "available_mb": _mb(available), "memory_percent": 1 - available / total}


def _object_leaks(grown: ObjectReport | None, status: dict[str, Any]) -> dict[str, Any]:
    """The same keys also where nothing is counted."""
    text = "objects are not counted" if grown is None else str(grown)
    found: dict[str, Any] = {"growth_by_type": status["python_objects"], "counted": status["python_objects_counted"]}
    return found | dataclasses.asdict(nothing_counted() if grown is None else grown) | {"text": text}


def _buffers(statistics: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {name: statistics[name] for name in ("hit_rate", "compression_ratio", "entries", "evictions", "policy", "max_bytes") if name in statistics}
    chosen["memory_mb"] = _mb(statistics.get("memory_bytes"))
    chosen["replay_buffers"] = {
        name: {
            "hit_rate": one["hit_rate"],
            "compression_ratio": one["compression_ratio"],
            "memory_mb": _mb(one["memory_bytes"]),
            "transitions": one["transitions"],
        }
        for name, one in statistics["buffers"].items()
    }
    return chosen


def _collector(system: MemoryOptimizationSystem) -> dict[str, Any] | None:
    if system.collector is None:
        return None
    statistics = system.collector.stats()
    seconds = system.collector.facts()["gc"]["wall_seconds"]
    statistics["collections_per_minute"] = 60 * statistics["pause_count"] / seconds if seconds else None
    return statistics


def _training(system: MemoryOptimizationSystem, latest: dict[str, Any] | None) -> dict[str, Any]:
    rate = system.rate
    return {
        "steps": system.steps,
        "steps_per_second": rate.steps_per_second,
        "seconds_per_step": rate.seconds_per_step,
        "samples_per_second": rate.samples_per_second,
        "samples_per_step": system.samples / system.steps if system.samples else None,
        "batch_size": None if latest is None else latest.get("batch_size"),
    }


def _optimizations(system: MemoryOptimizationSystem) -> list[dict[str, Any]]:
    """What was tried, with what was measured."""
    rows: list[dict[str, Any]] = []
    for cleanup in system.cleanups:
        rows.append({"name": "cleanup", "applied": True, "saved_mb": cleanup["memory_saved_mb"], "measured": "resident memory of the process"})
    for done in system.model_optimizations:
        rows += done.as_dict()["optimizations"]
    return rows


def as_markdown(report: dict[str, Any]) -> str:
    """The report for people."""
    usage = report["current_memory_usage"]
    lines = [
        "# Memory optimization report",
        "",
        f"{report['timestamp']}, after {report['monitored_seconds']:.1f} s of monitoring",
        "",
        "## Memory now",
        f"{usage['memory_mb']:.1f} MiB of {usage['limit_mb']:.1f} MiB ({usage['memory_percent']:.1%}; limit: {usage['limit_source']}), "
        f"peak {usage['peak_mb']:.1f} MiB, trend: {report['memory_trend'] or 'too few samples'}",
        "",
    ]
    lines += [f"- GPU {gpu['device']} ({gpu['name']}): {gpu['used_mb']:.1f} of {gpu['total_mb']:.1f} MiB" for gpu in usage["gpus"]]
    lines += ["## Alerts", *([f"- {alert['type']}: {alert['message']}" for alert in report["alerts"]] or ["None."]), ""]
    rows = [[one["name"], is_applied(one), one["saved_mb"], one["measured"], one.get("reason", "")] for one in report["optimizations"]]
    lines += ["## Optimizations", table(["what", "applied", "saved MiB (measured)", "by", "why"], rows) if rows else "None was tried.", ""]
    lines += ["## Recommendations", "Savings here are expected, not measured.", "", *bullet_points(report["recommendations"]), ""]
    collector, buffers = report["gc"], report["buffers"]
    if collector is not None:
        lines += [
            "## Garbage collection",
            f"{collector['pause_count']} collections, longest pause {1e3 * collector['pause_max_seconds']:.2f} ms, "
            f"{1e3 * collector['pause_total_seconds']:.2f} ms in all",
            "",
        ]
    if buffers is not None:
        rows = [["cache", buffers["hit_rate"], buffers["compression_ratio"], buffers["memory_mb"]]]
        rows += [[name, one["hit_rate"], one["compression_ratio"], one["memory_mb"]] for name, one in buffers["replay_buffers"].items()]
        lines += ["## Buffers", table(["buffer", "hit rate", "compression ratio", "MiB"], rows), ""]
    training = report["training"]
    if training["steps"] or training["batch_size"] is not None:
        lines += ["## Training"]
    if training["steps"]:
        rates = [
            "" if training["seconds_per_step"] is None else f", {1e3 * training['seconds_per_step']:.1f} ms each",
            "" if training["samples_per_step"] is None else f", {training['samples_per_step']:.1f} samples each",
            "" if training["samples_per_second"] is None else f", {training['samples_per_second']:.1f} samples/s",
        ]
        lines += [f"{training['steps']} steps{''.join(rates)}", ""]
    if training["batch_size"] is not None:
        lines += [_batch_in_words(training["batch_size"]), ""]
    if report["model"] is not None:
        lines += ["## Model", f"{report['model']['parameter_count']} parameters, {report['model']['footprint_mb']:.1f} MiB", ""]
    if report["object_leaks"]["growing"]:
        lines += ["## Objects that accumulate", "```", report["object_leaks"]["text"], "```", ""]
    if report["top_allocations"]:
        rows = [[one["location"], one["size_mb"], one["count"]] for one in report["top_allocations"]]
        lines += ["## Lines that hold the most memory of Python objects", table(["line", "MiB", "objects"], rows), ""]
    return "\n".join(lines)


def _batch_in_words(batch: dict[str, Any]) -> str:
    """The largest batch, and why it is not known or not larger."""
    reason = f" ({batch['reason']})" if "reason" in batch else ""
    if batch["largest"] is None:
        return f"Largest batch: not known{reason}"
    return f"Largest batch: {batch['largest']:,} samples, {'verified' if batch['is_verified'] else 'predicted'}{reason}"


def _mb(count: float | None) -> float | None:
    return None if count is None else round(count / _MIB, 3)
