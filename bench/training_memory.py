#!/usr/bin/env python3
"""What `nilometer.optimize` saves in training, and what it costs: each claim of the document beside what was measured.

    python3 bench/training_memory.py --json out.json      on the GPU at hand; needs torch and transformers
    python3 bench/training_memory.py --quick               small shapes, to try the script

Every model is trained in steps of the same batch before and after, peaks are the allocator's, times are medians.
Rivals in the same run: `gradient_checkpointing_enable()` of Hugging Face, and halving the batch until it runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from nilometer.optimize import AdaptiveBatches, apply_steps, checkpoint_model, find_batch_size, language_model_loss_sum

MIB = 1 << 20


class Embedder(torch.nn.Module):
    """A window of features through transformer layers to one vector: the shape of the document's embedders."""

    def __init__(self, features: int, width: int, layers: int) -> None:
        super().__init__()
        self.input = torch.nn.Linear(features, width)
        self.blocks = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.output = torch.nn.Linear(width, width)

    def forward(self, window: torch.Tensor) -> torch.Tensor:
        hidden = self.input(window)
        for block in self.blocks:
            hidden = block(hidden)
        return self.output(hidden.mean(dim=1)).square().mean()


def language_model(shape: dict, attention: str = "eager") -> GPT2LMHeadModel:
    torch.manual_seed(0)
    config = GPT2Config(n_layer=shape["layers"], n_embd=shape["width"], n_head=shape["heads"], vocab_size=shape["vocabulary"], n_positions=shape["length"])
    config._attn_implementation = attention
    config.use_cache = False
    return GPT2LMHeadModel(config)


def tokens(shape: dict, batch: int, device: str, length: int | None = None) -> dict:
    ids = torch.randint(0, shape["vocabulary"], (batch, length or shape["length"]), device=device)
    return {"input_ids": ids, "labels": ids}


def clean() -> None:
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def train_step(model, batch, optimizer) -> None:
    loss = model(**batch).loss if isinstance(batch, dict) else model(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def measured(model, batch, optimizer, steps: int) -> tuple[int, float]:
    """The peak of a step in bytes and the median of its seconds."""
    for _ in range(2):
        train_step(model, batch, optimizer)
    clean()
    peak = peak_of(lambda: train_step(model, batch, optimizer))
    times = []
    for _ in range(steps):
        begun = time.perf_counter()
        train_step(model, batch, optimizer)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begun)
    return peak, statistics.median(times)


def peak_of(function) -> int:
    torch.cuda.reset_peak_memory_stats()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()


def saving(before: tuple[int, float], after: tuple[int, float]) -> dict:
    return {
        "before_mib": before[0] / MIB,
        "after_mib": after[0] / MIB,
        "memory_percent": 100 * (after[0] / before[0] - 1),
        "before_ms": 1000 * before[1],
        "after_ms": 1000 * after[1],
        "time_percent": 100 * (after[1] / before[1] - 1),
    }


def steps_of(make, batch, steps: int, *, tolerance: bool, share: float | None = None) -> dict:
    """A model as it is, and with what `apply_steps` keeps; with a share, within that part of the plain peak."""
    model = make()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    before = measured(model, batch, optimizer, steps)
    budget = None if share is None else int(share * before[0])
    outcomes = apply_steps(model, batch, optimizer=optimizer, tolerance=tolerance, budget_bytes=budget)
    result = saving(before, measured(model, batch, optimizer, steps))
    if budget is not None:
        result["budget_mib"] = budget / MIB
    result["kept"] = {outcome.name: step_row(outcome) for outcome in outcomes if outcome.applied}
    result["not_kept"] = {outcome.name: outcome.reason for outcome in outcomes if not outcome.applied}
    return result


def step_row(outcome) -> dict:
    """What one step did on top of those before it."""
    return {
        "saved_mib": outcome.saved_bytes / MIB,
        "before_ms": 1000 * outcome.secs_before,
        "after_ms": 1000 * outcome.secs_after,
        "reason": outcome.reason,
    }


def by_hugging_face(shape: dict, batch, device: str, steps: int) -> dict:
    model = language_model(shape).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    before = measured(model, batch, optimizer, steps)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return saving(before, measured(model, batch, optimizer, steps))


def plan_for_the_same_memory(shape: dict, batch, device: str, steps: int) -> dict:
    """Checkpoints of Hugging Face, and a checkpoint plan within the peak that they reach."""
    model = language_model(shape).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    before = measured(model, batch, optimizer, steps)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    theirs = measured(model, batch, optimizer, steps)
    model.gradient_checkpointing_disable()
    outcome = checkpoint_model(model, batch, budget_bytes=theirs[0], optimizer=optimizer)
    ours = measured(model, batch, optimizer, steps)
    return {
        "hugging_face": saving(before, theirs),
        "plan": saving(before, ours),
        "outcome": str(outcome),
        "foretold_mib": outcome.predicted_peak_bytes / MIB,
        "plan_time_against_theirs_percent": 100 * (ours[1] / theirs[1] - 1),
    }


