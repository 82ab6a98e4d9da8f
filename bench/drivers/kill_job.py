"""Logs and is killed; counts what can be read afterwards."""

import os
import signal
import time

from own_processes import helpers
from session import NAMES


def log_and_end(tracker, tell, folder: str, steps: int, pace_secs: float, longest_secs: float, end: str) -> None:
    """Logs, says how much, and ends: by `close`, by `kill`, or by `kill_tree`, where the tracker's helpers go first."""
    session = tracker.begin(tracker.load(), folder)
    found = helpers()  # asked for now: at the end it would take a moment in which a queue could empty
    deadline = time.monotonic() + longest_secs
    for step in range(steps):
        if step and pace_secs:
            time.sleep(pace_secs)
        session.log({name: step + index / 8 for index, name in enumerate(NAMES)}, step)
        if not pace_secs and time.monotonic() > deadline:
            break
    if end == "close":
        session.close()
        tell({"logged": step + 1})
        return
    if end == "kill_tree":
        for pid in found:
            os.kill(pid, signal.SIGKILL)
    tell({"logged": step + 1, "helpers": found})
    os.kill(os.getpid(), signal.SIGKILL)


def count_readable_steps(tracker, tell, folder: str, killed: list[str]) -> None:
    tell({"readable": [tracker.readable_steps(each) for each in killed]})
