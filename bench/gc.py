#!/usr/bin/env python3
"""Measures ways to collect Python's garbage in a training loop, in the same run, on this machine.

    python3 bench/gc.py                                     tables on the terminal, about a minute
    python3 bench/gc.py --markdown docs/benchmarks/gc.md

The Python that runs it needs nilometer.
"""

import json
import statistics
import subprocess
import sys

from frame import Program
from page import Table, spread
from processes import BenchmarkFailed
from settings import REPOSITORY

DRIVER = REPOSITORY / "bench" / "drivers" / "gc_loop.py"
TITLES = {
    "default": "as Python does it",
    "freeze": "`gc.freeze()`",
    "thresholds": "thresholds 50,000/20/10",
    "young": "off, `collect(1)` every 50 steps",
    "full": "off, `collect()` every 50 steps",
    "ours": "`GarbageCollector`",
}
# The goals: our worst pause and our peak memory against those of Python itself.
PAUSE_SHARE, MEMORY_SHARE = 0.10, 1.05


def run(mode: str) -> dict:
    done = subprocess.run([sys.executable, DRIVER, mode], capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchmarkFailed(f"{mode}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def object_heavy(rounds: int) -> Table:
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in TITLES}
    for _ in range(rounds):
        for mode in TITLES:
            found[mode].append(run(mode))
    result = Table(
        "600,000 long-lived dictionaries, 600 steps that leave cycles and keep a little",
        {
            "collection": f"each in a process of its own, in turns; medians of {rounds} rounds.",
            "worst pause, ms": "the longest collection within the loop, by CPU time.",
            "lowest..highest": "worst pause of the rounds.",
            "all pauses, ms": "",
            "loop, CPU s": "600 steps, collections included.",
            "peak RSS, MB": "of the process; the package is imported in every mode.",
            "before the loop, ms": "what starting takes: a full collection, where objects are frozen.",
        },
    )
    for mode, title in TITLES.items():
        rounds_of = found[mode]
        pauses = [1000 * one["longest_secs"] for one in rounds_of]
        result.rows.append(
            [
                title,
                f"{statistics.median(pauses):.1f}",
                spread(pauses, 1),
                f"{1000 * median(rounds_of, 'total_secs'):.0f}",
                f"{median(rounds_of, 'cpu_secs'):.2f}",
                f"{median(rounds_of, 'peak_bytes') / 1e6:.0f}",
                f"{1000 * median(rounds_of, 'setup_secs'):.0f}",
            ]
        )
    pause = median(found["ours"], "longest_secs") / median(found["default"], "longest_secs")
    memory = median(found["ours"], "peak_bytes") / median(found["default"], "peak_bytes")
    result.notes = [
        f"Goal: a worst pause of at most {PAUSE_SHARE:.0%} of Python's, measured {pause:.1%}: {reached(pause <= PAUSE_SHARE)}.",
        f"Goal: at most {MEMORY_SHARE - 1:.0%} more memory at the peak, measured {memory - 1:+.1%}: {reached(memory <= MEMORY_SHARE)}.",
    ]
    return result


def nothing_to_collect(rounds: int) -> Table:
    found = [run("plain") for _ in range(rounds)]
    default = statistics.median(statistics.median(one["default"]) for one in found)
    ours = statistics.median(statistics.median(one["ours"]) for one in found)
    ratios = [100 * (statistics.median(one["ours"]) / statistics.median(one["default"]) - 1) for one in found]
    result = Table(
        "Steps that leave nothing to collect",
        {
            "step": "20 stretches of 4,000 steps in one process, with and without in turns; medians.",
            "CPU µs": "",
        },
    )
    result.rows = [["without", f"{1e6 * default:.1f}"], ["with `GarbageCollector`", f"{1e6 * ours:.1f}"]]
    result.notes = [f"The difference is {1e6 * (ours - default):+.1f} µs a step; {spread(ratios, 1)} % of these short steps in {rounds} rounds."]
    return result


def median(rounds: list[dict[str, float]], key: str) -> float:
    return statistics.median(one[key] for one in rounds)


def reached(is_reached: bool) -> str:
    return "reached" if is_reached else "missed"


def main() -> None:
    program = Program(
        "bench/gc.py",
        "Garbage collection: pauses and memory",
        ["A full collection in every interval looks tidy and is the worst of all: each looks at every object of the program again."],
        {"objects": object_heavy, "plain": nothing_to_collect},
    )
    parser = program.parser(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    arguments = parser.parse_args()
    program.measure(arguments, (arguments.rounds,), lambda: [])


if __name__ == "__main__":
    main()
