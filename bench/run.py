#!/usr/bin/env python3
"""Measures nilo and its rivals in the same run, on this machine; the table of contents of the benchmarks.

    python3 bench/run.py                                     tables on the terminal, about half an hour
    python3 bench/run.py --quick                             the same, about ten minutes
    python3 bench/run.py --only spike_peak added_latency     some of them
    python3 bench/run.py --markdown docs/benchmarks/recorder.md

Nothing is asserted about times: the reader compares the columns.
"""

import argparse
import datetime
import os
import sys
import time
from pathlib import Path

import added_latency
import kilohertz
import machine
import micro
import recorder_memory
import rivals
import sampling_cost
import spike_peak
import tree_sample
from processes import BenchmarkFailed
from settings import LONG, NORMAL, QUICK, REPOSITORY, Settings

BENCHMARKS = {
    "sampling_cost": sampling_cost.measure,
    "tree_sample": tree_sample.measure,
    "spike_peak": spike_peak.measure,
    "added_latency": added_latency.measure,
    "kilohertz": kilohertz.measure,
    "recorder_memory": recorder_memory.measure,
    "micro": micro.measure,
}


def main() -> None:
    arguments = parse(sys.argv[1:])
    settings = settle(arguments)
    rivals.install()
    load_before, started = machine.load(), time.monotonic()
    results, failed = [], []
    for name in arguments.only or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        try:
            found = BENCHMARKS[name](settings)
        except BenchmarkFailed as failure:
            print(f"error: {name}: {failure}", file=sys.stderr)
            failed.append(name)
            continue
        for result in found if isinstance(found, list) else [found]:
            print(result.as_text(), end="\n\n", flush=True)
            results.append(result)
    about = [*machine.describe(), machine.describe_load(load_before, machine.load()), f"Rivals: {rivals.versions()}."]
    print("\n".join(about))
    if failed:
        raise SystemExit(f"error: not measured: {', '.join(failed)}" + ("; no page written" if arguments.markdown else ""))
    if arguments.markdown:
        arguments.markdown.parent.mkdir(parents=True, exist_ok=True)
        arguments.markdown.write_text(page(results, about, (time.monotonic() - started) / 60))


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure nilo and its rivals in the same run.")
    effort = parser.add_mutually_exclusive_group()
    effort.add_argument("--quick", dest="effort", action="store_const", const=QUICK, help="few repetitions")
    effort.add_argument("--long", dest="effort", action="store_const", const=LONG, help="many, and memory over an hour")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=f"some of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--nilo", type=Path, default=REPOSITORY / "target" / "release" / "nilo", help="the binary to measure")
    parser.add_argument("--rivals-only", action="store_true", help="leave nilo out")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the page")
    parser.set_defaults(effort=NORMAL)
    return parser.parse_args(words)


def settle(arguments: argparse.Namespace) -> Settings:
    if arguments.rivals_only:
        return Settings(arguments.effort, nilo=None, with_micro=False)
    if not os.access(arguments.nilo, os.X_OK):
        raise SystemExit(f"error: no nilo to measure: {arguments.nilo}\nhint: cargo build --release, or --rivals-only")
    return Settings(arguments.effort, arguments.nilo.resolve(), with_micro=True)


def page(results: list, about: list[str], minutes: float) -> str:
    command = " ".join(["python3", "bench/run.py", *sys.argv[1:]])
    head = [
        "# What the recorder costs, and what it sees",
        "",
        f"Measured on {datetime.date.today().isoformat()}, in {minutes:.0f} minutes, by `{command}`.",
        *about,
        "Ourselves and the rivals were measured in the same run; where there are repetitions, in turns.",
        "CPU times are the kernel's account of the process (`wait4`), user and system time together.",
        "",
    ]
    return "\n".join(head) + "\n" + "\n".join(result.as_markdown() for result in results)


if __name__ == "__main__":
    main()
