"""The job's terminal belongs to the job: with and without `nilo run` the same text is on the screen of a real terminal."""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest
from conftest import NILO, WAIT_FOR_A_SIGNAL, unavailable, wait_until
from tmux import Tmux

PRINTS = """
import sys, time
for index in range(60):
    print(f"line {index} of some text that has no end", flush=True)
    time.sleep([0.005, 0.05, 0.3][index // 7 % 3])
"""

PIECES = """
import time
for index in range(14):
    print("step", index, end="", flush=True)
    time.sleep(0.13)
    print(" ... ", end="", flush=True)
    time.sleep(0.13)
    print("done", flush=True)
"""

# Characters and escape sequences come byte by byte, as from a program that does not buffer.
BYTES = """
import os, time
for index in range(40):
    for byte in f"\\x1b[1;32mgröße {index} \\x1b[0m→ ✓ 日本語 🙂\\x1b[K\\n".encode():
        os.write(1, bytes([byte]))
        time.sleep(0.0005)
    time.sleep([0, 0, 0.3][index % 3])
"""

ON_BOTH = """
import sys, time
for index in range(40):
    print(f"out {index}", flush=True)
    print(f"err {index}", file=sys.stderr, flush=True)
    time.sleep(0.1)
"""

TQDM = """
import time, tqdm
for epoch in range(2):
    for step in tqdm.tqdm(range(50), desc=f"epoch {epoch}", bar_format="{l_bar}{bar}| {n_fmt}/{total_fmt}"):
        time.sleep(0.05)
    tqdm.tqdm.write(f"epoch {epoch} has ended")
"""

RICH = """
import time
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=Console(force_terminal=True)) as progress:
    one, two = progress.add_task("one", total=40), progress.add_task("two", total=20)
    for step in range(40):
        progress.advance(one)
        progress.advance(two, 0.5)
        if step % 10 == 0:
            progress.console.print(f"step {step}")
        time.sleep(0.1)
"""

FINISHED = {"prints": PRINTS, "pieces": PIECES, "bytes": BYTES, "both streams": ON_BOTH, "tqdm": TQDM, "rich": RICH}


@pytest.fixture
def tmux(tmp_path):
    terminal = Tmux(tmp_path)
    yield terminal
    terminal.end()


def recorded(command):
    return [NILO, "run", "--interval", "0.05", "--", *command]


class Both:
    """A program on its own and under `nilo run`, in two windows of one size."""

    def __init__(self, tmux, command, **size):
        self.alone = tmux.run("alone", command, **size)
        self.recorded = tmux.run("recorded", recorded(command), **size)

    def __iter__(self):
        return iter((self.alone, self.recorded))

    def expect(self, text, times=1):
        for pane in self:
            pane.expect(text, times)

    def keys(self, *keys):
        for pane in self:
            pane.keys(*keys)

    def titled(self):
        """Waits for the title, so that it has had its chance to disturb."""
        wait_until(lambda: "Memory:" in self.recorded.value("pane_title"), "the title", seconds=60)

    def same_screen(self):
        def same():
            alone, recorded = (pane.screen() for pane in self)
            return alone == recorded

        wait_until(same, "the same text on both screens")

    def same_text(self):
        for pane in self:
            pane.wait()
        assert "MEMORY USAGE STATISTICS" in self.recorded.screen()
        assert self.recorded.text().splitlines() == self.alone.text().splitlines()


@pytest.mark.parametrize("columns", [100, 60])
@pytest.mark.parametrize("name", FINISHED)
def test_a_program_shows_the_same_text(tmux, name, columns):
    both = Both(tmux, [sys.executable, "-c", FINISHED[name]], columns=columns)
    # What is drawn over again ten times a second leaves a pause for the title on an idle machine only.
    if name != "rich":
        both.titled()
    both.same_text()
    assert both.alone.text().count("\n") >= 1


def test_the_level_is_in_the_title_and_the_old_title_comes_back(tmux):
    pane = tmux.run("one", ["sh", "-c", f"printf '\\033]2;the old title\\007'; '{NILO}' run --interval 0.05 -- sleep 4"])
    wait_until(lambda: pane.value("pane_title") == "the old title", "the old title")
    pattern = r"Memory: [\d.]+ [KM]iB \| Peak: [\d.]+ [KM]iB \| CPU: \d+\.\d% \| Time: \d+s"
    wait_until(lambda: re.fullmatch(pattern, pane.value("pane_title")), "the level in the title", seconds=60)
    pane.wait()
    assert pane.value("pane_title") == "the old title"


def test_the_old_title_is_back_while_the_job_is_stopped(tmux):
    pane = tmux.run("one", ["bash", "--norc", "-i"])
    pane.expect("PROMPT>")
    pane.keys(f"printf '\\033]2;the old title\\007'; '{NILO}' run --interval 0.05 -- sleep 600", "Enter")
    # Twice: it is set again on resuming, and taken back again.
    for stops in (1, 2):
        wait_until(lambda: "Memory:" in pane.value("pane_title"), "the level in the title", seconds=60)
        pane.keys("C-z")
        pane.expect("Stopped", stops)
        assert pane.value("pane_title") == "the old title"
        pane.keys("fg", "Enter")
    wait_until(lambda: "Memory:" in pane.value("pane_title"), "the level in the title", seconds=60)
    pane.keys("C-c")
    pane.expect("MEMORY USAGE STATISTICS")
    assert pane.value("pane_title") == "the old title"


