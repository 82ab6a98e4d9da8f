#!/usr/bin/env python3
"""The page of what the optimizer saves, from the figures that `bench/training_memory.py --json` wrote.

    python3 bench/training_page.py training.json --markdown docs/benchmarks/optimize.md --date 2026-11-17
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

GOAL_MEMORY, GOAL_TIME = -50, 15
PAGES = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
LATENCY_GOAL = -16
# All runs of a day, where there was more than the one whose figures are given.
LATENCY_RUNS = {"2026-11-17": (-6, -33)}


def row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def percent(value: float) -> str:
    return f"{value:+.0f} %".replace("-", "−")


def measured_on(page: str) -> str:
    """The date that a page of another benchmark says of itself."""
    line = next(line for line in (PAGES / page).read_text().splitlines() if line.startswith("Measured on "))
    return line.removeprefix("Measured on ").split(",")[0]


def saving(name: str, figures: dict) -> str:
    return row(
        name,
        f"{figures['before_mib']:,.0f}",
        f"{figures['after_mib']:,.0f}",
        percent(figures["memory_percent"]),
        f"{figures['before_ms']:.1f}",
        f"{figures['after_ms']:.1f}",
        percent(figures["time_percent"]),
    )


def kept(figures: dict) -> str:
    return ", ".join(figures["kept"]) or "nothing"


def page(found: dict, date: str, note: str = "") -> str:
    shape, same = found["shape"], found["same_memory"]
    throughput, oom, latency = found["throughput"], found["out_of_memory"], found["latency"]
    best = min(
        (one for one in (found["pipeline_safe"], found["pipeline"], found["pipeline_half"]) if one["time_percent"] <= GOAL_TIME),
        key=lambda one: one["memory_percent"],
        default=None,
    )
    reached = best is not None and best["memory_percent"] <= GOAL_MEMORY
    verdict = f"{percent(best['memory_percent'])} at {percent(best['time_percent'])}: {'reached' if reached else 'missed'}" if best else "missed"
    latencies = LATENCY_RUNS.get(date, (latency["percent"],))
    adaptive, plain = oom["adaptive"], oom["plain"]
    lines = [
        "# Training memory: what the optimizer saves, and what it costs",
        "",
        f"Measured on {date} on one {found['device']} with PyTorch {found['torch']}, by `python3 bench/training_memory.py --json target/training.json`,",
        "then this page by `python3 bench/training_page.py`: `make bench-training`.",
        f"The model is GPT-2 of Hugging Face ({shape['layers']} layers, width {shape['width']}, vocabulary {shape['vocabulary']:,}), "
        f"{found['batch']} sequences of {shape['length']:,} tokens, 32 bits, dropout 0.1, AdamW, attention \"eager\".",
        *([note] if note else []),
        "Peaks are those of the CUDA allocator in a whole step, times are medians of 20 steps after two.",
        "",
        "## A training step",
        "",
        row("", "before, MiB", "after, MiB", "memory", "before, ms", "after, ms", "time"),
        row("---", *["--:"] * 6),
        saving(f"safe steps: {kept(found['pipeline_safe'])}", found["pipeline_safe"]),
        saving(f"`tolerance=True`: {kept(found['pipeline'])}", found["pipeline"]),
        saving(f"`tolerance=True`, half of the memory as the budget: {kept(found['pipeline_half'])}", found["pipeline_half"]),
        saving("`gradient_checkpointing_enable()` of Hugging Face", found["hugging_face"]),
        saving("our checkpoint plan for the memory that Hugging Face's reach", same["plan"]),
        "",
        f"Goal: {percent(GOAL_MEMORY)} of memory at {percent(GOAL_TIME)} of time at most, measured {verdict}.",
        f"At the memory of Hugging Face's checkpoints there is one plan, every block, and ours takes the same time "
        f"({percent(same['plan_time_against_theirs_percent'])}); a plan pays where more memory is allowed.",
        "Safe steps give the same results: the loss to 1e-5 with another attention kernel (compared without dropout, which it draws otherwise), every bit with checkpoints.",
        "",
        "## The document's ten figures",
        "",
        "Its models are not published; what stands in for them is named. A figure that was not reached is called missed.",
        "",
        row("claimed", "measured", "", "with what"),
        row("---", "---", "---", "---"),
        claim("tactical embedder −45 %", found["tactical_embedder"], -45, "four transformer layers of width 256 over 60 × 7 features, 1,024 samples"),
        claim("structure embedder −35 %", found["structure_embedder"], -35, "three layers of width 128 over 48 × 8 features, 1,024 samples"),
        row("replay buffer −40 %", "−99 % on images of Atari games against Stable-Baselines3, −42 % on vectors", "reached", f"not measured here: from [replay buffers](buffers.md), measured on {measured_on('buffers.md')}"),
        claim("training pipeline −50 %", found["pipeline"], -50, "the language model above"),
        row("overall system −49 %", overall(found), "reached" if overall_percent(found) <= -49 else "missed", "the three models above, peaks added up"),
        row(
            "training throughput +20 %",
            f"{percent(throughput['throughput_percent'])}: {throughput['plain']['samples_per_second']:.0f} → {throughput['optimized']['samples_per_second']:.0f} samples a second",
            judged(throughput["throughput_percent"] >= 20),
            f"the largest batch in {throughput['budget_mib'] / 1024:.0f} GiB, {throughput['plain']['batch']} and {throughput['optimized']['batch']} samples, each found by `find_batch_size` in {throughput['optimized']['probes']} probes at most",
        ),
        row(
            "inference latency −16 %",
            f"{percent(latency['percent'])}: {latency['before_ms']:.1f} → {latency['after_ms']:.1f} ms",
            f"reached in {sum(one <= LATENCY_GOAL for one in latencies)} of {len(latencies)} runs",
            f"settings of PyTorch applied by hand, not by the optimizer: SDPA, bfloat16 and `inference_mode` against `no_grad`, one sequence. It waits for kernels to be launched, so that runs differ: {len(latencies)} on {date} gave {' and '.join(map(percent, latencies))}",
        ),
        row(
            "memory efficiency +25 %",
            f"{percent(throughput['efficiency_percent'])}: {throughput['plain']['samples_per_gib']:.2f} → {throughput['optimized']['samples_per_gib']:.2f} samples in a step for each GiB",
            judged(throughput["efficiency_percent"] >= 25),
            "the same two trainings",
        ),
        row(
            "OOM events −100 %",
            f"plain PyTorch ended after {plain['steps']} of {oom['steps']} steps; `AdaptiveBatches` made all {adaptive['steps']} and recovered {adaptive['recovered']} times",
            "recovered, not eliminated",
            f"lengths that vary, in {oom['allowed_mib'] / 1024:.1f} GiB; micro-batches of {', '.join(map(str, adaptive['sizes']))}",
        ),
        row("GC pause −47 %", "−99 % of the longest pause", "reached", f"not measured here: from [garbage collection](gc.md), measured on {measured_on('gc.md')}"),
        "",
    ]
    return "\n".join(lines)


def claim(name: str, figures: dict, goal: float, what: str) -> str:
    return row(name, f"{percent(figures['memory_percent'])} at {percent(figures['time_percent'])} of time", judged(figures["memory_percent"] <= goal), f"{what}; {kept(figures)}")


def judged(is_reached: bool) -> str:
    return "reached" if is_reached else "missed"


def overall_percent(found: dict) -> float:
    parts = [found[name] for name in ("pipeline", "tactical_embedder", "structure_embedder")]
    return 100 * (sum(one["after_mib"] for one in parts) / sum(one["before_mib"] for one in parts) - 1)


def overall(found: dict) -> str:
    return percent(overall_percent(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("figures")
    parser.add_argument("--markdown", required=True)
    parser.add_argument("--date", required=True)
    parser.add_argument("--note", default="", help="a sentence about the machine")
    arguments = parser.parse_args()
    with open(arguments.figures) as file:
        found = json.load(file)
    with open(arguments.markdown, "w") as file:
        file.write(page(found, arguments.date, arguments.note))


if __name__ == "__main__":
    main()
