#!/usr/bin/env python3
"""What the Python hooks cost a training step on a GPU: one training, with the hooks' thread on and off in turn.

    python3 bench/hook_cost.py --pairs 40

Needs a GPU and PyTorch. Steps of two kinds: many small layers, where Python is what the step waits for, and a few large ones, where the GPU is.
A pair is a second without the thread and one with it, in an order that alternates; processes that are started anew differ by more than the thread costs.
The table has the median step without it, the median of the ratios of the pairs, and an interval that holds that median in 95 of 100 cases (bootstrap).
"""

import _thread
import argparse
import importlib.util
import pathlib
import random
import shutil
import statistics
import tempfile
import time

import torch

HOOKS = pathlib.Path(__file__).parents[1] / "crates/nilo-recorder/hooks"
# Layers and their width.
KINDS = {"waits for Python": (24, 256), "waits for the GPU": (4, 8192)}
WINDOW_SECS = 1.0
RESAMPLES = 2000


def hook_parts(folder):
    """The hooks as `nilo run` lays them out, with a file to write into."""
    for path in HOOKS.glob("nilo_*.py"):
        shutil.copy(path, folder)
    (folder / "told.jsonl").touch(mode=0o600)
    spec = importlib.util.spec_from_file_location("hooks", folder / "nilo_hooks.py")
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    hooks._folder = str(folder)
    return hooks.part("nilo_torch.py")


def training(layers, width):
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    data = torch.randn(512, width, device="cuda")

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    return step


def step_ms(step):
    """The mean over the steps of a window."""
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < WINDOW_SECS:
        for _ in range(8):
            step()
        torch.cuda.synchronize()
        steps += 8
    return (time.perf_counter() - began) / steps * 1e3


def with_hooks(parts, step):
    running = _thread.allocate_lock()
    running.acquire()
    _thread.start_new_thread(parts["_sample"], (torch, running, {}, []))
    try:
        return step_ms(step)
    finally:
        running.release()


def interval(ratios):
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[-RESAMPLES // 40]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    pairs = parser.parse_args().pairs
    print("| step | without the hooks, ms | ratio with them | 95 % interval |")
    print("| --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        parts = hook_parts(pathlib.Path(folder))
        for kind, (layers, width) in KINDS.items():
            step = training(layers, width)
            step_ms(step)
            without, ratios = [], []
            for number in range(pairs):
                if number % 2:
                    alone, hooked = step_ms(step), with_hooks(parts, step)
                else:
                    hooked, alone = with_hooks(parts, step), step_ms(step)
                without.append(alone)
                ratios.append(hooked / alone)
            low, high = interval(ratios)
            print(f"| {kind} | {statistics.median(without):.3f} | {statistics.median(ratios):.4f} | {low:.4f}–{high:.4f} |", flush=True)


if __name__ == "__main__":
    main()
