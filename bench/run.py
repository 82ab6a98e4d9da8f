#!/usr/bin/env python3
"""Measures nilo and its rivals in the same run, on this machine; the table of contents of the benchmarks.

    python3 bench/run.py                                     tables on the terminal, about half an hour
    python3 bench/run.py --quick                             the same, about ten minutes
    python3 bench/run.py --only spike_peak added_latency     some of them
    python3 bench/run.py --markdown docs/benchmarks/recorder.md

Nothing is asserted about times: the reader compares the columns.
"""

import argparse
import os
import sys
from pathlib import Path

import added_latency
import kilohertz
import micro
import recorder_memory
import rivals
import sampling_cost
import spike_peak
import tree_sample
from frame import Program
from settings import LONG, NORMAL, QUICK, REPOSITORY, Settings

PROGRAM = Program(
    "bench/run.py",
    "What the recorder costs, and what it sees",
    [
        "Ourselves and the rivals were measured in the same run; where there are repetitions, in turns.",
        "CPU times are the kernel's account of the process (`wait4`), user and system time together.",
    ],
    {
        "sampling_cost": sampling_cost.measure,
        "tree_sample": tree_sample.measure,
        "spike_peak": spike_peak.measure,
        "added_latency": added_latency.measure,
        "kilohertz": kilohertz.measure,
        "recorder_memory": recorder_memory.measure,
        "micro": micro.measure,
    },
)


def main() -> None:
    arguments = parse(sys.argv[1:])
    settings = settle(arguments)
    rivals.install()
    PROGRAM.measure(arguments, (settings,), lambda: [f"Rivals: {rivals.versions()}."])


def parse(words: list[str]) -> argparse.Namespace:
    parser = PROGRAM.parser("Measure nilo and its rivals in the same run.")
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", dest="effort", action="store_const", const=QUICK, help="few repetitions")
    effort.add_argument("--long", dest="effort", action="store_const", const=LONG, help="many, and memory over an hour")
    parser.add_argument("--nilo", type=Path, default=REPOSITORY / "target" / "release" / "nilo", help="the binary to measure")
    parser.add_argument("--rivals-only", action="store_true", help="leave nilo out")
    parser.set_defaults(effort=NORMAL)
    return parser.parse_args(words)


def settle(arguments: argparse.Namespace) -> Settings:
    if arguments.rivals_only:
        return Settings(arguments.effort, nilo=None, with_micro=False)
    if not os.access(arguments.nilo, os.X_OK):
        raise SystemExit(f"error: no nilo to measure: {arguments.nilo}\nhint: cargo build --release, or --rivals-only")
    return Settings(arguments.effort, arguments.nilo.resolve(), with_micro=True)


if __name__ == "__main__":
    main()
