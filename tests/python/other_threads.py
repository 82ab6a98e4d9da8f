"""Whether other threads of a program come to their turn while something works."""

import threading
import time


def turns_during(work):
    """How often another thread had a turn meanwhile, one each millisecond; with the GIL held throughout, once or never."""
    turns = 0
    done = threading.Event()

    def turn():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        before = turns
        work()
        return turns - before
    finally:
        done.set()
        thread.join()
