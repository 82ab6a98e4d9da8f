"""A thousand samples a second of one process: how many really come, how many late, and at what cost."""

from pathlib import Path

import nilo
import rivals
from page import Table
from processes import Spent, run, scratch_folder, standing_tree
from settings import Settings

INTERVAL_SECS = 0.001


def measure(settings: Settings) -> Table:
    seconds = settings.effort.kilohertz_secs
    table = Table(
        "One process at 1 kHz",
        {
            "monitor": "the tool, attached to a sleeping process.",
            "samples": f"samples in its log, of {seconds * 1000} asked for in {seconds} s.",
            "late ticks": "ticks that the tool itself counted as late.",
            "% of a core": "CPU time of the whole run, start-up included, divided by its wall time.",
        },
        notes=["Goal: no late tick on an idle machine; on a busy one late ticks are the scheduler's."],
    )
    with standing_tree(1) as pid:
        if settings.nilo:
            with scratch_folder() as folder:
                used = run(nilo.watch_command(settings.nilo, pid, seconds, INTERVAL_SECS), folder)
                table.rows.append(nilo_row(settings.nilo, folder, used))
        with scratch_folder() as folder:
            used = run(rivals.psrecord_attach(pid, seconds, children=False, interval_secs=INTERVAL_SECS), folder)
            table.rows.append(["psrecord", str(rivals.psrecord_samples(folder)), "–", percent(used)])
    return table


def nilo_row(binary: Path, folder: Path, used: Spent) -> list[str]:
    found = nilo.summary(binary, folder)
    return ["nilo watch", str(found["memory"]["samples"]), str(found["recorder"].get("late_ticks", "–")), percent(used)]


def percent(used: Spent) -> str:
    return f"{used.cpu_secs / used.wall_secs * 100:.1f}"
