"""One judge: a run and the CSV that comes of it get the same answer."""

import csv
import json
import sys

import pytest
from conftest import MIB

NO_GPU = {"NILO_NVML": ""}

# Grows, gives its memory back as a program does that ends, and ends.
PROGRAM = """
import os, signal, sys, time
held = []
for step in range(240):
    held.append(b"x" * (2 << 20))
    time.sleep(0.05)
for step in range(16):
    del held[-12:]
    time.sleep(0.01)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
os._exit(0)
"""


@pytest.fixture(params=["exited", "killed"])
def recorded(request, nilo, cgroup):
    cgroup.limit(2048 * MIB)
    options = ["--quiet", "--interval", "0.02", "--memory-log", "log.csv"]
    command = [sys.executable, "-c", PROGRAM, request.param]
    nilo("run", *options, "--", *command, preexec_fn=cgroup.enter, extra_env=NO_GPU)
    for name, more in [("wide.csv", []), ("long.csv", ["--long"])]:
        assert nilo("export", "last", *more, "-o", name).returncode == 0
    assert nilo.show()["status"] == request.param
    return nilo


FILES = {"wide.csv": "memory_mb", "long.csv": "tree memory_bytes", "log.csv": "memory_mb"}


def answers(nilo, verb):
    """What is said of the job's memory: of the run, and of each file that came of it."""
    of_run = nilo(verb, "last", "--format", "json", extra_env=NO_GPU)
    found = [("job memory", of_run)]
    for file, name in FILES.items():
        limit = ["--limit", "2048MiB"]
        found.append((name, nilo(verb, "--csv", file, *limit, "--format", "json", extra_env=NO_GPU)))
    for name, result in found:
        resources = json.loads(result.stdout)["resources"]
        (resource,) = [one for one in resources if one["name"] == name]
        yield result.returncode, resource


def test_the_csv_of_a_run_is_judged_as_the_run_is(recorded):
    with open(recorded.folder / "wide.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    marked = [row for row in rows if row["ending"] == "1"]
    assert marked and marked == rows[-len(marked):], "the rows of the end are told apart"
    judged = float(rows[-len(marked) - 1]["memory_mb"])
    # The very last sample may have found a process without memory.
    last = [row["memory_mb"] for row in marked if row["memory_mb"]][-1]
    assert judged > 2 * float(last)

    (status, run), *files = answers(recorded, "leak")
    assert (status, run["kind"]) == (1, "leak")
    for of_file, resource in files:
        assert (of_file, resource["kind"]) == (status, run["kind"])
        assert resource["used_bytes"] / MIB == pytest.approx(judged, abs=0.01)
        assert resource["growth_bytes_per_sec"] == pytest.approx(run["growth_bytes_per_sec"], rel=0.05)

    (status, run), *files = answers(recorded, "oom")
    for of_file, resource in files:
        assert (of_file, resource["level"], resource["warned"]) == (status, run["level"], run["warned"])
        assert resource["used_bytes"] / MIB == pytest.approx(judged, abs=0.01)


def test_an_old_export_is_read_as_before_and_leaves_out_the_end_too(recorded):
    with open(recorded.folder / "wide.csv", newline="") as file:
        rows = [row[:-1] for row in csv.reader(file)]
    with open(recorded.folder / "old.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    old, new = (
        json.loads(recorded("leak", "--csv", name, "--format", "json").stdout)["resources"]
        for name in ("old.csv", "wide.csv")
    )
    assert old == new


def test_the_end_of_a_file_of_another_tool_is_judged(nilo):
    rows = [f"{tenth / 10},{100 + tenth}" for tenth in range(300)] + ["30.0,50", "30.1,10"]
    (nilo.folder / "other.csv").write_text("\n".join(["t_s,rss_mb", *rows]) + "\n")
    (resource,) = json.loads(nilo("leak", "--csv", "other.csv", "--format", "json").stdout)["resources"]
    assert resource["used_bytes"] == 10 * MIB
