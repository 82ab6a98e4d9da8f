"""How our own command is called and what it says about a run."""

import json
import subprocess
from pathlib import Path

from processes import QUIET_ENVIRONMENT, BenchmarkFailed


def run_command(binary: Path, command: list, interval_secs: float = 0.1) -> list:
    return [binary, "run", "--quiet", "--interval", interval_secs, "--", *command]


def watch_command(binary: Path, pid: int, seconds: float, interval_secs: float = 0.1) -> list:
    return [binary, "watch", "--pid", pid, "--duration", seconds, "--interval", interval_secs]


def summary(binary: Path, folder: Path) -> dict:
    """The summary of the newest run that was recorded in a folder."""
    runs = sorted(entry.parent.name for entry in folder.glob(".nilo/*/run.json"))
    if not runs:
        raise BenchmarkFailed(f"nilo recorded nothing: {(folder / 'output.txt').read_text()[-500:]}")
    shown = subprocess.run(
        [binary, "show", runs[-1], "--format", "json"],
        cwd=folder, env=QUIET_ENVIRONMENT, capture_output=True, text=True,
    )
    try:
        return json.loads(shown.stdout)
    except json.JSONDecodeError as error:
        raise BenchmarkFailed(f"`nilo show {runs[-1]}` printed no JSON: {shown.stderr or error}") from error
