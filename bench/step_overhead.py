"""What nilometer adds to a training step of 5 ms."""

import math
import statistics

from page import Table
from processes import scratch_folder
from tracker_environment import Trackers, drive
from tracker_settings import Effort


def measure(trackers: Trackers, effort: Effort) -> Table:
    with scratch_folder() as scratch:
        folder = scratch / "overhead"
        folder.mkdir()
        found = drive(trackers, "nilometer", "overhead", folder, turns=effort.overhead_turns)
    plain = found["cpu_nanos"]["plain"]
    step = statistics.median(plain)
    added = [with_it - without for with_it, without in zip(found["cpu_nanos"]["recorded"], plain, strict=True)]
    added_by_empty = [with_it - without for with_it, without in zip(found["cpu_nanos"]["empty"], plain, strict=True)]
    table = Table(
        "Added to a training step of 5 ms",
        {
            "figure": "a step: three timed phases around the work, one throughput update, one `log` of five values, one set_step.",
            "µs a step": "the median; CPU time of the whole process, and wall time for the calls alone.",
            "95 % interval": "where that median lies with 95 % certainty.",
            "% of the step": "the median, in parts of the plain step.",
        },
        notes=[
            f"{effort.overhead_turns} turns of a plain step, one with nilometer and one with empty calls, in random order; each is compared with"
            " the plain one of its turn. Matrix products on one thread.",
            "Between two calls the matrices push the code of the calls out of the processor's caches;"
            " empty functions of Python show what that costs at least, the calls in a loop what is left without it.",
            "Goal: at most 0.1 %.",
        ],
    )
    for title, nanos in {
        "plain step": plain,
        "added by nilometer": added,
        "added by empty Python calls in the same places": added_by_empty,
        "nilometer's calls together, after a plain step": found["cold_call_nanos"],
        "nilometer's calls together, in a loop": found["warm_call_nanos"],
    }.items():
        low, high = median_interval(nanos)
        median = statistics.median(nanos)
        table.rows.append([title, f"{median / 1e3:.2f}", f"{low / 1e3:.2f}..{high / 1e3:.2f}", f"{median / step * 100:.3f}"])
    return table


def median_interval(figures: list[float]) -> tuple[float, float]:
    """Where the median lies with 95 % certainty, whatever the distribution: from the ranks of a binomial."""
    ordered, half_width = sorted(figures), 0.98 * math.sqrt(len(figures))
    middle = len(figures) / 2
    return ordered[max(0, math.floor(middle - half_width))], ordered[min(len(ordered) - 1, math.ceil(middle + half_width))]
