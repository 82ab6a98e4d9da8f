"""Ranks of a run below `nilo run`: the run lasts until the last of them has left it, whether that one logs or not."""

import re
import subprocess
import sys
import textwrap

import pytest
from conftest import MIB, NILO
from package import QUIET

import nilometer

RANK = """
    import os, pathlib, signal, sys, time, nilometer

    def wait_for(condition):
        while not condition():
            time.sleep(0.01)

    rank, how = int(os.environ["RANK"]), sys.argv[1]
    if rank:
        wait_for(pathlib.Path("begun").exists)
    run = nilometer.init(name="ranks")
    pathlib.Path("begun").touch()
    run.log({"loss": 1.0}, step=0)
    if rank == 0:
        wait_for(pathlib.Path("logged").exists)
        sys.exit()
    pathlib.Path("logged").touch()
    wait_for(lambda: nilometer.read_run(run.path).description.get("ending"))
    job = nilometer.read_run(nilometer.Run.job_of(run.path))

    def grow(mib):
        level = lambda: nilometer.read_run(job.path).memory().value[-1]
        before = level()
        held = bytearray(mib << 20)
        held[::4096] = b"x" * len(held[::4096])
        wait_for(lambda: level() > before + (mib - 10 << 20))
        return held

    kept = grow(300)
    if how == "finished":
        run.finish()
        kept = [kept, grow(400)]
    status = open("/proc/self/status").read()
    pathlib.Path("peak").write_text(status.split("VmHWM:")[1].split()[0])
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["ended", "killed", "finished"])
def test_a_run_in_a_job_lasts_until_its_last_rank_left(nilo, folder, how):
    (folder / "rank.py").write_text(textwrap.dedent(RANK))
    launch = " ".join(f"RANK={rank} LOCAL_RANK={rank} WORLD_SIZE=2 {sys.executable} rank.py {how} &" for rank in range(2))
    command = [NILO, "run", "-q", "--interval", "0.02", "--name", "job", "--", "sh", "-c", f"{launch} wait"]
    done = subprocess.run(command, env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and not done.stderr, done.stderr
    run = nilometer.read_run("ranks", dir=folder / ".nilo")
    told = run.summary()
    truth = int((folder / "peak").read_text()) << 10
    # What the rank took after it had left the run is none of the run's memory.
    expected = truth - 400 * MIB if how == "finished" else truth
    assert told["memory"]["peak_bytes"] == pytest.approx(expected, abs=60 * MIB)
    (listed,) = [line for line in nilo.runs() if line["name"] == "ranks"]
    (job,) = [line for line in nilo.runs() if line["name"] == "job"]
    assert listed["duration_secs"] == told["duration_secs"] >= run.memory().seconds[-1]
    assert run.description["ending"]["time_nanos"] / 1e9 < told["duration_secs"] <= job["duration_secs"]
    assert listed["peak_bytes"] == told["memory"]["peak_bytes"]
    assert not [finding for finding in told["findings"] if finding["kind"] == "memory-ends-early"]
    (after,) = re.findall(r"exited 0 after ([0-9.]+ m?s)", nilo("plot", run.path, "-o", "-").stdout)
    assert after in nilo("runs").stdout
