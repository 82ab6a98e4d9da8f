#!/usr/bin/env python3
"""Measures our replay buffer and those of other libraries in the same run, on this machine.

    python3 bench/buffers.py                                     tables on the terminal, about ten minutes
    python3 bench/buffers.py --rounds 1                          the same, about three minutes
    python3 bench/buffers.py --only vectors                      some of them
    python3 bench/buffers.py --markdown docs/benchmarks/buffers.md

The Python that runs it needs nilometer, numpy, ale-py, opencv-python-headless, gymnasium, cpprb, stable-baselines3 and torchrl; a library that is missing is left out and named.
"""

import importlib.metadata
import importlib.util
import json
import os
import statistics
import subprocess
import sys

import buffer_frames
from frame import Program
from page import Table, spread
from processes import BenchmarkFailed
from settings import REPOSITORY

DRIVER = REPOSITORY / "bench" / "drivers" / "replay_buffer.py"
TITLES = {
    "nilometer": "nilometer",
    "nilometer_lz4": "nilometer, codec lz4",
    "cpprb": "cpprb, next_of + stack_compress",
    "sb3": "SB3",
    "sb3_optimized": "SB3, optimize_memory_usage",
    "torchrl": "torchrl, LazyTensorStorage",
}
MODULES = {"cpprb": "cpprb", "sb3": "stable_baselines3", "sb3_optimized": "stable_baselines3", "torchrl": "torchrl"}
PACKAGES = ["numpy", "cpprb", "stable-baselines3", "torchrl", "torch", "ale-py"]
# The goals: bytes of the hardest game, all speeds against cpprb, vectors against SB3.
HARDEST_GAME, HARDEST_BYTES = "MsPacman", 2200
VECTOR_SHARE = 0.6


def present(asked: list[str]) -> list[str]:
    """Those that are installed; ours always, since the others are compared with it."""
    return [name for name in TITLES if (name in asked or name == "nilometer") and importlib.util.find_spec(MODULES.get(name, "nilometer"))]


def run(name: str, source: str) -> dict[str, float]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, DRIVER, name, source], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise BenchmarkFailed(f"{name} with {source}: {done.stderr.strip().splitlines()[-1:]}")
    # torchrl logs to stdout; the figures come last.
    return json.loads(done.stdout.splitlines()[-1])


def measured(source: str, names: list[str], rounds: int) -> dict[str, list[dict[str, float]]]:
    """All buffers in turns, several times."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            found[name].append(run(name, source))
    return found


def table(title: str, found: dict[str, list[dict[str, float]]]) -> Table:
    result = Table(
        title,
        {
            "buffer": "each in a process of its own, in turns; medians of the rounds.",
            "bytes a transition": "growth of the process's RSS while the buffer was filled; ours by its own count where that is more.",
            "× nilometer": "the same, divided by that of nilometer.",
            "adds/s": "one transition a call, by CPU time.",
            "samples/s": "transitions in batches of 32, observation and next observation, by CPU time of the whole process.",
            "lowest..highest": "of the rounds, in thousands.",
        },
    )
    ours = median(found["nilometer"], "bytes_per_transition")
    for name, rounds in found.items():
        size = median(rounds, "bytes_per_transition")
        speeds = [one["samples_per_second"] / 1000 for one in rounds]
        row = [TITLES[name], f"{size:,.0f}", f"{size / ours:.1f}×", f"{median(rounds, 'adds_per_second'):,.0f}"]
        result.rows.append([*row, f"{median(rounds, 'samples_per_second'):,.0f}", spread(speeds, 0)])
    return result


def median(rounds: list[dict[str, float]], figure: str) -> float:
    return statistics.median(one[figure] for one in rounds)


def goal(text: str, is_reached: bool) -> str:
    return f"Goal: {text}: {'reached' if is_reached else '**missed**'}."


def measure_games(rounds: int, asked: list[str]) -> list[Table]:
    tables = []
    for game in buffer_frames.GAMES:
        found = measured(str(buffer_frames.collect(game)), present(asked), rounds)
        made = table(f"{game}, 20,000 transitions, stacks of four frames of 84 × 84", found)
        size, speed = (median(found["nilometer"], figure) for figure in ("bytes_per_transition", "samples_per_second"))
        if game == HARDEST_GAME:
            made.notes.append(goal(f"at most {HARDEST_BYTES:,} bytes a transition, measured {size:,.0f}", size <= HARDEST_BYTES))
        if "cpprb" in found:
            rival = median(found["cpprb"], "samples_per_second")
            made.notes.append(goal(f"as many samples a second as cpprb, measured {speed / rival:.2f}×", speed >= rival))
        tables.append(made)
    return tables


def measure_vectors(rounds: int, asked: list[str]) -> Table:
    names = [name for name in present(asked) if name != "nilometer_lz4"]
    found = measured("vectors", names, rounds)
    made = table("Vectors: 100,000 transitions of 17 random float32, actions of 6", found)
    if "sb3" in found:
        share = median(found["nilometer"], "bytes_per_transition") / median(found["sb3"], "bytes_per_transition")
        made.notes.append(goal(f"40 % less than SB3, measured {1 - share:.1%}", share <= VECTOR_SHARE))
    return made


PROGRAM = Program(
    "bench/buffers.py",
    "Replay buffers: memory and speed",
    [
        "Frames are real, of a random policy with sticky actions; a trained policy sees more of the game, and its frames differ more.",
        "torchrl is measured as it is used by default: observations and next observations are stored apart.",
    ],
    {"games": measure_games, "vectors": measure_vectors},
)


def main() -> None:
    parser = PROGRAM.parser("Measure replay buffers in the same run.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (3)")
    parser.add_argument("--buffers", nargs="+", choices=TITLES, default=list(TITLES), metavar="NAME", help=f"some of: {', '.join(TITLES)}")
    arguments = parser.parse_args()

    def about_versions() -> list[str]:
        versions = []
        for package in PACKAGES:
            try:
                versions.append(f"{package} {importlib.metadata.version(package)}")
            except importlib.metadata.PackageNotFoundError:
                versions.append(f"{package} left out")
        return [f"Versions: {', '.join(versions)}."]

    PROGRAM.measure(arguments, (arguments.rounds, arguments.buffers), about_versions)


if __name__ == "__main__":
    main()
