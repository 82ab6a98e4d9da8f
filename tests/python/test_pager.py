"""`nilo run -- COMMAND | less`: the terminal is the pager's until it is left, and the summary comes after it."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import NILO, unavailable, wait_until
from tmux import Tmux

SUMMARY = "MEMORY USAGE STATISTICS"
JOB = "for index in range(200): print('line', index)\nraise SystemExit(3)"


@pytest.fixture
def tmux(tmp_path):
    if not shutil.which("less"):
        unavailable("no less: apt-get install less")
    terminal = Tmux(tmp_path)
    yield terminal
    terminal.end()


@pytest.fixture
def shell(tmux, tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "bashrc").write_text("PS1='PROMPT> '; bind 'set enable-bracketed-paste off'\n")
    pane = tmux.run("shell", ["bash", "--noprofile", "--rcfile", tmp_path / "bashrc", "-i"])
    pane.expect("PROMPT>")
    return pane


def start(shell, tmp_path, readers):
    """Starts the job, and gives the recorder once it waits for the pager; None where it did not wait."""
    command = f"{NILO} run --dir {tmp_path}/runs -- {sys.executable} job.py"
    shell.keys(f"clear; {command} | {readers}; echo status ${{PIPESTATUS[*]}}", "Enter")
    wait_until(lambda: "line 20" in shell.screen(history=False), "the pager", seconds=60)
    return wait_until(lambda: waiting(tmp_path), "the job to end", seconds=60)


def waiting(tmp_path):
    """The PID of the recorder if it waits, 0 while it records, "gone" when it has ended."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if arguments[:2] == [NILO.encode(), b"run"] and str(tmp_path).encode() in b" ".join(arguments):
                # It lets go of its output before it waits.
                return int(process.name) if os.readlink(process / "fd/1") == "/dev/null" else 0
        except OSError:
            continue
    return "gone"


@pytest.mark.parametrize("readers", ["less", "tee copy.txt | less"])
def test_the_summary_comes_after_the_pager(shell, tmp_path, readers):
    assert start(shell, tmp_path, readers) != "gone"
    assert SUMMARY not in shell.screen(history=False)
    shell.keys("G")
    shell.expect("(END)")
    assert SUMMARY not in shell.screen(history=False)
    shell.keys("q")
    shell.expect(SUMMARY)
    shell.expect("status 3 0")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_wait(shell, tmp_path, number):
    os.kill(start(shell, tmp_path, "less"), number)
    wait_until(lambda: waiting(tmp_path) == "gone", "the recorder to end")
    assert "line 20" in shell.screen(history=False)
    shell.keys("q")
    shell.expect("status 3 0")
    assert SUMMARY not in shell.screen()
    assert "MEMORY" in subprocess.run([NILO, "show", "--dir", "runs"], cwd=tmp_path, capture_output=True, text=True).stdout


def test_a_reader_that_leaves_the_terminal_alone_is_not_waited_for(shell, tmp_path):
    command = f"{NILO} run --dir {tmp_path}/runs -- {sys.executable} job.py"
    shell.keys(f"clear; {command} | (cat; read -r line </dev/tty; echo read $line)", "Enter")
    shell.expect(SUMMARY)
    shell.keys("something", "Enter")
    shell.expect("read something")


# A program with the terminal to itself that runs us and reads what we write.
CAPTURES = """
import subprocess, sys, tty
tty.setcbreak(0)
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
print("captured", len(done.stdout), done.returncode, "over")
"""


def test_an_ancestor_is_not_waited_for(tmux, tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    command = [NILO, "run", "--dir", tmp_path / "runs", "--", sys.executable, tmp_path / "job.py"]
    pane = tmux.run("captures", [sys.executable, "-c", CAPTURES, *command]).wait()
    assert SUMMARY in pane.screen()
    assert "captured 1690 3 over" in pane.screen()
