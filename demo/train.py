"""A small training job in plain Python: warm-up, a step sawtooth, two workers, an evaluation bump, and a slow leak.

It stands in for a real job in `make demo`, so that the pictures show what real jobs show.
"""

import multiprocessing
import os
import subprocess
import time

STEPS = 60
MIB = 1 << 20


def touched(mebibytes):
    """A buffer whose pages are really there."""
    buffer = bytearray(mebibytes * MIB)
    buffer[::4096] = b"x" * len(buffer[::4096])
    return buffer


def load_batches(queue):
    """A data worker: holds its shard and hands out batches."""
    shard = touched(40)
    while queue.get() is not None:
        shard[0] = (shard[0] + 1) % 256


def mark(text):
    """Marks show up in the picture when the job runs under `nilo run`."""
    nilo = os.environ.get("NILO", "nilo")
    if "NILO_RUN_DIR" in os.environ:
        try:
            subprocess.run([nilo, "mark", text], check=False)
        except FileNotFoundError:
            pass


def main():
    weights = touched(80)
    queues = [multiprocessing.Queue() for _ in range(2)]
    workers = [multiprocessing.Process(target=load_batches, args=(queue,)) for queue in queues]
    for worker in workers:
        worker.start()
    leaked = []
    for step in range(STEPS):
        if step % 20 == 0:
            mark(f"epoch {step // 20}")
        for queue in queues:
            queue.put(step)
        activations = [touched(12) for _ in range(4)]
        time.sleep(0.02)
        gradients = touched(60)
        time.sleep(0.02)
        del activations, gradients
        leaked.append(touched(1))
        if step % 20 == 19:
            evaluation = touched(120)
            time.sleep(0.1)
            del evaluation
            print(f"step {step + 1:3d}  loss {2.0 / (1 + step) ** 0.5:.3f}", flush=True)
    for queue in queues:
        queue.put(None)
    for worker in workers:
        worker.join()
    return weights


if __name__ == "__main__":
    main()
