"""A process that outlives its job: what it begins then is a run of its own, with its own memory."""

import sys
import textwrap

import pytest
from conftest import MIB, wait_until
from package import run_program

import nilometer

# Waits until its job is over, and then trains.
ORPHAN = """
    import pathlib, time
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
    assert nilo.show("orphan")["memory"]["peak_bytes"] > 48 * MIB
    assert nilometer.read_run("orphan").series("loss").value.tolist() == [1.0]
