"""Does one job with one tracker: `drive.py TRACKER JOB OPTIONS`, where the options are JSON.

What it found goes to stdout as JSON; what the trackers print goes to stderr.
"""

import importlib
import json
import os
import sys

import calls_job
import kill_job
import overhead_job
import pieces_job
import series_job

JOBS = {
    "calls": calls_job.measure_calls,
    "end": kill_job.log_and_end,
    "count": kill_job.count_readable_steps,
    "write_series": series_job.write,
    "read_series": series_job.read,
    "pieces": pieces_job.measure_pieces,
    "overhead": overhead_job.measure_overhead,
}


def main() -> None:
    name, job, options = sys.argv[1:]
    answer = os.dup(1)
    os.dup2(2, 1)

    def tell(found: dict) -> None:
        os.write(answer, json.dumps(found).encode())

    # Each tracker is a module beside this one: `to_wandb`.
    tracker = importlib.import_module(f"to_{name}")
    JOBS[job](tracker, tell, **json.loads(options))


if __name__ == "__main__":
    main()
