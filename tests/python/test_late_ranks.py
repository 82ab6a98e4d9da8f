"""A rank that logs on after the one that began the run has ended: the run lasts until its last point."""

import json
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import NILO
from package import QUIET

import nilometer

RANK = """
    import os, pathlib, time, nilometer

    def wait_for(condition):
        while not condition():
            time.sleep(0.01)

    rank = int(os.environ["RANK"])
    begun, over = pathlib.Path("begun"), pathlib.Path("over")
    if rank == 1:
        wait_for(begun.exists)
    # Without memory nobody takes over: what the first rank wrote down stays.
    run = nilometer.init(name="ranks", memory=False)
    run.log({"loss": 1.0}, step=0)
    begun.touch()
    if rank == 0:
        wait_for(over.exists)
    else:
        over.touch()
        wait_for(lambda: nilometer.read_run(run.path).description.get("ending"))
        job = nilometer.Run.job_of(run.path)
        readings = lambda: len(nilometer.read_run(job).memory().value)
        before = readings()
        if job != run.path:
            # The job's recorder goes on.
            wait_for(lambda: readings() > before + 2)
        for step in range(1, 4):
            run.log({"loss": 1.0 / (step + 1)}, step=step)
    run.finish()
"""


@pytest.mark.parametrize("below", [True, False])
def test_a_run_lasts_until_the_last_point_of_any_rank(nilo, folder, below):
    (folder / "rank.py").write_text(textwrap.dedent(RANK))
    launch = " ".join(f"RANK={rank} WORLD_SIZE=2 {sys.executable} rank.py &" for rank in range(2))
    command = ["sh", "-c", f"{launch} wait"]
    recorded = [NILO, "run", "-q", "--interval", "0.02", "--", *command]
    done = subprocess.run(recorded if below else command, env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    run = nilometer.read_run("ranks", dir=folder / ".nilo")
    first_ended = run.description["ending"]["time_nanos"] / 1e9
    points = run.series("loss", rank=1)
    assert points.step.tolist() == [0, 1, 2, 3] and points.seconds[1] > first_ended
    assert run.summary()["duration_secs"] >= points.seconds[-1]
    exported = json.loads(nilo("export", run.path, "--format", "json").stdout)
    (ranked,) = [table for table in exported["tables"] if table.get("rank") == 1]
    assert len(ranked["times_nanos"]) == 4
    if below:
        # The job's memory is the run's until then.
        assert run.memory().seconds[-1] > first_ended
    listed = [listed["duration_secs"] for listed in nilo.runs() if listed["name"] == "ranks"]
    assert min(listed) >= points.seconds[-1]
    lasted = run.summary()["duration_secs"]
    assert exported["run"]["ending"]["time_nanos"] / 1e9 == lasted
    exported = json.loads(run.export(folder / "run.json").read_text())
    assert exported["run"]["ending"]["time_nanos"] / 1e9 == lasted
    # In the words of `nilo runs`.
    pictures = [nilo("plot", run.path, "-x", axis, "-o", "-").stdout for axis in ("time", "step")]
    for picture in [*pictures, run.svg()]:
        (told,) = re.findall(r"exited 0 after ([0-9.]+ m?s)", picture)
        assert told in nilo("runs").stdout and told in nilo("compare", run.path, run.path).stdout
