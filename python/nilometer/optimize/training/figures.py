"""What one optimized training did: losses, sizes, memory, time; told to the run as it happens and summed up at the end."""

from __future__ import annotations

import os
import time
import traceback
from typing import Any

import torch

from ... import _native
from ..._library_files import is_library_file
from ..batches.adaptive_batches import BatchStep
from ..batches.rank_agreement import world_size
from ..config import TrainingMemoryConfig
from ..host import process_heap
from ..in_run import newest_step, tell_metrics
from ..model.optimization import optimization_row
from ..model.steps import StepOutcome
from ..report_files import as_text, bullet_points, is_applied, table

_GIB = 1 << 30
_OUR_FILES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep


class TrainingFigures:
    """Figures of one training on this rank."""

    def __init__(self, config: TrainingMemoryConfig, device: torch.device) -> None:
        self.config = config
        self.device = device
        self.outcomes: list[StepOutcome] = []
        self.epoch_losses: list[float] = []
        self.failure: dict[str, str | None] | None = None
        self.steps = self.samples = self.ooms = self.recoveries = 0
        self.sizes: list[tuple[int, int]] = []
        """Steps at which the micro-batch changed, with its new size."""
        self._loss = self._weight = 0.0
        self._first_step = 0
        """Steps count on from what the run has: a second training is no second pass over the first."""
        self._rows: list[dict[str, Any]] = []
        self._started = time.perf_counter()
        self._begun = self._ended = 0.0
        self._peak_bytes = self._final_bytes = 0
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def begin(self, micro_batch: int) -> None:
        """The first step comes now; what was tried before is not training."""
        self._begun = time.perf_counter()
        newest = newest_step()
        self._first_step = 0 if newest is None else newest + 1
        self.sizes.append((0, micro_batch))

    def add_step(self, done: BatchStep, samples: int, ooms: int) -> None:
        """One optimizer step."""
        self.steps += 1
        self.samples += samples
        self._loss += done.loss * samples
        self._weight += samples
        self.recoveries += done.retries
        self.ooms = ooms
        if done.micro_batch != self.sizes[-1][1]:
            self.sizes.append((self.steps, done.micro_batch))
        tell_metrics({"train/loss": done.loss, "batch/size": float(done.micro_batch)}, step=self._first_step + self.steps - 1)

    def add_failure(self, sizes: list[int], ooms: int) -> None:
        """A step that no size fitted, with the sizes that were tried one after the other."""
        self.ooms = ooms
        self.sizes += [(self.steps + 1, size) for size in sizes if size != self.sizes[-1][1]]

    def take_epoch(self) -> tuple[float, float]:
        """Loss times samples and samples since the last call."""
        taken = (self._loss, self._weight)
        self._loss = self._weight = 0.0
        return taken

    def end(self) -> None:
        """Memory and time are taken here, before what was applied is undone."""
        self._ended = time.perf_counter()
        self._final_bytes, self._peak_bytes = self._memory()
        self._rows = [optimization_row(outcome) for outcome in self.outcomes]

    def facts(self, dataset: Any) -> dict[str, Any]:
        """For the rules of advice."""
        size = self.sizes[-1][1] if self.sizes else None
        effective = self.config.effective_batch_size or self.config.initial_batch_size
        return {
            "micro_batch": size,
            "accumulation": None if size is None else -(-effective // size),
            "max_micro_batch": self.config.max_batch_size,
            "dataset_samples": len(dataset) if hasattr(dataset, "__len__") else None,
            "recovered_ooms": self.recoveries or None,
        }

    def results(self, collector: Any) -> dict[str, Any]:
        """As a dictionary. GB are 2**30 bytes."""
        seconds = max((self._ended or time.perf_counter()) - self._begun, 1e-9) if self._begun else 0.0
        applied = [row["name"] for row in self._rows if row["applied"]]
        return {
            "final_memory_usage": self._final_bytes / _GIB,
            "peak_memory_usage": self._peak_bytes / _GIB,
            "memory_measured": "PyTorch's allocator" if self.device.type == "cuda" else "the process",
            "epoch_losses": list(self.epoch_losses),
            "final_loss": self.epoch_losses[-1] if self.epoch_losses else None,
            "steps": self.steps,
            "samples": self.samples,
            "effective_batch_size": self.config.effective_batch_size or self.config.initial_batch_size,
            "batch_sizes": sorted({size for _, size in self.sizes}),
            "batch_size_changes": [{"step": step, "micro_batch": size} for step, size in self.sizes],
            "oom_events": self.ooms,
            "oom_recoveries": self.recoveries,
            "seconds": seconds,
            "preparation_seconds": self._begun - self._started if self._begun else None,
            "samples_per_second": self.samples / seconds if seconds else None,
            "optimizations_applied": applied,
            "optimizations": list(self._rows),
            "device": str(self.device),
            "ranks": world_size(),
            "gc": None if collector is None else collector.stats(),
            "failure": self.failure,
        }

    def _memory(self) -> tuple[int, int]:
        if self.device.type == "cuda":
            return torch.cuda.memory_allocated(self.device), torch.cuda.max_memory_allocated(self.device)
        return process_heap.rss_bytes(), _native.peak_rss()


def failure_of(error: BaseException) -> dict[str, str | None]:
    """What ended a training: `type`, `message`, and `where`, the innermost line that is neither ours nor an installed library's, or the innermost there is."""
    frames = traceback.extract_tb(error.__traceback__)
    of_program = [frame for frame in frames if not frame.filename.startswith((_OUR_FILES, "<")) and not is_library_file(frame.filename)]
    innermost = (of_program or frames)[-1:]
    where = f"{innermost[0].filename}:{innermost[0].lineno} in {innermost[0].name}" if innermost else None
    return {"type": type(error).__name__, "message": str(error), "where": where}


def as_markdown(report: dict[str, Any]) -> str:
    """The report of `TrainingMemoryOptimizer` for people."""
    lines = ["# Training memory report", ""]
    for number, one in enumerate(report["trainings"], 1):
        failure = one["failure"]
        lines.append(f"## Training {number}")
        if failure:
            lines += [f"Failed: {as_text(failure['type'])}: {as_text(failure['message'])} (at {as_text(str(failure['where']))})", ""]
        lines += [
            _progress(one),
            "",
            f"Memory: {one['final_memory_usage']:.3f} GiB at the end, {one['peak_memory_usage']:.3f} GiB at the peak ({one['memory_measured']})",
            "",
        ]
        rows = [[row["name"], is_applied(row), row["saved_mb"], row["reason"]] for row in one["optimizations"]]
        lines += [table(["what", "applied", "saved MiB (measured)", "why"], rows), ""] if rows else []
        losses = [[epoch, f"{loss:.6g}"] for epoch, loss in enumerate(one["epoch_losses"], 1)]
        lines += [table(["epoch", "loss"], losses), ""] if losses else []
    lines += ["## Recommendations", "Savings here are expected, not measured.", "", *bullet_points(report["recommendations"]), ""]
    return "\n".join(lines)


def _progress(one: dict[str, Any]) -> str:
    """How far a training came; what a failed one did not come to is left out."""
    if not one["steps"]:
        tried = ", ".join(str(change["micro_batch"]) for change in one["batch_size_changes"])
        ran_out = f"\n\n{one['oom_events']} out-of-memory errors, with micro-batches of {tried}" if one["oom_events"] else ""
        return f"No step was finished on {one['device']}, for batches of {one['effective_batch_size']}{ran_out}"
    rate = "" if one["samples_per_second"] is None else f" ({one['samples_per_second']:.1f} samples/s)"
    sizes = f"micro-batches of {', '.join(map(str, one['batch_sizes']))} for batches of {one['effective_batch_size']}"
    return f"{one['steps']} steps, {one['samples']} samples in {one['seconds']:.2f} s{rate} on {one['device']}; {sizes}; {one['oom_events']} out-of-memory errors, {one['oom_recoveries']} recovered"
