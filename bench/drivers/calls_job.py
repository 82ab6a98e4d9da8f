"""Times every single call of `log({5 floats}, step)`."""

import time
from array import array
from pathlib import Path

from own_processes import memory_bytes

WARM_UP_STEPS = 20


def measure_calls(tracker, tell, folder: str, walk: str, most_steps: int, longest_secs: float) -> None:
    values = read_walk(walk)
    took_nanos = array("q", bytes(8 * most_steps))
    now = time.perf_counter_ns
    at_start = now()
    library = tracker.load()
    at_import = now()
    session = tracker.begin(library, folder)
    at_init = now()
    log = session.log
    for step in range(WARM_UP_STEPS):
        log({"loss": 1.0, "accuracy": 0.5, "learning_rate": 0.1, "gradient_norm": 2.0, "reward": 0.0}, step)
    rss_before, own_before = memory_bytes()
    at_loop = now()
    deadline = at_loop + int(longest_secs * 1e9)
    for index in range(most_steps):
        a, b, c, d, e = values[5 * index : 5 * index + 5]
        step = index + WARM_UP_STEPS
        started = now()
        log({"loss": a, "accuracy": b, "learning_rate": c, "gradient_norm": d, "reward": e}, step)
        ended = now()
        took_nanos[index] = ended - started
        if ended > deadline:
            break
    rss_after, own_after = memory_bytes()
    points = 5 * (index + 1 + WARM_UP_STEPS)
    written_bytes = session.written_bytes() if session.written_bytes else None
    at_close = now()
    session.close()
    at_end = now()
    took = sorted(took_nanos[: index + 1])
    tell({
        "steps": len(took),
        "timer_micros": timer_micros(),
        "p50_micros": took[len(took) // 2] / 1e3,
        "p99_micros": took[len(took) * 99 // 100] / 1e3,
        "mean_micros": sum(took) / len(took) / 1e3,
        "steps_per_sec": len(took) / ((ended - at_loop + at_end - at_close) / 1e9),
        "bytes_per_point": folder_bytes(folder) / points,
        "live_bytes_per_point": None if written_bytes is None else written_bytes / points,
        "rss_bytes_per_step": (rss_after - rss_before) / len(took),
        "own_bytes_per_step": (own_after - own_before) / len(took),
        "import_secs": (at_import - at_start) / 1e9,
        "init_secs": (at_init - at_import) / 1e9,
        "close_secs": (at_end - at_close) / 1e9,
    })


def timer_micros() -> float:
    """What two readings of the clock with nothing between them say."""
    now = time.perf_counter_ns
    took = array("q", bytes(8 * 20_000))
    for index in range(len(took)):
        started = now()
        ended = now()
        took[index] = ended - started
    return sorted(took)[len(took) // 2] / 1e3


def read_walk(path: str) -> array:
    """The random walks, five doubles a step."""
    return array("d", Path(path).read_bytes())


def folder_bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
