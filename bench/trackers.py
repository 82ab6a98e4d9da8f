#!/usr/bin/env python3
"""Measures nilometer and other metric trackers in the same run, on this machine.

    python3 bench/trackers.py                                     tables on the terminal, about ten minutes
    python3 bench/trackers.py --quick                             the same, about three minutes
    python3 bench/trackers.py --only call_cost kill_loss          some of them
    python3 bench/trackers.py --markdown docs/benchmarks/trackers.md

Nothing is asserted about times: the reader compares the columns.
"""

import sys

import call_cost
import import_time
import kill_loss
import piece_cost
import series_reading
import step_overhead
import tracker_environment
from frame import Program
from tracker_settings import NORMAL, QUICK

PROGRAM = Program(
    "bench/trackers.py",
    "What logging costs, and what survives",
    ["nilometer and the other trackers were measured in the same run; where there are rounds, in turns."],
    {
        "call_cost": call_cost.measure,
        "kill_loss": kill_loss.measure,
        "series_reading": series_reading.measure,
        "import_time": import_time.measure,
        "piece_cost": piece_cost.measure,
        "step_overhead": step_overhead.measure,
    },
)


def main() -> None:
    parser = PROGRAM.parser("Measure nilometer and other metric trackers in the same run.")
    parser.add_argument("--quick", dest="effort", action="store_const", const=QUICK, default=NORMAL, help="few repetitions, without Aim")
    parser.add_argument("--install-nilometer", action="store_true", help="build and install nilometer, instead of taking the working tree's")
    arguments = parser.parse_args()
    trackers = tracker_environment.install(arguments.install_nilometer, arguments.effort.with_aim)

    def about_versions() -> list[str]:
        left_out = [] if trackers.has_aim else ["Aim was left out."]
        return [f"Versions: {tracker_environment.versions(trackers)}.", *left_out]

    PROGRAM.measure(arguments, (trackers, arguments.effort), about_versions)


if __name__ == "__main__":
    main()
