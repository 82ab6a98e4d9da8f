"""How a run ended, how long it took and what it needed: the same in `runs`, `show`, `compare`, `plot`, `export` and Python."""

import json
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import NILO
from package import QUIET

import nilometer

TRAINING = """
    import mmap, nilometer, os, pathlib, sys, time
    name, how = sys.argv[1:3]
    rank = int(os.environ.get("RANK", "0"))
    begun = [pathlib.Path(f"begun-{name}-{one}") for one in range(int(os.environ.get("WORLD_SIZE", "1")))]
    # The first rank begins the run, and none ends before all are in it: who came after that would be another launch.
    while rank and not begun[0].exists():
        time.sleep(0.01)
    run = nilometer.init(name=name, interval=0.02, resume=len(sys.argv) > 3)
    begun[rank].touch()
    while not all(file.exists() for file in begun):
        time.sleep(0.01)
    held = bytearray((30 + 20 * rank) << 20)
    held[::4096] = b"x" * len(held[::4096])
    if how == "maps":
        # As two np.memmap of one file: the kernel counts each page twice.
        file = open("data", "w+b")
        file.truncate(64 << 20)
        maps = [mmap.mmap(file.fileno(), 64 << 20, prot=mmap.PROT_READ) for _ in range(2)]
        for mapped in maps:
            assert not any(mapped[at] for at in range(0, 64 << 20, 4096))
    if how == "spikes":
        # Between two samples: only the kernel's mark of the process tells.
        time.sleep(0.1)
        spike = b"x" * (90 << 20)
        del spike
    for step in range(5):
        run.log({"loss": 1.0 / (step + 1)}, step=step)
    # Its own recorder, that of another rank or that of the job has seen it.
    while not len(nilometer.read_run(run.path).memory().value):
        time.sleep(0.01)
    if how in ("maps", "spikes"):
        # Until what it mapped was measured, and its mark was read.
        time.sleep(1.5)
    if how == "fails" and rank == int(os.environ.get("WORLD_SIZE", "1")) - 1:
        sys.exit(3)
    if how == "killed":
        os.kill(os.getpid(), 9)
"""
TRAIN = f"{sys.executable} train.py"
BOTH = "RANK=0 WORLD_SIZE=2 {train} & RANK=1 WORLD_SIZE=2 {train} & wait"
SHAPES = {
    "a program": f"{TRAIN} a ends",
    "a program that fails": f"{TRAIN} a fails",
    "a program that is killed": f"{TRAIN} a killed",
    "a program that maps a file twice": f"{TRAIN} a maps",
    "a program with a spike": f"{TRAIN} a spikes",
    "ranks": BOTH.format(train=f"{TRAIN} a ends"),
    "a rank that fails": BOTH.format(train=f"{TRAIN} a fails"),
    "a sweep": f"{TRAIN} a ends; {TRAIN} b fails; {TRAIN} c killed",
    "a resumed run": f"{TRAIN} a killed; {TRAIN} a ends resumed",
}


def figures(told):
    return {key: told.get(key) for key in ("status", "exit_code", "duration_secs", "peak_bytes")}