def test_a_window_that_changes_its_size(tmux):
    both = Both(tmux, [sys.executable, "-c", PRINTS])
    both.titled()
    for columns in (60, 35, 120, 100):
        for pane in both:
            pane.resize(columns, 40)
        time.sleep(0.5)
    both.same_text()


def test_a_prompt_stays_while_it_waits(tmux):
    code = "name = input('What is your name? ')\nprint('Hello', name)\nanswer = input('Go on [y/n]? ')\nprint('answer', answer)"
    both = Both(tmux, [sys.executable, "-c", code])
    both.expect("What is your name?")
    both.titled()
    time.sleep(2.5)
    both.same_screen()
    both.keys("Ad")
    time.sleep(1.5)
    both.same_screen()
    both.keys("a", "Enter")
    both.expect("Go on [y/n]?")
    time.sleep(2.5)
    both.same_screen()
    both.keys("y", "Enter")
    both.same_text()


def test_an_interactive_interpreter(tmux):
    both = Both(tmux, [sys.executable, "-q", "-i", "-c", "import time"])
    both.expect(">>>")
    both.keys("for i in range(30): time.sleep(0.1); print('number', i)", "Enter", "Enter")
    both.titled()
    both.expect("number 29")
    both.keys("6 * 7", "Enter")
    both.expect("42")
    time.sleep(2)
    both.same_screen()
    both.keys("exit()", "Enter")
    both.same_text()


@pytest.mark.parametrize("program", ["vim", "less"])
def test_a_full_screen_program(tmux, tmp_path, program):
    if not shutil.which(program):
        unavailable(f"no {program}: apt-get install {program}")
    (tmp_path / "text.txt").write_text("".join(f"line {index}\n" for index in range(200)))
    command = {"vim": ["vim", "-u", "NONE", "-i", "NONE", "-n", "-R", "text.txt"], "less": ["less", "text.txt"]}[program]
    both = Both(tmux, command)
    both.expect("line 20")
    time.sleep(2.5)
    both.keys("G")
    both.expect("line 199")
    time.sleep(1.5)
    both.same_screen()
    for pane in both:
        pane.resize(60, 30)
    time.sleep(1.5)
    both.same_screen()
    assert "Memory:" not in both.recorded.value("pane_title")
    both.keys(*{"vim": [":q!", "Enter"], "less": ["q"]}[program])
    for pane in both:
        pane.wait()
    assert both.recorded.text() == both.alone.text()


class Shells:
    """Two shells in which the word `job` starts a program, on its own and under `nilo run`."""

    def __init__(self, tmux, command, folder):
        self.panes = []
        for name, words in (("alone", command), ("recorded", recorded(command))):
            start = folder / f"{name}.bashrc"
            quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
            script = folder / f"{name}.sh"
            script.write_text(f"exec {quoted}\n")
            start.write_text(f"PS1='PROMPT> '; alias job='sh {script}'; bind 'set enable-bracketed-paste off'\n")
            self.panes.append(tmux.run(name, ["bash", "--noprofile", "--rcfile", start, "-i"]))
        self.alone, self.recorded = self.panes
        self.expect("PROMPT>")

    def expect(self, text, times=1):
        for pane in self.panes:
            pane.expect(text, times)

    def keys(self, *keys):
        for pane in self.panes:
            pane.keys(*keys)

    def lines(self):
        """What is on the screens, less the lines in which the shell names the program, and less the summary."""
        screens = []
        for pane in self.panes:
            text = re.sub(r"(?s)={50}\nMEMORY.*?\n(?=PROMPT>)", "", pane.screen())
            lines = [line for line in text.splitlines() if line and ".sh" not in line]
            screens.append(lines)
        return screens


def test_ctrl_z_and_fg(tmux, tmp_path):
    """The program waits when the key comes: text of that moment would stand behind the echoed `^Z`."""
    on = tmp_path / "go on"
    waits = f"import os\n{PRINTS}    while index == 29 and not os.path.exists({str(on)!r}):\n        time.sleep(0.01)\n"
    shells = Shells(tmux, [sys.executable, "-c", waits], tmp_path)
    shells.keys("job", "Enter")
    shells.expect("line 29 ")
    shells.keys("C-z")
    shells.expect("PROMPT>", 2)
    stopped = [pane.screen() for pane in shells.panes]
    assert all("Stopped" in screen for screen in stopped)
    on.touch()
    time.sleep(2)
    assert [pane.screen() for pane in shells.panes] == stopped
    shells.keys("fg", "Enter")
    shells.expect("line 59 ")
    shells.expect("PROMPT>", 3)
    for lines in shells.lines():
        assert [line for line in lines if line.startswith("line")] == [f"line {index} of some text that has no end" for index in range(60)]
        assert not [line for line in lines if "Memory:" in line or "Time:" in line]


