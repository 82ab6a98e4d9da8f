"""What the single calls of nilometer's classes cost, in long loops beside the clock."""

import statistics

from page import Table, times
from processes import scratch_folder
from tracker_environment import Trackers, drive
from tracker_settings import Effort

CLOCK = "time.perf_counter(), twice"


def measure(trackers: Trackers, effort: Effort) -> Table:
    with scratch_folder() as scratch:
        folder = scratch / "pieces"
        folder.mkdir()
        nanos = drive(trackers, "nilometer", "pieces", folder, rounds=effort.piece_rounds)["nanos"]
    clock = min(nanos[CLOCK])
    table = Table(
        "Single calls",
        {
            "call": "in a loop of 10 000; the loop itself is the first row and is contained in the others.",
            "best ns": "a call in the quickest round.",
            "median ns": "a call in the median round.",
            "× clock": "best, divided by that of two readings of `time.perf_counter`.",
        },
        notes=[f"Rounds, in turns: {effort.piece_rounds}.", "Goal: at most 1 µs for a pair of TrainingTimer calls."],
    )
    for name, found in nanos.items():
        table.rows.append([name, f"{min(found):.0f}", f"{statistics.median(found):.0f}", times(min(found), clock)])
    return table
