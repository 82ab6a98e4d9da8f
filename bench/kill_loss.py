"""How many steps survive when the training process is killed, as the tracker's own reader counts them."""

from pathlib import Path

from page import Table
from processes import BenchmarkFailed, scratch_folder
from tracker_environment import TITLES, Trackers, drive
from tracker_settings import PACE_SECS, Effort


def measure(trackers: Trackers, effort: Effort) -> Table:
    burst = {"steps": effort.burst_steps, "pace_secs": 0, "longest_secs": effort.burst_secs, "end": "kill"}
    paced = {"steps": effort.paced_steps, "pace_secs": PACE_SECS, "longest_secs": 60, "end": "kill"}
    control = burst | {"steps": 100, "end": "close"}
    ends = {"closed": control, "burst": burst, "paced": paced, "tree": paced | {"end": "kill_tree"}}
    lost = {name: {end: [] for end in ends} for name in trackers.names()}
    failures = {}
    with scratch_folder() as scratch:
        for number in range(effort.kill_rounds):
            for name in trackers.names():
                try:
                    kill_and_count(trackers, name, ends, scratch / f"{name}-{number}", lost[name])
                except BenchmarkFailed as failure:
                    if name == "nilometer":
                        raise
                    failures[name] = str(failure)
    table = Table(
        "Steps lost at kill -9",
        {
            "tracker": "the tool; each step is one call with five values, and counts when all five can be read.",
            "closed": "100 steps and a clean end, which shows that the reader counts right.",
            "burst": f"calls without a pause (at most {effort.burst_steps}, or {effort.burst_secs:g} s), then SIGKILL to itself.",
            "paced": f"{effort.paced_steps} steps, {PACE_SECS * 1e3:g} ms apart.",
            "tree": "the same, where the tracker's helper processes are killed first, as when a container is killed.",
        },
        notes=[
            f"Each cell: lost of logged. Repetitions: {effort.kill_rounds}.",
            "Helpers that outlive the process are given 5 s to write what they have.",
            "Read by: nilometer.read_run, trackio's SQLiteStorage, EventAccumulator, MlflowClient, aim.Run after `aim storage reindex`;"
            " wandb's file has no public reader, its records are counted here.",
            "The kernel lives on: this says nothing about a loss of power.",
            "Goal for nilometer: none.",
            *(f"Not measured: {TITLES[name]} ({reason.splitlines()[-1]})." for name, reason in failures.items()),
        ],
    )
    for name, cells in lost.items():
        if name not in failures:
            table.rows.append([TITLES[name], *(", ".join(cell) for cell in cells.values())])
    return table


def kill_and_count(trackers: Trackers, name: str, ends: dict[str, dict], folder: Path, lost: dict[str, list[str]]) -> None:
    folder.mkdir()
    logged = {}
    for end, options in ends.items():
        (folder / end).mkdir()
        logged[end] = drive(trackers, name, "end", folder / end, **options)["logged"]
    killed = [str(folder / end) for end in ends]
    readable = drive(trackers, name, "count", folder, killed=killed)["readable"]
    for (end, steps), found in zip(logged.items(), readable, strict=True):
        lost[end].append(f"{steps - found} of {steps}")
