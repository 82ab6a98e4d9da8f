"""A process that outlives its job: what it begins then is a run of its own, with its own memory."""

import sys
import textwrap

import pytest
from conftest import MIB, wait_until
from package import run_program

import nilometer

# Waits until its job is over, and then trains.
ORPHAN = """
    import pathlib, signal, time
    signal.alarm(120)  # nobody waits for it: it must not outlive a test that fails
    while not pathlib.Path("over").exists():
        time.sleep(0.01)
    import nilometer
    with nilometer.init(name="orphan") as run:
        held = bytearray(48 << 20)
        held[::4096] = b"x" * len(held[::4096])
        run.log({"loss": 1.0}, step=0)
    pathlib.Path("done").write_text("")
"""
PARENT = """
    import os, signal, subprocess, sys, nilometer
    nilometer.init(name="par")
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen([sys.executable, "orphan.py"], start_new_session=True, **streams)
    if sys.argv[1:] == ["killed"]:
        os.kill(os.getpid(), signal.SIGKILL)
"""


# The same without a run of its own: it only logs.
LOGGER = """
    import pathlib, signal, time
    signal.alarm(120)  # nobody waits for it: it must not outlive a test that fails
    while not pathlib.Path("over").exists():
        time.sleep(0.01)
    import nilometer
    held = bytearray(48 << 20)
    held[::4096] = b"x" * len(held[::4096])
    for step in range(3):
        nilometer.log({"loss": 1.0 / (step + 1)}, step=step)
    pathlib.Path("logged").write_text(str(nilometer.run.current_run().path))
    while nilometer.run.current_run().memory() is None:
        time.sleep(0.01)
    pathlib.Path("done").write_text("")
"""


def start_in_background(nilo, folder, how):
    if how == "nilo run":
        line = f"{sys.executable} orphan.py </dev/null >/dev/null 2>&1 &"
        assert nilo("run", "--name", "par", "--", "sh", "-c", line).returncode == 0
    else:
        run_program(PARENT, folder, how, expect=-9 if how == "killed" else 0)


@pytest.mark.parametrize("how", ["ended", "killed", "nilo run"])
def test_a_run_that_begins_after_the_end_of_its_job_is_its_own(nilo, folder, how):
    (folder / "orphan.py").write_text(textwrap.dedent(ORPHAN))
    try:
        start_in_background(nilo, folder, how)
    finally:
        (folder / "over").write_text("")
    wait_until((folder / "done").exists, "the orphan's end")
    runs = {run["name"]: run for run in nilo.runs()}
    assert sorted(runs) == ["orphan", "par"]
    assert runs["orphan"].get("parent") is None
    told = nilo.show("orphan")
    assert told["started_by_job"] == runs["par"]["run"]
    assert f"{runs['par']['run']}, which had ended" in nilo("show", "orphan").stdout
    assert nilo.show("orphan")["memory"]["peak_bytes"] > 48 * MIB
    assert nilometer.read_run("orphan").series("loss").value.tolist() == [1.0]


@pytest.mark.parametrize("how", ["ended", "killed", "nilo run"])
def test_what_only_logs_after_the_end_of_its_job_has_a_run_of_its_own(nilo, folder, how):
    (folder / "orphan.py").write_text(textwrap.dedent(LOGGER))
    try:
        start_in_background(nilo, folder, how)
    finally:
        (folder / "over").write_text("")
    wait_until((folder / "done").exists, "the orphan's end")
    job = nilometer.read_run("par", dir=folder / ".nilo")
    assert job.metrics == []
    run = nilometer.read_run((folder / "logged").read_text())
    assert run.path.parent == job.path.parent and run.path != job.path
    wait_until(lambda: "ending" in run.description, "the orphan's ending")
    assert run.series("loss").step.tolist() == [0, 1, 2]
    told = nilo.show(run.path)
    assert told["started_by_job"] == job.path.name and told["memory"]["peak_bytes"] > 48 * MIB


WORKER = """
    import multiprocessing, pathlib, signal, time, nilometer

    if __name__ == "__main__":
        signal.alarm(120)
        # A training whose job has ended still has its workers.
        run = nilometer.init(name="training")
        pathlib.Path("begun").write_text("")
        while not pathlib.Path("over").exists():
            time.sleep(0.01)
        worker = multiprocessing.get_context("spawn").Process(target=nilometer.log, args=({"worker": 1.0}, 0))
        worker.start()
        worker.join()
        pathlib.Path("done").write_text("")
"""


def test_workers_of_a_training_that_outlived_its_job_add_to_it(nilo, folder):
    (folder / "orphan.py").write_text(textwrap.dedent(WORKER))
    try:
        line = f"{sys.executable} orphan.py </dev/null >/dev/null 2>&1 & while [ ! -e begun ]; do sleep 0.01; done"
        assert nilo("run", "--name", "par", "--", "sh", "-c", line).returncode == 0
    finally:
        (folder / "over").write_text("")
    wait_until((folder / "done").exists, "the orphan's end")
    assert nilometer.read_run("training").metrics == ["worker"]
    assert len(nilo.runs()) == 2