def latency(shape: dict, device: str, rounds: int) -> dict:
    """One forward pass for one sequence: as the training code left it, and in inference mode with fused attention and bfloat16."""
    sample = tokens(shape, 1, device)["input_ids"]
    plain, lean = language_model(shape).to(device).eval(), language_model(shape, "sdpa").to(device).eval()

    def run_plain():
        with torch.no_grad():
            plain(sample)

    def run_lean():
        with torch.inference_mode(), torch.autocast(device, dtype=torch.bfloat16):
            lean(sample)

    times: dict[str, list[float]] = {"plain": [], "lean": []}
    for turn in range(rounds + 3):
        for name, run in (("plain", run_plain), ("lean", run_lean)):
            begun = time.perf_counter()
            run()
            torch.cuda.synchronize()
            if turn >= 3:
                times[name].append(time.perf_counter() - begun)
    plain_ms, lean_ms = (1000 * statistics.median(times[name]) for name in ("plain", "lean"))
    return {"before_ms": plain_ms, "after_ms": lean_ms, "percent": 100 * (lean_ms / plain_ms - 1)}


def throughput(shape: dict, device: str, budget: int, steps: int) -> dict:
    """Samples a second with the largest batch within one budget, plain and optimized."""
    result = {"budget_mib": budget / MIB}
    for name in ("plain", "optimized"):
        clean()
        model = language_model(shape).to(device).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        if name == "optimized":
            train_step(model, tokens(shape, 1, device), optimizer)
            apply_steps(model, tokens(shape, 2, device), optimizer=optimizer, tolerance=True)

        def step(batch_size, length, model=model, optimizer=optimizer):
            train_step(model, tokens(shape, batch_size, device, length), optimizer)

        found = find_batch_size(step, model, optimizer, length=shape["length"], budget_bytes=budget)
        size = found.batch_size
        peak, secs = measured(model, tokens(shape, size, device), optimizer, steps)
        result[name] = {"batch": size, "samples_per_second": size / secs, "peak_mib": peak / MIB, "samples_per_gib": size / (peak / 2**30), "probes": found.probes}
        del model, optimizer, step, found
    result["throughput_percent"] = 100 * (result["optimized"]["samples_per_second"] / result["plain"]["samples_per_second"] - 1)
    result["efficiency_percent"] = 100 * (result["optimized"]["samples_per_gib"] / result["plain"]["samples_per_gib"] - 1)
    return result


def out_of_memory(shape: dict, device: str, steps: int) -> dict:
    """A training whose lengths vary, in a part of the device: plain PyTorch ends at the first batch that is too long, AdaptiveBatches goes on."""
    clean()
    total = torch.cuda.get_device_properties(0).total_memory
    model = language_model(shape, "sdpa").to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    train_step(model, tokens(shape, 1, device), optimizer)
    clean()
    peak = peak_of(lambda: train_step(model, tokens(shape, 8, device), optimizer))
    clean()
    # Eight of full length fit, sixteen do not.
    torch.cuda.set_per_process_memory_fraction(1.15 * peak / total)
    lengths = [shape["length"] // 4, shape["length"] // 2, shape["length"] // 4, shape["length"]]
    batches = [tokens(shape, 16, device, lengths[turn % 4]) for turn in range(steps)]
    result = {"steps": steps, "allowed_mib": 1.15 * peak / MIB}
    done = ooms = 0
    for batch in batches:
        failed = False
        try:
            train_step(model, batch, optimizer)
        except torch.OutOfMemoryError:
            failed = True
        if failed:
            ooms += 1
            optimizer.zero_grad()
            clean()
            break
        done += 1
    result["plain"] = {"steps": done, "ooms": ooms}
    adaptive = AdaptiveBatches(model, optimizer, language_model_loss_sum, micro_batch=16, grow_after=8, retry_after=1000)
    outcomes = [adaptive.step(batch) for batch in batches]
    result["adaptive"] = {
        "steps": len(outcomes),
        "recovered": sum(outcome.retries for outcome in outcomes),
        "sizes": sorted({outcome.micro_batch for outcome in outcomes}),
    }
    torch.cuda.set_per_process_memory_fraction(1.0)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", default=None)
    arguments = parser.parse_args()
    device = "cuda"
    shape = {"layers": 12, "width": 768, "heads": 12, "vocabulary": 50257, "length": 1024}
    batch_size, steps = 8, 20
    if arguments.quick:
        shape, batch_size, steps = {"layers": 4, "width": 256, "heads": 4, "vocabulary": 8000, "length": 256}, 4, 5
    torch.manual_seed(0)
    batch = tokens(shape, batch_size, device)
    make = lambda: language_model(shape).to(device).train()  # noqa: E731
    results = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "shape": shape, "batch": batch_size}

    def record(name, function, *positional, **named):
        clean()
        begun = time.time()
        try:
            results[name] = function(*positional, **named)
        except Exception as error:
            results[name] = {"failed": f"{type(error).__name__}: {error}"}
        print(f"{name} ({time.time() - begun:.0f} s): {json.dumps(results[name])}", flush=True)

    record("pipeline_safe", steps_of, make, batch, steps, tolerance=False)
    record("pipeline", steps_of, make, batch, steps, tolerance=True)
    record("pipeline_half", steps_of, make, batch, steps, tolerance=True, share=0.5)
    record("hugging_face", by_hugging_face, shape, batch, device, steps)
    record("same_memory", plan_for_the_same_memory, shape, batch, device, steps)
    for name, (window, features, width, layers, samples) in {"tactical": (60, 7, 256, 4, 1024), "structure": (48, 8, 128, 3, 1024)}.items():
        window_batch = torch.randn(samples, window, features, device=device)
        record(f"{name}_embedder", steps_of, lambda f=features, w=width, n=layers: Embedder(f, w, n).to(device).train(), window_batch, steps, tolerance=True)
    record("latency", latency, shape, device, 30)
    record("throughput", throughput, shape, device, 24 << 30 if not arguments.quick else 1 << 30, steps // 2)
    record("out_of_memory", out_of_memory, shape, device, 24)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
