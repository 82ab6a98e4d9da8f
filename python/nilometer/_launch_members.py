"""Which launch a rank belongs to, where launches have no name of their own: `RANK` set by hand, or a shell below `srun` or `mpirun` that starts a program twice."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

from . import _native

_MARK = "rank"
_PARTS = 6


@dataclass(frozen=True)
class Member:
    """A rank and its process, as `process_key` has it: machine, PID, and when it was started in clock ticks."""

    rank: int
    process: str

    def line(self) -> str:
        """For the file of the launch, with the time of its joining."""
        return f"{_MARK} {self.rank} {time.clock_gettime(time.CLOCK_BOOTTIME):.2f} {self.process}"


def members_in(lines: set[str]) -> dict[Member, float]:
    """The members in the lines of a launch's file, and when each joined."""
    found = {}
    for line in lines:
        parts = line.split(" ")
        if len(parts) == _PARTS and parts[0] == _MARK and parts[1].isdecimal():
            with contextlib.suppress(ValueError):
                found[Member(int(parts[1]), " ".join(parts[3:]))] = float(parts[2])
    return found


def is_of_launch(member: Member, members: dict[Member, float]) -> bool:
    """Whether a process is of the launch that has these members: its rank is not taken, and it ran beside one of them."""
    if any(known.rank == member.rank for known in members):
        return False
    return not members or any(_overlap(member, known, joined_secs) for known, joined_secs in members.items())


def _overlap(member: Member, known: Member, joined_secs: float) -> bool:
    host, _, started = member.process.split(" ")
    known_host, known_pid, known_started = known.process.split(" ")
    if host != known_host:
        # Nobody can tell from here.
        return True
    if known_pid.isdecimal() and str(_native.process_started(int(known_pid)) or "gone") == known_started:
        return True
    # It has ended: it ran beside this one if it joined after this one was started.
    return not started or int(started) / os.sysconf("SC_CLK_TCK") <= joined_secs
