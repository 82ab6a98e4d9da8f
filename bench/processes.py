"""Starting processes and learning what they cost, from the kernel's account of them."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from settings import TARGETS

QUIET_ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith(("NILO_", "DUCT_"))}


class BenchmarkFailed(Exception):
    """One benchmark could not be measured; the others go on."""


@dataclass(frozen=True)
class Spent:
    """What a process and the children that it waited for took, as wait4 tells it."""

    wall_secs: float
    cpu_secs: float
    exit_code: int
    peak_bytes: int  # of the largest of them; never below what this program itself had at the start
    written_bytes: int  # to files on disk; what goes to a file system in memory is not counted


def start(command: list, folder: Path, output=None) -> subprocess.Popen:
    return subprocess.Popen(
        [str(word) for word in command],
        cwd=folder,
        env=QUIET_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=output or subprocess.DEVNULL,
        stderr=output or subprocess.DEVNULL,
    )


def run(command: list, folder: Path) -> Spent:
    """Runs a command to its end; what it prints goes to `output.txt` in its folder."""
    with open(folder / "output.txt", "wb") as output:
        started = time.perf_counter()
        process = start(command, folder, output)
        return wait(process, started)


def wait(process: subprocess.Popen, started: float) -> Spent:
    _, status, usage = os.wait4(process.pid, 0)
    wall_secs = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    return Spent(wall_secs, usage.ru_utime + usage.ru_stime, process.returncode, usage.ru_maxrss * 1024, usage.ru_oublock * 512)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nilo-bench-") as folder:
        yield Path(folder)


def tree_command(processes: int, seconds: float, report: Path | None = None) -> list:
    """The command line of a tree that ends by itself."""
    return [sys.executable, "-S", TARGETS / "tree.py", processes, seconds, *([report] if report else [])]


@contextlib.contextmanager
def standing_tree(processes: int) -> Iterator[int]:
    """A tree that stands as long as the block; gives the PID of its root."""
    command = [str(word) for word in tree_command(processes, 86_400)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as root:
        try:
            assert root.stdout.readline() == "ready\n"
            yield root.pid
        finally:
            root.terminate()