def test_ctrl_c(tmux, tmp_path):
    shells = Shells(tmux, [sys.executable, "-c", "import time\nprint('begins', flush=True)\n" + WAIT_FOR_A_SIGNAL], tmp_path)
    shells.keys("job", "Enter")
    shells.expect("begins")
    time.sleep(2.5)
    shells.keys("C-c")
    shells.expect("KeyboardInterrupt")
    shells.expect("PROMPT>", 2)
    shells.keys("echo status $?", "Enter")
    shells.expect("status 130")
    alone, recorded = shells.lines()
    assert recorded == alone


@pytest.mark.parametrize("length", [0, 1, 2, 40, 59, 60, 61, 120])
def test_the_summary_begins_on_a_line_of_its_own(tmux, length):
    """Whatever the command left unfinished is kept, and there is no empty line where it left nothing."""
    text = "".join("0123456789"[index % 10] for index in range(length))
    code = f"print('begins')\nprint({text!r}, end='', flush=True)"
    pane = tmux.run("one", recorded([sys.executable, "-c", code]), columns=60).wait()
    lines = pane.screen().splitlines()
    assert lines[:1] == ["begins"]
    left = [text[start : start + 60] for start in range(0, length, 60)]
    assert lines[1 : len(left) + 3] == [*left, "=" * 50, "MEMORY USAGE STATISTICS"]


def test_pipes_get_the_summary_alone(tmp_path):
    done = subprocess.run(recorded(["printf", "loss 0.3"]), cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "loss 0.3" and done.stderr.startswith("\n" + "=" * 50 + "\n") and "\x1b" not in done.stderr and "\r" not in done.stderr


@pytest.mark.parametrize("quiet", ["-q", "--live=auto"])
def test_ctrl_c_stops_a_loop_in_the_shell(tmux, tmp_path, quiet):
    """Python dies of SIGINT, and so do we: bash stops the loop."""
    program = tmp_path / "train.py"
    program.write_text("import time\nprint('training', flush=True)\n" + WAIT_FOR_A_SIGNAL)
    shell = tmux.run("shell", ["bash", "--norc", "--noprofile", "-i"])
    shell.expect("PROMPT>")
    shell.keys(f"for s in 1 2 3; do '{NILO}' run {quiet} -- '{sys.executable}' train.py; done", "Enter")
    shell.expect("training")
    shell.keys("C-c")
    shell.expect("PROMPT>", 2)
    shell.keys("echo status $?", "Enter")
    shell.expect("status 130")
    assert shell.screen().count("training") == 1 and shell.screen().count("KeyboardInterrupt") == 1


def test_the_loop_goes_on_when_the_command_handles_ctrl_c(tmux, tmp_path):
    program = tmp_path / "train.py"
    program.write_text(f"import time\ntry:\n  print('training', flush=True)\n  {WAIT_FOR_A_SIGNAL}\nexcept KeyboardInterrupt:\n  print('saved', flush=True)\n")
    shell = tmux.run("shell", ["bash", "--norc", "--noprofile", "-i"])
    shell.expect("PROMPT>")
    shell.keys(f"for s in 1 2 3; do '{NILO}' run -q -- '{sys.executable}' train.py; done; echo status $?", "Enter")
    for index in range(3):
        shell.expect("training", index + 1)
        shell.keys("C-c")
        shell.expect("saved", index + 1)
    shell.expect("status 0")


@pytest.mark.parametrize("columns", [100, 60, 30])
def test_the_line_of_watch_leaves_nothing_behind(tmux, job, columns):
    """`nilo watch` has a terminal of its own: its line is drawn in place, also in a window that becomes narrower."""
    process = job("sleep", "600")
    # On a screen that is full, as most are: in an empty one tmux moves the upper part of a wrapped line out of reach.
    watch = f"seq 60; exec '{NILO}' watch --pid {process.pid} --interval 0.05 --duration 6"
    pane = tmux.run("watch", ["sh", "-c", watch], columns=columns)
    pane.expect("MiB")
    for width in (columns - 15, columns // 2, columns):
        pane.resize(width, 40)
        time.sleep(0.8)
        line = pane.screen().splitlines()[-1]
        assert pane.screen().count("MiB") == line.count("MiB") >= 1, pane.screen()
    pane.wait()
    before = re.sub(r"\s", "", pane.screen().split("=" * 10)[0].split("\n60\n")[1])
    assert re.fullmatch(r"nilo:watchingPID\d+sleepevery0.05s;Ctrl\+Ctostop", before), pane.screen()


def test_terminals_without_a_title_get_no_byte(tmux):
    command = [sys.executable, "-c", "import time\nprint('begins', flush=True)\ntime.sleep(3)\nprint('ends')"]
    for term in ("linux", "dumb", "vt100"):
        pane = tmux.run(term, ["env", f"TERM={term}", *recorded(command)])
        before = pane.value("pane_title")
        pane.wait()
        assert pane.text() == "begins\nends"
        assert pane.value("pane_title") == before
