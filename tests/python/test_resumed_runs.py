"""A run that continues another one names it, and is shown and drawn with it."""

import json
import re
import sys

import pytest
from package import run_program

import nilometer


def test_a_run_that_is_resumed_while_it_runs_is_told_of(nilo, folder):
    job = nilometer.init(name="job", memory=False)
    run_program("import nilometer; nilometer.init(name='exp')", folder, NILO_RUN_DIR=str(job.path))
    job.finish()
    # Newer than the one inside the job.
    first = nilometer.init(name="exp", memory=False)
    code = "import nilometer; print(nilometer.init(name='exp', memory=False, resume=True).resumes)"
    done = run_program(code, folder)
    assert done.stdout.split() == [first.id]
    assert done.stderr.count(f"NilometerWarning: resume: {first.id} is still running\n") == 1
    first.finish()


def test_a_resumed_run_names_the_one_before(nilo, folder):
    with nilometer.init(name="exp", memory=False) as first:
        first.log({"loss": 1.0}, step=0)
    with nilometer.init(name="exp", memory=False, resume=True) as second:
        second.log({"loss": 0.5}, step=1)
    assert second.path != first.path
    assert nilo.show(second.id)["resumes"] == first.id
    shown = nilo("show", second.id).stdout
    assert f"Resumed From:         {first.id}\n" in shown
    assert f"  earlier steps are in {first.id}; `nilo plot -x step {second.id}` draws them too\n" in shown
    assert [listed["resumes"] for listed in nilo.runs()] == [None, first.id]
    listed = nilo("runs").stdout.splitlines()
    assert "RESUMED FROM" in listed[0] and first.id in listed[2].partition(second.id)[2]
    compared = nilo("compare", first.id, second.id).stdout
    assert f"{second.id} was resumed from {first.id}, which has its earlier steps\n" in compared
    assert json.loads(nilo("compare", first.id, second.id, "--format", "json").stdout)["runs"][1]["resumes"] == first.id
    with pytest.raises(FileNotFoundError):
        nilometer.init(resume="never-was")
    with pytest.raises(ValueError, match="name"):
        nilometer.init(resume=True)


def test_a_job_whose_only_run_is_resumed_says_so(nilo, folder):
    code = "import nilometer; nilometer.init(name='exp', resume='last').log({'loss': 0.5}, step=1)"
    with nilometer.init(name="exp", memory=False) as first:
        first.log({"loss": 1.0}, step=0)
    assert nilo("run", "-q", "--", sys.executable, "-c", code.replace("'last'", repr(first.id))).returncode == 0
    assert nilo.show()["resumes"] == first.id
    assert nilo("runs").stdout.count("RESUMED FROM") == 1
    # The job and the run in it.
    assert sum(first.id in line for line in nilo("runs").stdout.splitlines()[2:]) == 2


def test_a_resumed_run_is_drawn_with_the_one_before_over_steps(nilo, folder):
    for name, steps in [("exp", range(40)), ("exp", range(30, 60)), ("exp", range(55, 100))]:
        with nilometer.init(name=name, memory=False, resume=steps[0] > 0) as run:
            for step in steps:
                run.log({"loss": 1000 - step if step < 30 else step}, step=step)
    assert nilo("plot", "exp", "-x", "step", "-o", "chain.svg").returncode == 0
    drawn = (folder / "chain.svg").read_text()
    # The smallest loss is at step 30, the largest at step 0.
    assert "last 99, min 30, max 1000" in drawn
    labels = re.findall(r">(\d+)</text>", drawn)
    assert "0" in labels and "20" in labels
    assert nilo("plot", "exp", "-o", "alone.svg").returncode == 0
    assert "last 99, min 55, max 99" in (folder / "alone.svg").read_text()
