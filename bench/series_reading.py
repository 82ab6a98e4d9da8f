"""How long it takes until one long series is in numpy."""

import statistics

from page import Table, spread, times
from processes import BenchmarkFailed, scratch_folder
from tracker_environment import TITLES, Trackers, drive
from tracker_settings import Effort

LONGEST_SECS = 3
READERS = {
    "nilometer": "nilometer, one metric in a row",
    "nilometer_five": "nilometer, five metrics in a row",
    "nilometer_open": "nilometer, one metric, not closed",
    "parquet": TITLES["parquet"],
    "sqlite": "sqlite3, select",
    "trackio": "trackio, get_metric_values",
    "tensorboard": "TensorBoard EventAccumulator",
}
SLOW = ["trackio", "tensorboard"]


def measure(trackers: Trackers, effort: Effort) -> Table:
    found, points_of = {}, {}
    with scratch_folder() as scratch:
        for name in READERS:
            points_of[name] = effort.slow_series_points if name in SLOW else effort.series_points
            (scratch / name).mkdir()
            drive(trackers, name, "write_series", scratch / name, points=points_of[name])
        for name in READERS:
            options = {"points": points_of[name], "most_reads": effort.series_reads, "longest_secs": LONGEST_SECS}
            found[name] = drive(trackers, name, "read_series", scratch / name, **options)
            if not found[name]["is_right"]:
                raise BenchmarkFailed(f"{name}: what was read is not what was written")
    ours = millis(found["nilometer"]) / points_of["nilometer"]
    table = Table(
        "Reading one series into numpy",
        {
            "how": "steps and values as arrays; the files were just written, so the kernel has them in memory.",
            "points": "in the series.",
            "median ms": "from opening the files to the arrays.",
            "lowest..highest": "of the readings.",
            "first ms": "the first reading of the process, with what the library imports for it.",
            "readings": "in one process.",
            "× nilometer": "the median a point divided by that of nilometer, one metric in a row.",
        },
        notes=[
            "*not closed*: the writer was killed; what is not compacted yet is read as it was written.",
            "Every reading is compared with what was written.",
            "Goal for nilometer: at most 20 ms for a million points.",
        ],
    )
    for name, title in READERS.items():
        all_millis = [secs * 1e3 for secs in found[name]["read_secs"]]
        median = millis(found[name])
        table.rows.append([
            title, str(points_of[name]), f"{median:.1f}", spread(all_millis, 1), f"{all_millis[0]:.1f}",
            str(len(all_millis)), times(median / points_of[name], ours),
        ])
    return table


def millis(found: dict) -> float:
    return statistics.median(found["read_secs"]) * 1e3
