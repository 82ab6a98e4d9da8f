"""What a script does that asks psutil for the memory of a process tree; needs psutil, so it runs in the rivals' environment.

    psutil_tree.py PID SAMPLES

Prints as JSON: the median wall milliseconds and the mean CPU milliseconds of one sample.
"""

import json
import statistics
import sys
import time

import psutil


def tree_rss_bytes(pid: int) -> int:
    parent = psutil.Process(pid)
    return sum(process.memory_info().rss for process in [parent, *parent.children(recursive=True)])


def main() -> None:
    pid, samples = int(sys.argv[1]), int(sys.argv[2])
    walls = []
    cpu_started = time.process_time()
    for _ in range(samples):
        started = time.perf_counter()
        tree_rss_bytes(pid)
        walls.append(time.perf_counter() - started)
    cpu = (time.process_time() - cpu_started) / samples
    print(json.dumps({"median_wall_ms": statistics.median(walls) * 1e3, "mean_cpu_ms": cpu * 1e3}))


if __name__ == "__main__":
    main()
