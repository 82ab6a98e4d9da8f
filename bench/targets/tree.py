"""A stable process tree to be watched: a parent with 64 MiB and workers with 8 MiB each, all asleep.

    tree.py PROCESSES SECONDS [REPORT]

The shape is that of a training job with data-loading workers; asleep, so that nearly all CPU time seen is the monitor's.
Prints "ready" when the tree stands.
At its end it writes to REPORT the CPU seconds that the tree itself took,
so that they can be taken off what a monitor that started the tree is charged with.
"""

import os
import resource
import signal
import sys
import time

PARENT_BYTES = 64 << 20
WORKER_BYTES = 8 << 20


def touched(size_bytes: int) -> bytearray:
    memory = bytearray(size_bytes)
    memory[::4096] = b"x" * len(memory[::4096])
    return memory


def start_worker() -> int:
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        memory = touched(WORKER_BYTES)
        parent = os.getppid()
        while os.getppid() == parent and memory:  # a worker does not outlive its parent
            time.sleep(60)
        os._exit(0)
    return pid


def cpu_secs() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def main() -> None:
    processes, seconds = int(sys.argv[1]), float(sys.argv[2])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    workers = [start_worker() for _ in range(processes - 1)]
    try:
        memory = touched(PARENT_BYTES)
        print("ready", flush=True)
        time.sleep(seconds)
        del memory
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
            os.waitpid(worker, 0)
    if len(sys.argv) > 3:
        with open(sys.argv[3], "w") as report:
            print(cpu_secs(), file=report)


if __name__ == "__main__":
    main()
