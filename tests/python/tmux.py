"""A real terminal emulator to look at: tmux, with a server of its own."""

import os
import pathlib
import re
import shutil
import subprocess

from conftest import unavailable, wait_until

SETTINGS = """
set -g remain-on-exit on
set -g history-limit 20000
set -g default-terminal screen-256color
set -g status off
set -s escape-time 0
set -s exit-empty off
"""


class Pane:
    """One program in a window of its own."""

    def __init__(self, tmux, name):
        self.tmux = tmux
        self.name = name

    def screen(self, history=True):
        """The text that is to be seen, without empty lines at the end."""
        scrolled = ["-S", "-"] if history else []
        text = self.tmux("capture-pane", "-p", "-t", self.name, *scrolled)
        text = re.sub(r"\n*Pane is dead[^\n]*\n*", "\n", text)
        return "\n".join(line.rstrip() for line in text.splitlines()).rstrip()

    def text(self):
        """What the job showed, up to the summary."""
        return self.screen().split("=" * 50)[0].rstrip()

    def value(self, name):
        return self.tmux("display-message", "-p", "-t", self.name, "#{" + name + "}").strip()

    def expect(self, text, times=1):
        wait_until(lambda: self.screen().count(text) >= times, f"{text!r} in {self.name}", seconds=60)

    def keys(self, *keys):
        self.tmux("send-keys", "-t", self.name, *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-t", self.name, "-x", str(columns), "-y", str(rows))

    def wait(self):
        """Until the program has ended."""
        wait_until(lambda: self.value("pane_dead") == "1", f"{self.name} to end", seconds=120)
        return self


class Tmux:
    def __init__(self, folder):
        self.program = shutil.which("tmux") or unavailable("no tmux: apt-get install tmux")
        self.folder = pathlib.Path(folder)
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("NILO_", "TMUX")) and key != "PYTHONSTARTUP"
        } | {"LC_ALL": "C.UTF-8", "PS1": "PROMPT> ", "PYTHON_HISTORY": os.devnull, "HISTFILE": os.devnull, "LESSHISTFILE": "-"}
        self.settings = self.folder / "tmux.conf"
        self.settings.write_text(SETTINGS)

    def __call__(self, *arguments):
        command = [self.program, "-S", str(self.folder / "tmux.socket"), "-f", str(self.settings), *arguments]
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout

    def run(self, name, command, columns=100, rows=40):
        """Starts a program, without a shell around it."""
        self("new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows), *map(str, command))
        return Pane(self, name)

    def end(self):
        command = [self.program, "-S", str(self.folder / "tmux.socket"), "kill-server"]
        subprocess.run(command, capture_output=True, timeout=60)
