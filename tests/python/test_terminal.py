"""On a pseudo-terminal: every byte that the job's terminal gets, Ctrl+C, Ctrl+Z, full-screen programs, narrow windows."""

import codecs
import fcntl
import json
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
from conftest import MIB, NILO, python
from test_faults import fill, small_disk  # noqa: F401
from test_job_terminal import BYTES, ON_BOTH, PIECES, PRINTS


class Terminal:
    """A pseudo-terminal with a program of its own session in it."""

    def __init__(self, command, folder, columns=100):
        self.text = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Here and not in the parent, so that the program finds it, or changes it afterwards.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
            os.chdir(folder)
            environment = {k: v for k, v in os.environ.items() if not k.startswith("NILO_")} | {"PS1": "PROMPT> ", "TERM": "xterm"}
            os.execvpe(command[0], command, environment)

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
            self.text += self.decoder.decode(data)
        if until:
            pytest.fail(f"{until!r} did not appear in {self.text[start:]!r}")
        return self.text[start:]

    def type(self, text):
        os.write(self.fd, text.encode())

    def end(self):
        """Ends a program that a failed test left."""
        os.close(self.fd)
        try:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def wait(self):
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)


TITLE = r"(?:\x1b\[22;2t)?\x1b\]2;([^\x07\x1b]*)\x07"
OLD_TITLE = "\x1b[23;2t"
SUMMARY = "=" * 50
# What goes before the summary in a window of 100 columns, so that it begins on a line of its own.
FRESH_LINE = " " * 100 + "\r\x1b[K"


class JobText:
    """What the terminal got before the summary: the job's text without our titles, and where in it they were."""

    def __init__(self, text):
        text = text.split(FRESH_LINE + SUMMARY)[0]
        assert text.count(OLD_TITLE) <= 1
        text = text.replace(OLD_TITLE, "")
        self.titles = re.findall(TITLE, text)
        self.text, self.places = "", []
        for piece in re.split(TITLE, text)[::2]:
            self.text += piece
            self.places.append(len(self.text))
        self.places.pop()


def read_all(command, folder):
    terminal = Terminal(command, folder)
    terminal.read(seconds=120)
    return terminal.text, terminal.wait()


PROGRAMS = {"prints": PRINTS, "pieces": PIECES, "bytes": BYTES, "both streams": ON_BOTH}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_byte_of_the_job_arrives_as_without_us(nilo, name):
    """The terminal gets the job's bytes and titles, and titles only in pauses: not within a line that is being written."""
    code = PROGRAMS[name]
    alone, _ = read_all(python(code), nilo.folder)
    recorded, status = read_all([NILO, "run", "--interval", "0.05", "--", *python(code)], nilo.folder)
    assert status == 0
    job = JobText(recorded)
    assert job.text == alone
    assert job.titles and all(title.startswith("Memory: ") for title in job.titles), "no title was shown"
    assert recorded.count(OLD_TITLE) == 1
    for place in job.places:
        before = job.text[:place]
        assert before.endswith("\n") or not before or (name == "pieces" and re.search(r"(step \d+| \.\.\. )$", before)), before[-40:]


def test_quiet_and_never_give_the_terminal_no_byte(nilo):
    code = "import time\nprint('begins', flush=True)\ntime.sleep(2.5)\nprint('ends')"
    alone, _ = read_all(python(code), nilo.folder)
    assert read_all([NILO, "run", "--quiet", "--", *python(code)], nilo.folder)[0] == alone
    never, _ = read_all([NILO, "run", "--live", "never", "--", *python(code)], nilo.folder)
    assert never.split(FRESH_LINE + SUMMARY)[0] == alone


def test_a_job_that_writes_all_the_time_gets_no_title_in_between(nilo):
    """Without a pause there is no safe place for one."""
    code = "import os,time\nend=time.monotonic()+4\nwhile time.monotonic()<end:\n  os.write(1,b'.'); time.sleep(0.004)"
    text, status = read_all([NILO, "run", "--", *python(code)], nilo.folder)
    assert status == 0
    assert set(JobText(text).text) <= {".", "\r", "\n"}
    assert JobText(text).titles == []


