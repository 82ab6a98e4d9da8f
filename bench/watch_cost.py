#!/usr/bin/env python3
"""What `nilometer.torch.watch` adds to a training step, on the CPU or on a GPU; needs PyTorch and an installed nilometer.

    python3 bench/watch_cost.py                      on the CPU
    python3 bench/watch_cost.py --device cuda        on a GPU
    python3 bench/watch_cost.py --every 1            every step recorded, on a GPU too

Three equal models are stepped in turns: a plain one, one with hooks of Python that do nothing in the places where `watch` needs to know
something, and a watched one. `in a loop` are tiny steps one after the other; `after work` has the processor's caches emptied
before each of forward, backward and optimizer, as a real step of some milliseconds does.
"""

import argparse
import os
import statistics
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import nilometer

JUNK_BYTES = 6 << 20  # more than the second-level cache of a core
KINDS = ("plain", "empty hooks", "watched")


class Training:
    """A tiny model with its optimizer."""

    def __init__(self, kind: str, device: str, every: int | None) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 8)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-6)
        self.batch = torch.ones(2, 8, device=device)
        if kind == "watched":
            self.watched = nilometer.torch.watch(self.model, self.optimizer, every=every)
        elif kind == "empty hooks":
            add_empty_hooks(self.model, self.optimizer)

    def step(self) -> None:
        self.model(self.batch).sum().backward()
        self.optimizer.step()

    def timed_parts(self, empty_caches) -> list[int]:
        """Nanoseconds of forward, backward and optimizer, each after other work."""
        now = time.perf_counter_ns
        empty_caches()
        began = now()
        output = self.model(self.batch)
        parts = [now() - began]
        loss = output.sum()
        empty_caches()
        began = now()
        loss.backward()
        parts.append(now() - began)
        empty_caches()
        began = now()
        self.optimizer.step()
        parts.append(now() - began)
        return parts


def add_empty_hooks(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    queue_callback = torch.autograd.Variable._execution_engine.queue_callback

    def nothing(*_):
        return None

    def on_gradient(_):
        queue_callback(nothing)

    def after_forward(_module, _args, output):
        output.grad_fn.register_prehook(on_gradient)

    model.register_forward_pre_hook(nothing, with_kwargs=True)
    model.register_forward_hook(after_forward, always_call=True)
    optimizer.register_step_pre_hook(nothing)
    optimizer.register_step_post_hook(nothing)


def measure(device: str, every: int | None, turns: int) -> dict[str, dict[str, list[float]]]:
    trainings = {kind: Training(kind, device, every) for kind in KINDS}
    junk = torch.zeros(JUNK_BYTES, dtype=torch.uint8)
    wait = torch.cuda.synchronize if device.startswith("cuda") else lambda: None
    found = {"in a loop": {kind: [] for kind in KINDS}, "after work": {kind: [] for kind in KINDS}}
    for _ in range(200):
        for training in trainings.values():
            training.step()
    for _ in range(turns):
        for kind, training in trainings.items():
            wait()
            began = time.perf_counter_ns()
            for _ in range(10):
                training.step()
            wait()
            found["in a loop"][kind].append((time.perf_counter_ns() - began) / 10)
    for _ in range(turns):
        for kind, training in trainings.items():
            found["after work"][kind].append(sum(training.timed_parts(lambda: junk.add_(1))))
    trainings["watched"].watched.remove()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what nilometer.torch.watch adds to a step.")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--every", type=int, default=None, help="as in watch()")
    parser.add_argument("--turns", type=int, default=2000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        nilometer.init(dir=folder, memory=False)
        found = measure(arguments.device, arguments.every, arguments.turns)
        nilometer.finish()
    print(f"added to a step in µs on {arguments.device}, torch {torch.__version__}, {arguments.turns} turns; load {os.getloadavg()[0]:.1f}")
    for title, kinds in found.items():
        for kind in KINDS[1:]:
            lowest = decile(kinds[kind]) - decile(kinds["plain"])
            paired = statistics.median(with_it - without for with_it, without in zip(kinds[kind], kinds["plain"], strict=True))
            print(f"{title:11} {kind:12} lowest decile {lowest / 1e3:6.2f}   median of the pairs {paired / 1e3:6.2f}   (plain step {decile(kinds['plain']) / 1e3:.0f})")


def decile(nanos: list[float]) -> float:
    return sorted(nanos)[len(nanos) // 10]


if __name__ == "__main__":
    main()
