#!/usr/bin/env python3
"""Records real processes that run out of memory, leak, or only look like it, for the benchmark of verdicts.

    record.py [--nilo PATH] [NAME ...]

Each program of programs.py runs under `nilo run --interval 0.05` in a cgroup of 256 MiB; needs root and cgroup v1 for memory.
Writes testdata/traces/real/NAME.csv and labels.json: whether it was killed is the kernel's count, whether it leaks is the
program's nature.
"""

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TRACES = HERE / "testdata/traces/real"
CGROUPS = Path("/sys/fs/cgroup/memory")
LIMIT_BYTES = 256 << 20
COLUMNS = ["time_secs", "used_bytes", "limit_bytes", "reclaimable_bytes", "children_bytes"]
# Bytes a second that a program keeps while it is not killed; from its pauses.
KEPT_A_SECOND = {"slow-leak": 0.3 * (1 << 20) / 0.2}

NATURES = {
    "list-append-leak": (True, "a list that grows by 1 MiB nine times a second; killed"),
    "sawtooth-leak": (True, "60 MiB up and down in each step, 6 MiB of it kept; killed at a peak"),
    "sawtooth-flat": (False, "85 MiB up and down in each step over 90 MiB; fits"),
    "warm-up-plateau": (False, "grows to 80 % more and more slowly, then stays"),
    "page-cache": (False, "400 MiB of files written and read twice; the kernel drops what it must"),
    "copy-on-write": (False, "four forked workers read 40 MiB of objects and so copy them, each page once"),
    "workers-leak": (True, "three forked workers keep 3 MiB a second each; one is killed"),
    "slow-leak": (True, "1.5 MiB a second; the program ends before the limit"),
    "evaluation-bumps": (False, "every few seconds 96 MiB more for two seconds"),
    "checkpoint-spikes": (False, "every three seconds 70 MiB more for half a second"),
    "checkpoint-spikes-leak": (True, "the same spikes over 4 MiB a second that are kept; killed at a spike"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nilo", default="nilo", help="the nilo command (default: the one in PATH)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these programs")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NATURES]
    if unknown:
        return fail(f"there is no program {unknown[0]}", f"there are {', '.join(NATURES)}")
    nilo = shutil.which(arguments.nilo)
    if nilo is None:
        return fail(f"cannot run {arguments.nilo}", "build it with make build and name it with --nilo target/release/nilo")
    if os.geteuid() != 0:
        return fail("making a cgroup needs root", "run this as root, or use the traces that are committed")
    if not (CGROUPS / "memory.limit_in_bytes").exists():
        return fail(f"no cgroup v1 for memory at {CGROUPS}", "run this on a machine that has it, or use the committed traces")
    TRACES.mkdir(parents=True, exist_ok=True)
    labels_path = TRACES / "labels.json"
    labels = {label["trace"]: label for label in json.loads(labels_path.read_text())} if labels_path.exists() else {}
    for name in arguments.names or NATURES:
        label = record(name, os.path.abspath(nilo))
        labels[label["trace"]] = label
        print(f"{name}: {'killed at %.1f s' % label['oom_at_s'] if label['oom_at_s'] else 'lives'}")
        labels_path.write_text(json.dumps([labels[key] for key in sorted(labels)], indent=1) + "\n")
    return 0


def fail(sentence: str, hint: str) -> int:
    print(f"error: {sentence}\nhint: {hint}", file=sys.stderr)
    return 1


def record(name: str, nilo: str) -> dict:
    """Runs one program in a fresh cgroup and writes its trace; returns its label."""
    cgroup = CGROUPS / f"nilo-verdicts-{os.getpid()}"
    cgroup.mkdir()
    try:
        (cgroup / "memory.limit_in_bytes").write_text(str(LIMIT_BYTES))
        with tempfile.TemporaryDirectory() as folder:
            enter = f'echo $$ > {cgroup}/cgroup.procs; exec "$@"'
            command = ["sh", "-c", enter, "sh", sys.executable, str(HERE / "programs.py"), name]
            recorder = [nilo, "run", "--quiet", "--interval", "0.05", "--dir", "runs", "--name", name, "--", *command]
            subprocess.run(recorder, cwd=folder, check=False)
            kills = oom_kills(cgroup)
            export = [nilo, "export", "--dir", "runs", "--long", "--format", "csv", name]
            rows = subprocess.check_output(export, cwd=folder, text=True).splitlines()
    finally:
        cgroup.rmdir()
    return write_trace(name, tables(rows), cgroup.name, kills)


def oom_kills(cgroup: Path) -> int:
    lines = (cgroup / "memory.oom_control").read_text().splitlines()
    return int(dict(line.split() for line in lines)["oom_kill"])


def tables(lines: list[str]) -> dict:
    """Values by table and column, as lists of time and value."""
    found: dict = {}
    for row in csv.DictReader(lines):
        if row["value"]:
            series = found.setdefault(row["table"], {}).setdefault(row["column"], [])
            series.append((float(row["time_seconds"]), float(row["value"])))
    return found


class Held:
    """A series of which each value stands until the next."""

    def __init__(self, points: list[tuple[float, float]]) -> None:
        self.points = points
        self.place = 0

    def at(self, time: float) -> float | None:
        """The value in force; ask in ascending time."""
        while self.place < len(self.points) and self.points[self.place][0] <= time:
            self.place += 1
        return self.points[self.place - 1][1] if self.place else None


def write_trace(name: str, found: dict, cgroup_name: str, kills: int) -> dict:
    cgroup = next(columns for table, columns in found.items() if table.startswith("cgroup:") and table.endswith(cgroup_name))
    ticks = [time for time, _ in found["tree"]["memory_bytes"]]
    begin = cgroup["working_set_bytes"][0][0]
    counted = [time for time, value in cgroup["oom_kills"] if value > 0]
    killed_at = at_the_limit(cgroup, counted[0]) if kills else None
    series = {column: Held(cgroup[column]) for column in ("usage_bytes", "working_set_bytes", "limit_bytes")}
    files = {column: Held(cgroup[column]) for column in ("file_bytes", "shmem_bytes")}
    parent = first_process(found)
    parent_bytes = Held(found[parent]["rss_bytes"])
    processes = Held(found["tree"]["processes"])
    rows = []
    for time in ticks:
        if time < begin or (killed_at is not None and time >= killed_at):
            continue
        used, usage = series["working_set_bytes"].at(time), series["usage_bytes"].at(time)
        file_pages = (files["file_bytes"].at(time) or 0) - (files["shmem_bytes"].at(time) or 0)
        reclaimable = min(max(file_pages - (usage - used), 0), used)
        # A page that parent and workers share is the parent's; what it has not, they have.
        alone = processes.at(time) == 1
        children = 0 if alone else max(used - reclaimable - (parent_bytes.at(time) or 0), 0)
        rows.append([round(time - begin, 4), used, series["limit_bytes"].at(time), reclaimable, children])
    if killed_at is not None:
        rows.append([round(killed_at - begin, 4), LIMIT_BYTES, LIMIT_BYTES, *rows[-1][3:]])
    path = TRACES / f"{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([row[0], *(int(value) for value in row[1:])] for row in rows)
    leak, note = NATURES[name]
    after_end = None
    if killed_at is None and name in KEPT_A_SECOND:
        after_end = round((LIMIT_BYTES - max(row[1] for row in rows)) / KEPT_A_SECOND[name], 1)
    return {
        "trace": path.name,
        "cap_bytes": LIMIT_BYTES,
        "leak": leak,
        "oom_at_s": rows[-1][0] if killed_at is not None else None,
        "limit_reached_after_end_s": after_end,
        "note": note,
    }


def at_the_limit(cgroup: dict, counted_at: float) -> float:
    """When the limit was reached: the counter is read up to a second after the kill, usage at every tick."""
    near = [time for time, usage in cgroup["usage_bytes"] if time <= counted_at and usage > 0.985 * LIMIT_BYTES]
    return near[-1] if near else counted_at


def first_process(found: dict) -> str:
    born = {table: columns["rss_bytes"][0][0] for table, columns in found.items() if table.startswith("process:")}
    return min(born, key=born.get)


if __name__ == "__main__":
    sys.exit(main())
