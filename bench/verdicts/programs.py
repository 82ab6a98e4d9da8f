"""Small programs whose use of memory has a known nature; record.py runs each of them in a cgroup of 256 MiB.

    programs.py NAME

A program lasts 20 to 40 seconds, or until the kernel kills it. Sleeps vary by chance, as work does.
"""

import os
import random
import sys
import tempfile
import time

MIB = 1 << 20
STOP = 10  # exit status of a program whose worker died


def memory(mib: float) -> bytearray:
    """Memory that is really there: every page is written."""
    return bytearray(int(mib * MIB))


def pause(seconds: float) -> None:
    time.sleep(seconds * random.uniform(0.7, 1.3))


def list_append_leak() -> None:
    kept = []
    while True:
        kept.append(memory(1))
        pause(0.11)


def sawtooth(leak_mib: float, low_mib: float, high_mib: float, seconds: float) -> None:
    kept = [memory(low_mib)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        activations = []
        for _ in range(10):
            activations.append(memory(high_mib / 10))
            pause(0.06)
        while activations:
            activations.pop()
            pause(0.03)
        if leak_mib:
            kept.append(memory(leak_mib))


def warm_up_plateau() -> None:
    kept = []
    for number in range(95):
        kept.append(memory(2))
        pause(0.02 * 1.03**number)
    end = time.monotonic() + 18
    while time.monotonic() < end:
        scratch = memory(2)
        pause(0.05)
        del scratch


def page_cache() -> None:
    kept = memory(40)
    with tempfile.TemporaryDirectory(dir=".") as folder:
        for number in range(40):
            path = os.path.join(folder, str(number))
            with open(path, "wb") as file:
                for _ in range(10):
                    file.write(kept[:MIB])
                    pause(0.05)
                os.fsync(file.fileno())
            # Pages that are read twice are active: they count as working set.
            for _ in range(2):
                with open(path, "rb") as file:
                    while file.read(MIB):
                        pass


def workers(count: int, work) -> None:
    """Forks workers; when one is killed, all end."""
    children = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            random.seed()
            work()
            os._exit(0)
        children.append(pid)
    for _ in children:
        _, status = os.wait()
        if status:
            for pid in children:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
            sys.exit(STOP)


def copy_on_write() -> None:
    items = [f"{number:060d}" for number in range(380_000)]  # about 40 MiB

    def read() -> None:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            # Looking at an object writes its reference count, and the page becomes a copy.
            for _ in range(3):
                start = random.randrange(len(items))
                seen = items[start : start + 200]
            del seen
            pause(0.01)

    workers(4, read)


def workers_leak() -> None:
    def leak() -> None:
        kept = []
        while True:
            kept.append(memory(1))
            pause(0.35)

    workers(3, leak)


def slow_leak() -> None:
    kept = [memory(30)]
    end = time.monotonic() + 30
    while time.monotonic() < end:
        kept.append(memory(0.3))
        pause(0.2)


def evaluation_bumps() -> None:
    kept = memory(80)
    end = time.monotonic() + 34
    while time.monotonic() < end:
        for _ in range(100):
            scratch = memory(3)
            pause(0.05)
        evaluated = []
        for _ in range(16):
            evaluated.append(memory(6))
            pause(0.05)
        pause(1.5)
        del evaluated, scratch
    del kept


def checkpoints(base_mib: float, spike_mib: float, leak_mib: float, seconds: float) -> None:
    kept = [memory(base_mib)]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(20):
            kept.append(memory(leak_mib))
            pause(0.13)
        copy = memory(spike_mib)
        pause(0.4)
        del copy


PROGRAMS = {
    "list-append-leak": list_append_leak,
    "sawtooth-leak": lambda: sawtooth(6, 10, 60, 60),
    "sawtooth-flat": lambda: sawtooth(0, 90, 85, 30),
    "warm-up-plateau": warm_up_plateau,
    "page-cache": page_cache,
    "copy-on-write": copy_on_write,
    "workers-leak": workers_leak,
    "slow-leak": slow_leak,
    "evaluation-bumps": evaluation_bumps,
    "checkpoint-spikes": lambda: checkpoints(110, 70, 0, 32),
    "checkpoint-spikes-leak": lambda: checkpoints(50, 70, 0.5, 90),
}

if __name__ == "__main__":
    random.seed(20)
    PROGRAMS[sys.argv[1]]()
