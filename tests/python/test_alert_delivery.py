"""The process that runs alert commands: nothing that it started is left when it is over."""

import os
import signal
import subprocess
import time

import pytest
from conftest import MIB, python, wait_until

LIMIT = 256
HOLD = "import os, time; open('job.pid', 'w').write(str(os.getpid())); held = b'x' * (240 << 20); time.sleep({seconds})"

# Ignores TERM, and so do its child and a grandchild in a session of its own.
STUBBORN = """
trap '' TERM
setsid sh -c "trap '' TERM; echo \\$\\$ >> started; while :; do sleep 1; done" &
sh -c "trap '' TERM; echo \\$\\$ >> started; while :; do sleep 1; done" &
echo $$ >> started
while :; do sleep 1; done
"""


@pytest.fixture
def limited(cgroup):
    """A cgroup in which nilo, the job and the alert commands are; whatever a failing test left in it is killed."""
    cgroup.limit(LIMIT * MIB)
    yield cgroup
    for _ in range(100):
        left = members(cgroup)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if not left:
            break
        time.sleep(0.05)


def members(cgroup):
    return [int(pid) for pid in cgroup.procs.read_text().split()]


def started(nilo):
    try:
        return (nilo.folder / "started").read_text().split()
    except FileNotFoundError:
        return []


def record(nilo, limited, command, seconds):
    """Records a job that raises two alerts at once."""
    job = python(HOLD.format(seconds=seconds))
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return nilo.start("run", "--on-alert", command, "--", *job, preexec_fn=limited.enter, **silent)


def raised(nilo):
    return [alert["kind"] for alert in nilo.show()["alerts"] if alert["resource"] == "job memory"]


@pytest.mark.parametrize("ending", ["normally", "by TERM", "by KILL"])
def test_commands_that_ignore_term_are_gone_after_nilo(nilo, limited, ending):
    recording = record(nilo, limited, STUBBORN, 4 if ending == "normally" else 120)
    wait_until(lambda: len(started(nilo)) >= 3, "the first alert command to start")
    wait_until(lambda: "memory-critical" in raised(nilo), "the second alert")
    if ending == "by TERM":
        recording.send_signal(signal.SIGTERM)
    if ending == "by KILL":
        recording.kill()
    recording.wait(timeout=120)
    if ending == "by KILL":
        # The job is the user's: it goes on without the recorder.
        job = int((nilo.folder / "job.pid").read_text())
        assert job in members(limited)
        os.kill(job, signal.SIGKILL)
    wait_until(lambda: not members(limited), "every process to be gone", seconds=90)


def test_a_delivery_process_that_is_told_to_end_ends_its_commands(nilo, limited):
    recording = record(nilo, limited, STUBBORN, 120)
    wait_until(lambda: len(started(nilo)) >= 3, "the first alert command to start")
    job = int((nilo.folder / "job.pid").read_text())
    delivery = [pid for pid in members(limited) if name(pid) == "nilo-alerts"]
    assert len(delivery) == 1
    os.kill(delivery[0], signal.SIGTERM)
    # The recorder keeps one more process of its own, which watches for signals to the group.
    others = lambda: {pid for pid in members(limited) if name(pid) != "signal-sentinel"}  # noqa: E731
    wait_until(lambda: others() <= {recording.pid, job}, "the commands to be gone", seconds=90)
    recording.send_signal(signal.SIGTERM)
    recording.wait(timeout=120)


def test_what_a_command_leaves_in_the_background_may_finish(nilo, limited):
    """It has the time that a command has after the end, and no more."""
    command = "(sleep 3; echo done >> finished) & (while :; do sleep 1; done) & :"
    recording = record(nilo, limited, command, 2)
    recording.wait(timeout=120)
    wait_until(lambda: not members(limited), "every process to be gone", seconds=90)
    assert (nilo.folder / "finished").read_text().splitlines() == ["done"] * 2


def name(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return None
