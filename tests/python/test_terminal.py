"""On a real terminal: the live line, Ctrl+C, Ctrl+Z, full-screen programs, narrow windows."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from conftest import NILO, python


class Terminal:
    """A pseudo-terminal with a program of its own session in it."""

    def __init__(self, command, folder, columns=100):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            environment = {k: v for k, v in os.environ.items() if not k.startswith("NILO_")} | {"PS1": "PROMPT> ", "TERM": "xterm"}
            os.execvpe(command[0], command, environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def read(self, until=None, seconds=20):
        """Reads until a pattern appears in what is new, or the program ends."""
        start = len(self.text)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if until and re.search(until, self.text[start:]):
                return self.text[start:]
            ready, _, _ = select.select([self.fd], [], [], 0.1)
            if not ready:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                break
            if not data:
                break
            self.text += data.decode(errors="replace")
        if until:
            pytest.fail(f"{until!r} did not appear in {self.text[start:]!r}")
        return self.text[start:]

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


def test_the_live_line_is_shown_and_taken_away(nilo):
    terminal = Terminal([NILO, "run", "--interval", "0.05", "--", "sleep", "2.5"], nilo.folder)
    terminal.read(until=r"Time: +\d+\.\ds \| Memory: +\d+\.\d\d [KM]iB \| Peak: +\d+\.\d\d [KM]iB \| CPU: +\d+\.\d%")
    rest = terminal.read()
    assert terminal.wait() == 0
    assert "\r\x1b[K" in terminal.text
    assert "MEMORY USAGE STATISTICS" in rest


def test_the_live_line_fits_a_narrow_window(nilo):
    terminal = Terminal([NILO, "run", "--interval", "0.05", "--", "sleep", "2.2"], nilo.folder, columns=40)
    terminal.read()
    terminal.wait()
    for line in re.findall(r"\rTime:[^\x1b\r\n]*", terminal.text):
        assert len(line) - 1 < 40


def test_ctrl_c_ends_the_command_once_and_the_summary_follows(nilo):
    code = (
        "import signal,sys,time\ncount=0\n"
        "def on(*_):\n  global count\n  count+=1\n  print('interrupted',count,flush=True)\n"
        "signal.signal(signal.SIGINT,on)\nprint('ready',flush=True)\nend=time.monotonic()+20\n"
        "while not count and time.monotonic()<end: time.sleep(.05)\ntime.sleep(.5)\nsys.exit(9)"
    )
    terminal = Terminal([NILO, "run", "--live", "never", "--", *python(code)], nilo.folder)
    terminal.read(until="ready")
    terminal.type("\x03")
    terminal.read()
    assert terminal.wait() == 9
    assert "interrupted 1" in terminal.text and "interrupted 2" not in terminal.text
    assert "MEMORY USAGE STATISTICS" in terminal.text


def test_job_control_stops_and_resumes_command_and_recorder(nilo):
    shell = Terminal(["bash", "--norc", "-i"], nilo.folder)
    shell.read(until=r"PROMPT> $")
    shell.type(f"'{NILO}' run --live never --interval 0.05 -- sleep 3; echo status=$?\n")
    time.sleep(1.0)
    shell.type("\x1a")
    shell.read(until="Stopped")
    time.sleep(1.5)
    shell.type("fg\n")
    shell.read(until=r"(?s)MEMORY USAGE STATISTICS.*PROMPT> $")
    shell.type("exit\n")
    shell.read()
    shell.wait()
    assert nilo.show()["recorder"]["gaps"] >= 1


def test_a_full_screen_program_has_the_terminal_to_itself(nilo):
    """A program that switches line mode off sees no live line on its screen, and its keys reach it."""
    code = (
        "import sys,termios,time,tty\nold=termios.tcgetattr(0)\ntty.setraw(0)\nprint('RAW',end='\\r\\n',flush=True)\n"
        "key=sys.stdin.read(1)\ntermios.tcsetattr(0,termios.TCSADRAIN,old)\nprint('key',key,flush=True)"
    )
    terminal = Terminal([NILO, "run", "--interval", "0.05", "--", *python(code)], nilo.folder)
    terminal.read(until="RAW")
    time.sleep(2.5)
    terminal.type("q")
    terminal.read()
    assert terminal.wait() == 0
    between = terminal.text.split("RAW", 1)[1].split("key q", 1)[0]
    assert "Time:" not in between
    assert "key q" in terminal.text


def test_no_colour_and_no_live_line_into_a_pipe(nilo):
    result = nilo("run", "--", "sleep", "1.5")
    assert "\x1b" not in result.stderr and " | Peak:" not in result.stderr
    always = nilo("run", "--live", "always", "--", "sleep", "2.5")
    assert " | Peak:" in always.stderr
