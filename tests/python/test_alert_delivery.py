"""The process that runs alert commands: nothing that it started is left when it is over."""

import json
import os
import re
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


def commands(cgroup):
    """What is in the cgroup without the process that delivers, which may take a moment to be gone."""
    return [pid for pid in members(cgroup) if name(pid) not in ("nilo-alerts", None)]


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
    if ending != "by KILL":
        assert commands(limited) == [], "nothing that was started for an alert is left when nilo returns"
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


def test_a_command_that_sleeps_is_ended_before_nilo_returns(nilo, limited):
    recording = record(nilo, limited, "echo $$ >> started; exec sleep 600", 3)
    recording.wait(timeout=120)
    assert started(nilo) and commands(limited) == []
    shown = nilo.show()
    reasons = {missed["reason"] for missed in shown["alerts_not_delivered"]}
    assert "the alert command took too long and was killed" in reasons
    assert undelivered(shown) == len(shown["alerts"])


def test_what_a_command_leaves_in_the_background_may_finish(nilo, limited):
    """It has the time that a command has after the end, and no more."""
    command = "(sleep 3; echo done >> finished) & (while :; do sleep 1; done) & :"
    recording = record(nilo, limited, command, 2)
    recording.wait(timeout=120)
    assert commands(limited) == []
    assert (nilo.folder / "finished").read_text().splitlines() == ["done"] * 2


def undelivered(summary):
    return sum(missed["alerts"] for missed in summary["alerts_not_delivered"])


def test_alerts_behind_a_busy_command_are_counted_at_the_end(nilo, limited):
    """The first command never ends; what queues behind it cannot be delivered before the end."""
    command = "cat >> got; while :; do sleep 0.1; done"
    job = python(HOLD.format(seconds=4))
    recording = nilo.start("run", "--json", "summary.json", "--on-alert", command, "--", *job, preexec_fn=limited.enter)
    _, said = recording.communicate(timeout=120)
    summary = json.loads((nilo.folder / "summary.json").read_text())
    begun = len((nilo.folder / "got").read_text().splitlines())
    assert begun == 1 and len(summary["alerts"]) > 1
    missed = len(summary["alerts"]) - begun
    ended = {"alerts": 1, "reason": "the alert command took too long and was killed"}
    busy = {"alerts": missed, "reason": "the alert command was still busy when the recording ended"}
    assert summary["alerts_not_delivered"] == [ended, busy]
    assert re.search(rf"^{missed} alerts? (was|were) not delivered: the alert command was still busy when the recording ended$", said, re.MULTILINE), said
    assert commands(limited) == []
    assert nilo.show()["alerts_not_delivered"] == summary["alerts_not_delivered"]


def test_alerts_behind_a_slow_command_are_delivered_after_the_end(nilo, limited):
    """Each takes a second; the recorder waits for those that are queued."""
    recording = record(nilo, limited, "sleep 1; cat >> got", 3)
    recording.wait(timeout=120)
    wait_until(lambda: not members(limited), "every process to be gone", seconds=90)
    shown = nilo.show()
    assert len((nilo.folder / "got").read_text().splitlines()) == len(shown["alerts"]) > 1
    assert shown["alerts_not_delivered"] == []


def test_alerts_whose_command_fails_are_counted(nilo, limited):
    recording = record(nilo, limited, "exit 3", 3)
    recording.wait(timeout=120)
    wait_until(lambda: not members(limited), "every process to be gone", seconds=90)
    shown = nilo.show()
    assert undelivered(shown) == len(shown["alerts"]) > 1
    assert all("exit status: 3" in missed["reason"] for missed in shown["alerts_not_delivered"])


def name(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return None
