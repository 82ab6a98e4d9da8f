"""What the memory optimization system knows of its program, by subject, as the rules of advice take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..live_facts import buffer_facts, host_facts, known_facts, torch_facts

if TYPE_CHECKING:
    from ..objects.leaked_objects import ObjectReport
    from .optimization_system import MemoryOptimizationSystem


def facts_of_system(system: MemoryOptimizationSystem, grown: ObjectReport | None) -> dict[str, Any]:
    """Everything that was measured so far, with what accumulates where that was looked for."""
    config = system.config
    host = host_facts(system.monitor.profiler.read(), system.limit_bytes) | system.monitor.leak_detector.leak_facts()
    facts: dict[str, Any] = {"host": host, "torch": torch_facts()}
    if system.collector is not None:
        for subject, values in system.collector.facts().items():
            facts[subject] = {**values, **facts.get(subject, {})}
        if system.rate.seconds_per_step is not None:
            # The report's own time of a step: a recommendation rests on no other.
            facts["gc"]["step_seconds"] = system.rate.seconds_per_step
    if grown is not None:
        facts["torch"] |= grown.facts()["torch"]
    if system.buffers is not None:
        facts["buffers"] = buffer_facts(system.buffers)
    if system.model_optimizations:
        from ..model.optimization import current_facts  # imports torch, as whoever optimized a model has

        latest = system.model_optimizations[-1]
        facts["model"] = current_facts(system.model_optimizations)
        if latest.batch is not None and latest.batch.get("largest"):
            largest, sample = latest.batch["largest"], latest.batch["sample"]
            measured = largest if latest.batch["is_verified"] else sample
            facts["batch"] = {"micro_batch": sample, "largest_micro_batch": largest, "measured_micro_batch": measured}
    facts["thresholds"] = {
        "host_budget_bytes": config.max_memory_bytes,
        "warning_ratio": config.memory_warning_threshold,
        "critical_ratio": config.memory_critical_threshold,
        "gpu_warning_ratio": config.gpu_warning_threshold,
        "gpu_critical_ratio": config.gpu_critical_threshold,
        "buffer_limit_bytes": config.buffer_bytes,
    }
    return known_facts(facts)
