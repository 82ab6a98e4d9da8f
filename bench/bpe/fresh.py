"""Programs in fresh processes, and what each took: the command, and the drivers that call a Python library."""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from environment import PYTHON
from processes import BenchmarkFailed, run

DRIVERS = Path(__file__).resolve().parent / "drivers"
TAIL_CHARACTERS = 600


@dataclass(frozen=True)
class Took:
    """What a process took from its start to its end, or to the end of the one call that is measured."""

    wall_secs: float
    cpu_secs: float
    peak_bytes: int
    call_wall_secs: float | None = None  # the call alone, where a driver makes it
    call_cpu_secs: float | None = None
    told: dict = field(default_factory=dict)
    written_bytes: int = 0

    def sentence(self) -> str:
        call = "" if self.call_wall_secs is None else f", the call alone {self.call_wall_secs:.2f} s, {self.call_cpu_secs:.2f} CPU s"
        return f"{self.wall_secs:.2f} s, {self.cpu_secs:.2f} CPU s, {self.peak_bytes / 1e6:.0f} MB{call}"


def command(words: list, folder: Path) -> Took:
    """Runs a program in the folder; what it takes is the kernel's account of it."""
    spent = run(words, folder)
    if spent.exit_code != 0:
        raise BenchmarkFailed(f"{Path(words[0]).name} ended with {spent.exit_code}: {said_in(folder)}")
    return Took(spent.wall_secs, spent.cpu_secs, spent.peak_bytes, written_bytes=spent.written_bytes)


def driver(name: str, words: list, folder: Path) -> Took:
    """Lets a library do one call; what it prints of itself stays in the folder."""
    started = time.monotonic()
    spent = run([PYTHON, DRIVERS / f"{name}.py", *words, folder], folder)
    if spent.exit_code != 0:
        raise BenchmarkFailed(f"{words[0]} ended with {spent.exit_code}: {said_in(folder)}")
    told = json.loads((folder / "usage.json").read_text())
    before, after = told["before"], told["after"]
    return Took(
        after["clock_secs"] - started,
        after["cpu_secs"],
        after["peak_bytes"],
        after["clock_secs"] - before["clock_secs"],
        after["cpu_secs"] - before["cpu_secs"],
        told,
    )


def said_in(folder: Path) -> str:
    return (folder / "output.txt").read_text(errors="replace").strip()[-TAIL_CHARACTERS:]


def say(sentence: str) -> None:
    print(f"  {sentence}", file=sys.stderr, flush=True)
