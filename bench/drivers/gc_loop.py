"""One loop under one way of collecting garbage; prints its figures as JSON.

    python3 gc_loop.py MODE        default, freeze, thresholds, young, full, ours
    python3 gc_loop.py plain

600,000 dictionaries live as long as the program (a dataset), every step leaves cycles behind, and keeps a few more dictionaries (a history, a cache).
`plain` alternates stretches with and without our collector, in steps that leave nothing to collect.
"""

import gc
import json
import resource
import sys
import time

# In every mode: what the package itself takes is not what a way of collecting takes.
from nilometer.optimize import GarbageCollector

LONG_LIVED, STEPS, CYCLES, KEPT = 600_000, 600, 250, 300
PLAIN_STEPS, STRETCHES = 4000, 10


class Node:
    def __init__(self, other):
        self.other = other
        self.payload = {"value": 1.0, "next": [other]}


def make(index):
    # A dictionary of numbers and texts alone is not tracked by the collector.
    return {"id": index, "text": str(index), "tags": []}


def leave_cycles(held):
    held.extend(make(index) for index in range(KEPT))
    for _ in range(CYCLES):
        node = Node(None)
        node.other = Node(node)


def compute():
    total = 0
    for value in range(2000):
        total += value * value
    return total


class Pauses:
    """By CPU time of the thread: other programs on the machine do not count."""

    def __init__(self):
        self.total = self.longest = self.begun = 0.0
        self.count = 0

    def __call__(self, phase, info):
        if phase == "start":
            self.begun = time.thread_time()
        else:
            pause = time.thread_time() - self.begun
            self.total += pause
            self.longest = max(self.longest, pause)
            self.count += 1


def measure(mode):
    held = [make(index) for index in range(LONG_LIVED)]
    pauses, collector, every = Pauses(), None, lambda: None
    begun = time.process_time()
    if mode == "freeze":
        gc.collect()
        gc.freeze()
    elif mode == "thresholds":
        gc.set_threshold(50_000, 20, 10)
    elif mode in ("full", "young"):
        gc.disable()
        every = gc.collect if mode == "full" else lambda: gc.collect(1)
    elif mode == "ours":
        collector = GarbageCollector()
        collector.start()
    setup = time.process_time() - begun
    gc.callbacks.append(pauses)
    begun = time.process_time()
    for step in range(1, STEPS + 1):
        leave_cycles(held)
        if collector is not None:
            collector.step()
        elif step % 50 == 0:
            every()
    cpu = time.process_time() - begun
    gc.callbacks.remove(pauses)
    return {
        "setup_secs": setup,
        "longest_secs": pauses.longest,
        "total_secs": pauses.total,
        "collections": pauses.count,
        "cpu_secs": cpu,
        "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def measure_plain():
    secs = {"default": [], "ours": []}
    for stretch in range(2 * STRETCHES):
        mode = "ours" if stretch % 2 else "default"
        collector = GarbageCollector()
        if mode == "ours":
            collector.start()
        begun = time.process_time()
        for _ in range(PLAIN_STEPS):
            compute()
            # Without being started it does nothing.
            collector.step()
        secs[mode].append((time.process_time() - begun) / PLAIN_STEPS)
        collector.stop()
    return secs


if __name__ == "__main__":
    print(json.dumps(measure_plain() if sys.argv[1] == "plain" else measure(sys.argv[1])))