def in_words(seconds):
    """As pictures write it."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_view_has_the_same_figures_of_a_run(nilo, folder, shape, below):
    (folder / "train.py").write_text(textwrap.dedent(TRAINING))
    command = ["sh", "-c", SHAPES[shape]]
    recorded = [NILO, "run", "-q", "--interval", "0.02", "--", *command]
    subprocess.run(recorded if below else command, env=QUIET, capture_output=True, timeout=100)
    listed = nilo.runs()
    trainings = {"a sweep": 3, "a resumed run": 2}.get(shape, 1)
    assert len(listed) == trainings + below
    for line in listed:
        path = folder / ".nilo" / (f"{line['parent']}/runs/" if line["parent"] else "") / line["run"]
        expected = figures(line)
        shown = nilo.show(path)
        assert figures(shown | {"peak_bytes": shown["memory"]["peak_bytes"]}) == expected
        run = nilometer.read_run(path)
        told = run.summary()
        assert figures(told | {"peak_bytes": told["memory"]["peak_bytes"]}) == expected
        requested = json.loads(nilo("request", path, "--format", "json").stdout)["runs"]
        # What it takes for the need may be more than the peak, never less.
        assert [one["peak_bytes"] >= line["peak_bytes"] for one in requested] == [True]
        compared = json.loads(nilo("compare", path, path, "--format", "json").stdout)["runs"]
        assert [figures(one) for one in compared] == [expected, expected]
        exports = [nilo("export", path, "--format", "json").stdout, run.export(folder / f"{line['run']}.json").read_text()]
        for exported in map(json.loads, exports):
            ending = exported["run"]["ending"]
            assert (ending["status"], ending.get("exit_code")) == (line["status"], line["exit_code"])
            assert ending["time_nanos"] / 1e9 == line["duration_secs"]
            assert len([table for table in exported["tables"] if table["subject"]["type"] == "tree"]) == 1
        # Nobody invents a code that is not known.
        assert (line["status"] == "exited") == (line["exit_code"] is not None), line
        status = f"exited {line['exit_code']}" if line["exit_code"] is not None else line["status"]
        words = f"{status} after {in_words(line['duration_secs'])}"
        pictures = [nilo("plot", path, "-x", axis, "-o", "-").stdout for axis in ("time", "step") if axis == "time" or line["name"]]
        for picture in [*pictures, run.svg(width=2000)]:
            assert re.search(r"(\w+ \d+|\w+) after [\d.]+ m?s", picture).group() == words
    if shape == "a program that maps a file twice" and below:
        # Its own 30 MiB, the file and the interpreter.
        assert [94 << 20 < line["peak_bytes"] < 148 << 20 for line in listed] == [True, True], listed
    if shape == "a program with a spike":
        assert all(line["peak_bytes"] > 120 << 20 for line in listed), listed
    by_name = {line["name"]: line["exit_code"] for line in listed if not below or line["parent"]}
    failing = {"a program that fails": 3, "a rank that fails": 3, "a program that is killed": None}.get(shape, 0)
    assert by_name["a"] == failing
    if shape == "a sweep":
        assert (by_name["b"], by_name["c"]) == (3, None)


BRIEF = """
    import nilometer, time
    time.sleep(0.35)
    for mib in (200, 50, 300):
        with nilometer.init(name=f"r{mib}") as run:
            held = bytearray(b"x") * (mib << 20)
            time.sleep(0.02)
            run.log({"a": 1})
            del held
        time.sleep(0.05)
"""


def test_runs_inside_a_job_that_no_sample_fell_into_have_peaks_everywhere(nilo, folder):
    (folder / "brief.py").write_text(textwrap.dedent(BRIEF))
    nilo("run", "-q", "--interval", "100", "--", sys.executable, "brief.py")
    inside = {line["name"]: line for line in nilo.runs() if line["parent"]}
    assert list(inside) == ["r200", "r50", "r300"]
    for name, line in inside.items():
        path = folder / ".nilo" / line["parent"] / "runs" / line["run"]
        memory = nilo.show(path)["memory"]
        assert memory["peak_bytes"] == line["peak_bytes"], name
        assert nilometer.read_run(path).summary()["memory"]["peak_bytes"] == line["peak_bytes"]
        compared = json.loads(nilo("compare", path, path, "--format", "json").stdout)["runs"]
        assert [one["peak_bytes"] for one in compared] == [line["peak_bytes"]] * 2
    for mib in (200, 300):
        assert mib << 20 < inside[f"r{mib}"]["peak_bytes"] < (mib + 60) << 20, inside
    # The mark of the process stood above it already: what was resident as it began and ended is known.
    assert 5 << 20 < inside["r50"]["peak_bytes"] < 200 << 20, inside