def test_alerts_wait_for_the_summary_and_are_in_the_title_until_then(nilo, cgroup):
    cgroup.limit(512 * MIB)
    code = "import time\nprint('begins', flush=True)\nx = bytearray(b'x') * (490 << 20)\ntime.sleep(6)\nprint('ends')"
    enter = f"echo 0 > /sys/fs/cgroup/memory{cgroup.path}/cgroup.procs; exec \"$@\""
    text, status = read_all(["sh", "-c", enter, "sh", NILO, "run", "--", *python(code)], nilo.folder)
    assert status == 0
    job = JobText(text)
    assert job.text == "begins\r\nends\r\n"
    assert any(title.startswith("[memory-critical] Memory: ") for title in job.titles), job.titles
    alerts = re.sub(r"\x1b\[[0-9;]*m", "", text.split(SUMMARY)[-1])
    assert "Alerts:" in alerts and "memory-critical: job memory" in alerts


def test_notices_wait_for_the_end(nilo, small_disk):
    """The disk is full while the job runs: samples are lost, which is said after the command."""
    code = "import time\nprint('begins', flush=True)\ninput()\nprint('ends', flush=True)"
    terminal = Terminal([NILO, "run", "--dir", str(small_disk), "--interval", "0.001", "--live", "never", "--", *python(code)], nilo.folder)
    try:
        terminal.read(until="begins")
        fill(small_disk)
        time.sleep(5)
        terminal.type("\n")
        terminal.read(until="ends")
        os.unlink(small_disk / "filler")
        terminal.read()
        assert terminal.wait() == 0
    finally:
        terminal.end()
    assert terminal.text.startswith("begins\r\n\r\nends\r\n"), terminal.text
    assert "samples are being lost" in terminal.text.split("ends")[1].split(SUMMARY)[0]


def test_a_terminal_that_is_held_holds_up_nobody(nilo):
    """Ctrl+S: a title cannot be written, and samples are taken all the same."""
    terminal = Terminal([NILO, "run", "--interval", "0.05", "--", "sleep", "4"], nilo.folder)
    try:
        time.sleep(0.5)
        terminal.type("\x13")
        time.sleep(3)
        terminal.type("\x11")
        terminal.read()
        assert terminal.wait() == 0
    finally:
        terminal.end()
    shown = nilo.show()
    assert shown["recorder"]["gaps"] == 0 and shown["memory"]["samples"] > 20


def test_the_line_of_watch_is_shown_and_taken_away(nilo, job):
    process = job("sleep", "600")
    terminal = Terminal([NILO, "watch", "--pid", str(process.pid), "--interval", "0.05", "--duration", "2"], nilo.folder)
    terminal.read(until=r"Time: +\d+\.\ds \| Memory: +\d+\.\d\d [KM]iB \| Peak: +\d+\.\d\d [KM]iB \| CPU: +\d+\.\d%")
    rest = terminal.read()
    assert terminal.wait() == 0
    assert "\r\x1b[K" in terminal.text
    assert "MEMORY USAGE STATISTICS" in rest


@pytest.mark.parametrize("columns,fields", [(60, 3), (45, 2), (25, 1)])
def test_the_line_of_watch_has_fewer_fields_in_a_narrow_window(nilo, job, columns, fields):
    process = job("sleep", "600")
    shell = f"stty cols {columns}; exec '{NILO}' watch --pid {process.pid} --interval 0.05 --duration 1"
    terminal = Terminal(["sh", "-c", shell], nilo.folder, columns=columns)
    terminal.read()
    terminal.wait()
    lines = re.findall(r"\x1b\[\?7l([^\x1b\r\n]*)\x1b\[\?7h", terminal.text)
    assert lines and all(line.count(":") == fields and len(line) < columns for line in lines), lines


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
    recorder = nilo.show()["recorder"]
    events = json.loads(nilo("export", "--format", "json").stdout)["events"]
    gaps = [event["nanos"] for event in events if event["event"] == "gap"]
    assert recorder["gaps"] == len(gaps) >= 1
    # A recorder that is stopped is not late for the ticks of that time; on a busy machine it may be for others.
    assert recorder["late_ticks"] < sum(gaps) / 5e7 / 2, (recorder, gaps)


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
