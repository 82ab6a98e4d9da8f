"""One sample of a tree of twenty processes: psutil's walk over the tree against what nilo spends on a whole sample."""

import json
import subprocess

import nilo
import rivals
from page import Table, times
from processes import run, scratch_folder, standing_tree
from settings import TARGETS, Settings

PROCESSES = 20


def measure(settings: Settings) -> Table:
    table = Table(
        "One sample of a 20-process tree",
        {
            "how": "psutil: `children(recursive=True)`, then `memory_info()` of each; nilo: its CPU time divided by its samples.",
            "CPU ms a sample": "mean CPU time of one sample; nilo's includes every reading, PSS under its budget, writing and start-up.",
            "median wall ms": "median wall time of one sample; a recorder does not have this figure.",
            "× nilo": "CPU time divided by nilo's.",
        },
        notes=["Goal: at most 0.1 ms without PSS."],
    )
    with standing_tree(PROCESSES) as pid:
        ours_ms = nilo_cpu_ms(settings, pid) if settings.nilo else None
        psutil_ms = psutil_sample(pid, settings.effort.tree_samples)
    if ours_ms is not None:
        table.rows.append(["nilo watch", f"{ours_ms:.3f}", "–", "1.0×"])
    table.rows.append([
        "psutil", f"{psutil_ms['mean_cpu_ms']:.3f}", f"{psutil_ms['median_wall_ms']:.3f}", times(psutil_ms["mean_cpu_ms"], ours_ms),
    ])
    return table


def psutil_sample(pid: int, samples: int) -> dict:
    command = [str(word) for word in (rivals.PYTHON, TARGETS / "psutil_tree.py", pid, samples)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def nilo_cpu_ms(settings: Settings, pid: int) -> float:
    with scratch_folder() as folder:
        run(nilo.watch_command(settings.nilo, pid, settings.effort.long_secs), folder)
        found = nilo.summary(settings.nilo, folder)
        return found["recorder"]["cpu_secs"] / found["memory"]["samples"] * 1e3
