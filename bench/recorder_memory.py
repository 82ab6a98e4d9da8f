"""How much memory the monitor itself takes while it watches twenty processes at 10 Hz, and whether that grows."""

import subprocess
import time
from pathlib import Path

import nilo
import rivals
from page import Table
from processes import BenchmarkFailed, scratch_folder, standing_tree, start
from settings import Settings

PROCESSES = 20
ROWS_PER_MONITOR = 6
FIELDS = ["VmRSS", "VmHWM", "RssAnon", "RssFile", "RssShmem"]


def measure(settings: Settings) -> Table:
    minutes = settings.effort.memory_minutes
    table = Table(
        "Memory of the monitor itself",
        {
            "monitor": "the tool, attached to a 20-process tree at 10 Hz.",
            "after min": "minutes since its start.",
            "RSS MiB": "resident memory: VmRSS.",
            "highest MiB": "highest so far: VmHWM.",
            "own MiB": "anonymous part of RSS.",
            "file MiB": "program text and mapped files, the run file among them; the kernel takes these back at need.",
        },
        notes=["Goal: at most 10 MB after an hour at 10 Hz."],
    )
    seconds = int(minutes * 60)
    with standing_tree(PROCESSES) as pid, scratch_folder() as ours, scratch_folder() as theirs:
        # Both at once: memory does not depend on who else runs, and an hour is long.
        watched = {"psrecord": start(rivals.psrecord_attach(pid, seconds + 30, children=True), theirs)}
        if settings.nilo:
            watched = {"nilo watch": start(nilo.watch_command(settings.nilo, pid, seconds + 30), ours), **watched}
        try:
            readings = read_along(watched, seconds)
        finally:
            for monitor in watched.values():
                monitor.terminate()
                monitor.wait()
    for name, found in readings.items():
        table.rows.extend([name, f"{at / 60:.1f}", *cells(status)] for at, status in found)
    return table


def read_along(watched: dict[str, subprocess.Popen], seconds: int) -> dict[str, list[tuple[float, dict]]]:
    """Reads each monitor's status a few times, the first a second after its start and the last at the end."""
    readings = {name: [] for name in watched}
    started = time.monotonic()
    for number in range(ROWS_PER_MONITOR):
        at = max(1.0, seconds * number / (ROWS_PER_MONITOR - 1))
        time.sleep(max(0.0, started + at - time.monotonic()))
        for name, monitor in watched.items():
            if monitor.poll() is not None:
                raise BenchmarkFailed(f"{name} ended early with {monitor.returncode}")
            readings[name].append((at, memory_status(monitor.pid)))
    return readings


def memory_status(pid: int) -> dict[str, int]:
    """The memory lines of /proc/PID/status, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {key: int(value.split()[0]) << 10 for key, value in pairs if key in FIELDS}


def cells(status: dict[str, int]) -> list[str]:
    file_bytes = status["RssFile"] + status["RssShmem"]
    return [f"{figure / 2**20:.1f}" for figure in (status["VmRSS"], status["VmHWM"], status["RssAnon"], file_bytes)]
