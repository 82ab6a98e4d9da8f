"""`nilo run --wait-all`: nobody of the job is left when it returns, however it left its parents."""

import os
import signal
import subprocess

import pytest
from conftest import MIB, NILO, python, unavailable, wait_until

# Each writes the PID of its last process into the file `pid` before the command ends, and that process writes `done` as its last act.
LAST_ACT = "time.sleep(0.4); open('done', 'w').close(); os._exit(0)"

DOUBLE_FORK = f"""
import os, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open('pid', 'w').write(str(os.getpid()))
        os.write(writer, b'x')
        {LAST_ACT}
    os._exit(0)
os.read(reader, 1)
os._exit(3)
"""

FORKS_LATER = f"""
import os, time
reader, writer = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(writer, b'x')
        time.sleep(0.2)
        # By now the command has ended; the child outlives its parent once more.
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                open('pid', 'w').write(str(os.getpid()))
                {LAST_ACT}
            os._exit(0)
        os._exit(0)
    os._exit(0)
os.read(reader, 1)
os._exit(3)
"""

BACKGROUND = "(echo $BASHPID > pid; sleep 0.4; touch done) & exit 3"
QUICK_BACKGROUND = "setsid sh -c 'echo $$ > pid; sleep 0.4; touch done' & exit 3"

JOBS = {
    "a daemon that forked twice": python(DOUBLE_FORK),
    "a daemon that forks later": python(FORKS_LATER),
    "a background child of a shell": ["bash", "-c", BACKGROUND],
    "a background child in a session of its own": ["bash", "-c", QUICK_BACKGROUND],
}


@pytest.mark.parametrize("name", JOBS)
def test_the_last_process_has_ended_when_nilo_returns(nilo, load, name):
    """The slow interval means that most of these processes are never seen by a sample before the command ends."""
    pid, done = nilo.folder / "pid", nilo.folder / "done"
    for attempt in range(20):
        interval = ["0.05", "1"][attempt % 2]
        result = nilo("run", "--quiet", "--wait-all", "--interval", interval, "--", *JOBS[name])
        assert result.returncode == 3
        assert done.exists(), attempt
        wait_until(lambda: not os.path.exists(f"/proc/{pid.read_text().strip()}"), "the last process to be gone", seconds=5)
        assert nilo.show()["left_running"] == []
        pid.unlink()
        done.unlink()


def test_what_the_daemon_does_is_recorded(nilo):
    code = "import os,time\nif os.fork()==0:\n  os.setsid()\n  if os.fork()==0:\n    time.sleep(.5);x=bytearray(80<<20);time.sleep(1);os._exit(0)\n  os._exit(0)\nos.wait()"
    nilo("run", "--quiet", "--wait-all", "--interval", "0.05", "--", *python(code))
    assert nilo.show()["memory"]["peak_bytes"] > 80 * MIB


@pytest.mark.parametrize("alerts", [["--on-alert", "cat"], ["--no-alerts"]])
def test_our_own_helpers_are_not_waited_for(nilo, alerts):
    result = nilo("run", "--quiet", "--wait-all", *alerts, "--", "sh", "-c", "exit 5", timeout=60)
    assert result.returncode == 5


@pytest.mark.parametrize("alerts", [["--on-alert", "cat"], ["--no-alerts"]])
def test_children_that_a_shell_had_before_it_became_nilo_are_not_waited_for(nilo, job, alerts):
    """`exec nilo run ... > >(tee log)` leaves us with a child that waits for our end."""
    script = f"sleep 600 & echo $! > other; exec '{NILO}' run --quiet --wait-all {' '.join(alerts)} -- sh -c '(sleep 0.5; touch done) & exit 5'"
    process = job("bash", "-c", script, cwd=nilo.folder, env=nilo.environment)
    assert process.wait(60) == 5
    assert (nilo.folder / "done").exists()


@pytest.mark.parametrize("alerts", [["--on-alert", "cat"], ["--no-alerts"]])
def test_the_first_process_of_a_container_waits_for_the_job_only(nilo, alerts):
    """Every orphan of the container falls to it, our own helpers among them; signals are forwarded and told by the status."""
    container = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if subprocess.run([*container, "true"], capture_output=True).returncode != 0:
        unavailable("cannot make a PID namespace")

    def run(script):
        command = [*container, NILO, "run", "--quiet", "--wait-all", *alerts, "--", "sh", "-c", script]
        return subprocess.run(command, cwd=nilo.folder, env=nilo.environment, capture_output=True, text=True, timeout=60)

    result = run("(sleep 0.5; echo later) & exit 5")
    assert (result.returncode, result.stdout, result.stderr) == (5, "later\n", "")
    result = run("trap 'echo told; exit 6' TERM; kill -TERM 1; while :; do sleep 0.1; done")
    assert (result.returncode, result.stdout, result.stderr) == (6, "told\n", "")
    assert run("kill -TERM $$").returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_the_wait_for_a_daemon_can_be_interrupted(nilo, job, name):
    script = "(echo > started; exec sleep 600) & exit 0"
    process = job(NILO, "run", "--quiet", "--wait-all", "--", "bash", "-c", script, cwd=nilo.folder, env=nilo.environment)
    wait_until((nilo.folder / "started").exists, "the daemon")
    wait_until(lambda: ended_commands(process.pid) == 1, "the command to end")
    number = getattr(signal, f"SIG{name}")
    os.kill(process.pid, number)
    assert process.wait(60) == -number
    shown = nilo.show()
    assert shown["exit_code"] == 0 and len(shown["left_running"]) == 1


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_signal_before_the_end_of_the_command_is_for_the_command(nilo, job, name):
    """The command is told and ends; its daemons are waited for all the same. A second signal ends the wait, not the daemons."""
    script = f"(trap '' {name}; echo $BASHPID > daemon; while [ ! -e go ]; do sleep 0.05; done) & trap 'echo told >> told; exit 7' {name}; echo > ready; while :; do sleep 0.05; done"
    daemon = lambda: int((nilo.folder / "daemon").read_text())  # noqa: E731
    number = getattr(signal, f"SIG{name}")

    def start():
        process = job(NILO, "run", "--quiet", "--wait-all", "--", "bash", "-c", script, cwd=nilo.folder, env=nilo.environment)
        wait_until(lambda: (nilo.folder / "ready").exists() and (nilo.folder / "daemon").exists() and (nilo.folder / "daemon").read_text(), "the job")
        os.kill(process.pid, number)
        wait_until((nilo.folder / "told").exists, "the command to be told")
        wait_until(lambda: children(process.pid) == [daemon()], "the command to end")
        return process

    process = start()
    assert process.poll() is None
    (nilo.folder / "go").touch()
    assert process.wait(60) == 7
    assert (nilo.folder / "told").read_text() == "told\n"
    assert nilo.show()["left_running"] == []

    for file in ["go", "ready", "told", "daemon"]:
        (nilo.folder / file).unlink()
    process = start()
    os.kill(process.pid, number)
    assert process.wait(60) == -number
    os.kill(daemon(), 0)
    shown = nilo.show()
    assert shown["exit_code"] == 7 and daemon() in shown["left_running"]
    (nilo.folder / "go").touch()


def children(pid):
    """Living and ended ones, as long as they are not waited for."""
    return [int(child) for task in os.listdir(f"/proc/{pid}/task") for child in open(f"/proc/{pid}/task/{task}/children").read().split()]


def ended_commands(pid):
    """1 as soon as `sleep` is the only child that is left."""
    found = children(pid)
    return len(found) if all(open(f"/proc/{child}/comm").read() == "sleep\n" for child in found) else 0
