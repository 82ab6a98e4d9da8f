"""What one `log({5 floats}, step)` costs: in time, on the disk, in memory; and what comes before and after."""

import random
import statistics
from array import array
from pathlib import Path

from page import Table, spread, times
from processes import BenchmarkFailed, scratch_folder
from tracker_environment import TITLES, Trackers, drive
from tracker_settings import Effort


def measure(trackers: Trackers, effort: Effort) -> list[Table]:
    names = ["dictionary", *trackers.names()]
    found, failures = {name: [] for name in names}, {}
    with scratch_folder() as scratch:
        walk = write_walk(scratch / "walk", effort.call_steps)
        for number in range(effort.call_rounds):
            for name in names:
                if name in failures:
                    continue
                folder = scratch / f"{name}-{number}"
                folder.mkdir()
                options = {"walk": str(walk), "most_steps": effort.call_steps, "longest_secs": effort.call_secs}
                try:
                    found[name].append(drive(trackers, name, "calls", folder, **options))
                except BenchmarkFailed as failure:
                    if name == "nilometer":
                        raise
                    failures[name] = str(failure)
    found = {name: rounds for name, rounds in found.items() if rounds and name not in failures}
    return [time_table(found, failures, effort), space_table(found)]


def write_walk(path: Path, steps: int) -> Path:
    """Five random walks as doubles, a step after the other: values as noisy as those of a real loss."""
    chance, values, walk = random.Random(1), [2.0, 0.1, 1e-3, 5.0, 0.0], array("d")
    for _ in range(steps):
        values = [value + chance.gauss(0, 0.01) for value in values]
        walk.extend(values)
    path.write_bytes(walk.tobytes())
    return path


def time_table(found: dict[str, list[dict]], failures: dict[str, str], effort: Effort) -> Table:
    ours = middle(found["nilometer"], "p50_micros")
    table = Table(
        "Time of `log({5 floats}, step)`",
        {
            "tracker": "each in a process of its own, with system metrics, console capture and code saving off.",
            "p50 µs": "the median call of a round: median of the rounds.",
            "lowest..highest": "of the rounds.",
            "× nilometer": "the median divided by that of nilometer.",
            "p99 µs": "the call that one in a hundred exceeds: median of the rounds.",
            "mean µs": "likewise.",
            "steps/s": "steps divided by the time of the loop and of closing.",
            "steps": "calls in a round.",
            "import s": "of the library, within the process.",
            "init s": "from the import to the first call.",
            "close s": "from the last call to the end.",
        },
        notes=[
            f"Rounds, in turns: {effort.call_rounds}; at most {effort.call_steps} steps or {effort.call_secs:g} s each, after 20 calls to warm up.",
            "The dictionary is built within the timed call; every figure contains the timer, whose own cost is the first row.",
            "TensorBoard, tensorboardX: five calls a step, as their interface wants.",
            "Goal for nilometer: p50 at most 0.3 µs, p99 at most 5 µs.",
            *(f"Not measured: {TITLES[name]} ({reason.splitlines()[-1]})." for name, reason in failures.items()),
        ],
    )
    timer = [each["timer_micros"] for rounds in found.values() for each in rounds]
    cells = [f"{statistics.median(timer):.2f}", spread(timer, 2), times(statistics.median(timer), ours)]
    table.rows.append([TITLES["nothing"], *cells, *["–"] * 7])
    for name, rounds in found.items():
        p50 = middle(rounds, "p50_micros")
        table.rows.append([
            TITLES[name],
            f"{p50:.2f}",
            spread([each["p50_micros"] for each in rounds], 2),
            times(p50, ours),
            f"{middle(rounds, 'p99_micros'):.1f}",
            f"{middle(rounds, 'mean_micros'):.2f}",
            f"{middle(rounds, 'steps_per_sec'):.0f}",
            f"{middle(rounds, 'steps'):.0f}",
            f"{middle(rounds, 'import_secs'):.3f}",
            f"{middle(rounds, 'init_secs'):.3f}",
            f"{middle(rounds, 'close_secs'):.3f}",
        ])
    return table


def space_table(found: dict[str, list[dict]]) -> Table:
    ours = middle(found["nilometer"], "bytes_per_point")
    table = Table(
        "Space of the same calls",
        {
            "tracker": "as above; five random walks.",
            "bytes a point": "size of the whole folder after closing, divided by the points.",
            "× nilometer": "the column before, divided by nilometer's.",
            "while open": "bytes a point before compaction, where the tracker tells.",
            "RSS MB": "growth of resident memory in 100 000 steps, process and helpers, before closing; extrapolated from fewer.",
            "own MB": "the anonymous part of that: the rest is files, which the kernel takes back at need.",
        },
        notes=["Goal for nilometer: at most 14 bytes a point while open, 7 after compaction."],
    )
    for name, rounds in found.items():
        if name == "dictionary":
            continue
        live = [each["live_bytes_per_point"] for each in rounds if each["live_bytes_per_point"] is not None]
        size = middle(rounds, "bytes_per_point")
        table.rows.append([
            TITLES[name],
            f"{size:.1f}",
            times(size, ours),
            f"{statistics.median(live):.1f}" if live else "–",
            f"{middle(rounds, 'rss_bytes_per_step') / 10:.1f}",
            f"{middle(rounds, 'own_bytes_per_step') / 10:.1f}",
        ])
    return table


def middle(rounds: list[dict], key: str) -> float:
    return statistics.median(each[key] for each in rounds)
