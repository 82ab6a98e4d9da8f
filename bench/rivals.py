"""The tools that we are measured against: installing them, calling them, reading their results.

They come from PyPI, in the newest version, into an environment of their own; GNU time comes from Debian.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from settings import REPOSITORY

ENVIRONMENT = REPOSITORY / ".venv-bench"
PACKAGES = ["psutil", "psrecord", "memory_profiler", "con-duct"]
PYTHON = ENVIRONMENT / "bin" / "python"
PSRECORD = ENVIRONMENT / "bin" / "psrecord"
MPROF = ENVIRONMENT / "bin" / "mprof"
DUCT = ENVIRONMENT / "bin" / "con-duct"
GNU_TIME = Path("/usr/bin/time")


def install() -> None:
    """Installs what is missing; does nothing the second time."""
    if not all(tool.exists() for tool in (PYTHON, PSRECORD, MPROF, DUCT)):
        print(f"installing {', '.join(PACKAGES)} into {ENVIRONMENT}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        (ENVIRONMENT / ".gitignore").write_text("*\n")
        subprocess.run([PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    if not GNU_TIME.exists():
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise SystemExit("error: GNU time is missing: /usr/bin/time\nhint: sudo apt-get install time")
        subprocess.run(["apt-get", "-qq", "update"], check=True)
        subprocess.run(["apt-get", "-qq", "install", "-y", "time"], check=True, stdout=subprocess.DEVNULL)


def versions() -> str:
    script = f"from importlib.metadata import version; print(', '.join(f'{{p}} {{version(p)}}' for p in {PACKAGES!r}))"
    python_tools = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    # Debian's build calls its own version UNKNOWN, so the package is asked.
    package = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "time"], capture_output=True, text=True)
    return f"{python_tools}, GNU time {package.stdout or 'of unknown version'}"


# Command lines. Every sampler writes to a file named after it in the folder in which it runs.


def psrecord_attach(pid: int, seconds: float, children: bool, interval_secs: float = 0.1) -> list:
    return [PSRECORD, pid, "--interval", interval_secs, "--duration", seconds, "--log", "psrecord.txt",
            *(["--include-children"] if children else [])]


def psrecord_run(command: list, interval_secs: float | None = 0.1) -> list:
    # Its command is one string for a shell; without --include-children it records that shell.
    line = " ".join(f"'{word}'" for word in command)
    interval = ["--interval", interval_secs] if interval_secs else []
    return [PSRECORD, line, *interval, "--log", "psrecord.txt", "--include-children"]


def mprof_attach(pid: int, seconds: int, children: bool) -> list:
    return [MPROF, "attach", "--interval", 0.1, "--timeout", seconds, "-o", "mprof.dat",
            *(["--include-children"] if children else []), pid]


def mprof_run(command: list) -> list:
    return [MPROF, "run", "--nopython", "--include-children", "--interval", 0.1, "-o", "mprof.dat", *command]


def duct_run(command: list, sample_interval_secs: float | None = None) -> list:
    interval = ["--sample-interval", sample_interval_secs] if sample_interval_secs else []
    return [DUCT, "run", "-p", "duct_", *interval, *command]


def gnu_time_run(command: list) -> list:
    return [GNU_TIME, "-v", "-o", "time.txt", *command]


# Results, in bytes; None where the tool has no figure.


def psrecord_samples(folder: Path) -> int:
    return sum(1 for line in (folder / "psrecord.txt").read_text().splitlines() if line and not line.startswith("#"))


def psrecord_peak(folder: Path) -> int | None:
    lines = (folder / "psrecord.txt").read_text().splitlines()
    return peak_of_mebibytes(line.split()[2] for line in lines if line and not line.startswith("#"))


def mprof_peak(folder: Path) -> int | None:
    lines = (folder / "mprof.dat").read_text().splitlines()
    return peak_of_mebibytes(line.split()[1] for line in lines if line.startswith("MEM"))


def duct_peak(folder: Path) -> int | None:
    return json.loads((folder / "duct_info.json").read_text())["execution_summary"]["peak_rss"]


def gnu_time_peak(folder: Path) -> int | None:
    return int(re.search(r"Maximum resident set size \(kbytes\): (\d+)", (folder / "time.txt").read_text()).group(1)) << 10


def peak_of_mebibytes(figures) -> int | None:
    peak = max((float(figure) for figure in figures), default=None)
    return None if peak is None else int(peak * 2**20)
