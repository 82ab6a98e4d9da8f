#!/usr/bin/env python3
"""How long `nilo runs` takes with many finished runs in the folder.

    python3 bench/runs_listing.py                             1,000 runs, with target/release/nilo
    python3 bench/runs_listing.py --nilo OLD --nilo NEW       two builds, in turns, each with a folder of its own
    python3 bench/runs_listing.py --runs 100 --seconds 30     longer runs

One run is recorded and copied under other ids. The first listing reads every run; the others find what it kept.
Wall time and CPU time (user and system, by `wait4`) in milliseconds. Nothing is asserted: the reader compares.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
GOAL_MILLIS = 100
# Grows, forks and frees, so that the recording has more than a flat line.
JOB = """
import os, sys, time
end = time.monotonic() + float(sys.argv[1])
held = []
if os.fork() == 0:
    time.sleep(float(sys.argv[1]) / 2)
    os._exit(0)
while time.monotonic() < end:
    held.append(bytearray(1 << 20))
    if len(held) > 200:
        held.clear()
    time.sleep(0.01)
"""


def record(nilo: str, root: Path, seconds: float) -> Path:
    command = [nilo, "run", "--dir", str(root), "--interval", "0.02", "--", sys.executable, "-c", JOB, str(seconds)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    [run] = [path for path in root.iterdir() if (path / "run.json").exists()]
    return run


def copy(recorded: Path, root: Path, runs: int) -> None:
    description = json.loads((recorded / "run.json").read_text())
    for index in range(runs):
        description["id"] = f"20260101-000000-copy-{index:05}"
        target = root / description["id"]
        shutil.copytree(recorded, target)
        (target / "run.json").write_text(json.dumps(description))


def timed(nilo: str, root: Path, *options: str) -> tuple[float, float, int]:
    """Milliseconds on the clock and on the processor, and the lines that came out."""
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        child = subprocess.Popen([nilo, "runs", "--dir", str(root), *options], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            raise SystemExit(f"{nilo} runs failed with {child.returncode}")
        out.seek(0)
        lines = sum(1 for _ in out)
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3, lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nilo", action="append", help="a build to measure; may be given several times")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3, help="how long the recorded run takes")
    parser.add_argument("--repetitions", type=int, default=9)
    options = parser.parse_args()
    builds = options.nilo or [str(REPOSITORY / "target/release/nilo")]
    with tempfile.TemporaryDirectory(prefix="nilo-runs-listing-") as scratch:
        recorded = record(builds[0], Path(scratch) / "recorded", options.seconds)
        size = sum(file.stat().st_size for file in recorded.iterdir() if file.is_file())
        print(f"{options.runs} runs of {options.seconds:g} s, {size / 1024:.0f} KiB each, {os.cpu_count()} processors")
        roots = []
        for index, _ in enumerate(builds):
            roots.append(Path(scratch) / f"runs-{index}")
            roots[-1].mkdir()
            copy(recorded, roots[-1], options.runs)
        first = [timed(nilo, root) for nilo, root in zip(builds, roots)]
        later: dict[str, list[list[tuple[float, float, int]]]] = {}
        for _ in range(options.repetitions):
            for what, arguments in (("again", ()), ("again, as JSON", ("--format", "json"))):
                figures = later.setdefault(what, [[] for _ in builds])
                for index, (nilo, root) in enumerate(zip(builds, roots)):
                    figures[index].append(timed(nilo, root, *arguments))
        print(f"{'build':40} {'listing':16} {'wall ms':>9} {'least':>9} {'CPU ms':>9} {'lines':>6}")
        for index, nilo in enumerate(builds):
            for what, figures in [("first", [[it] for it in first]), *later.items()]:
                walls, cpus, lines = zip(*figures[index])
                wall = statistics.median(walls)
                cpu = statistics.median(cpus)
                print(f"{nilo[-40:]:40} {what:16} {wall:9.1f} {min(walls):9.1f} {cpu:9.1f} {lines[0]:6}")
            wall = statistics.median(it[0] for it in later["again"][index])
            verdict = "reached" if wall <= GOAL_MILLIS else "NOT reached"
            print(f"goal, {GOAL_MILLIS} ms for runs that were listed before: {verdict}")


if __name__ == "__main__":
    main()
