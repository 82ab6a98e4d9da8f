#!/usr/bin/env python3
"""Measures nilometer and other metric trackers in the same run, on this machine.

    python3 bench/trackers.py                                     tables on the terminal, about ten minutes
    python3 bench/trackers.py --quick                             the same, about three minutes
    python3 bench/trackers.py --only call_cost kill_loss          some of them
    python3 bench/trackers.py --markdown docs/benchmarks/trackers.md

Nothing is asserted about times: the reader compares the columns.
"""

import argparse
import datetime
import sys
import time
from pathlib import Path

import call_cost
import import_time
import kill_loss
import machine
import piece_cost
import series_reading
import step_overhead
import tracker_environment
from processes import BenchmarkFailed
from tracker_settings import NORMAL, QUICK

BENCHMARKS = {
    "call_cost": call_cost.measure,
    "kill_loss": kill_loss.measure,
    "series_reading": series_reading.measure,
    "import_time": import_time.measure,
    "piece_cost": piece_cost.measure,
    "step_overhead": step_overhead.measure,
}


def main() -> None:
    arguments = parse(sys.argv[1:])
    effort = arguments.effort
    trackers = tracker_environment.install(arguments.install_nilometer, effort.with_aim)
    load_before, started = machine.load(), time.monotonic()
    results, failed = [], []
    for name in arguments.only or BENCHMARKS:
        print(f"measuring {name} …", file=sys.stderr)
        try:
            found = BENCHMARKS[name](trackers, effort)
        except BenchmarkFailed as failure:
            print(f"error: {name}: {failure}", file=sys.stderr)
            failed.append(name)
            continue
        for result in found if isinstance(found, list) else [found]:
            print(result.as_text(), end="\n\n", flush=True)
            results.append(result)
    about = [
        *machine.describe(),
        machine.describe_load(load_before, machine.load()),
        f"Versions: {tracker_environment.versions(trackers)}.",
        *([] if trackers.has_aim else ["Aim was left out."]),
    ]
    print("\n".join(about))
    if failed:
        raise SystemExit(f"error: not measured: {', '.join(failed)}" + ("; no page written" if arguments.markdown else ""))
    if arguments.markdown:
        arguments.markdown.parent.mkdir(parents=True, exist_ok=True)
        arguments.markdown.write_text(page(results, about, (time.monotonic() - started) / 60))


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure nilometer and other metric trackers in the same run.")
    parser.add_argument("--quick", dest="effort", action="store_const", const=QUICK, default=NORMAL, help="few repetitions, without Aim")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=f"some of: {', '.join(BENCHMARKS)}")
    parser.add_argument("--install-nilometer", action="store_true", help="build and install nilometer, instead of taking the working tree's")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the page")
    return parser.parse_args(words)


def page(results: list, about: list[str], minutes: float) -> str:
    command = " ".join(["python3", "bench/trackers.py", *sys.argv[1:]])
    head = [
        "# What logging costs, and what survives",
        "",
        f"Measured on {datetime.date.today().isoformat()}, in {minutes:.0f} minutes, by `{command}`.",
        *about,
        "nilometer and the other trackers were measured in the same run; where there are rounds, in turns.",
        "",
    ]
    return "\n".join(head) + "\n" + "\n".join(result.as_markdown() for result in results)


if __name__ == "__main__":
    main()
