#!/usr/bin/env python3
"""Leaks in real cgroups until the kernel kills: when does the alarm stand, and when would it have been in time?

    kill.py [--nilo PATH] [NAME ...]

Each leak runs under `nilo run` in a cgroup (v1) of 900 MiB; needs root. An alarm is in time if it stands by half of the time
that is left once the leak is established, 30 seconds after it began.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup/memory")
LIMIT_MIB = 900
ESTABLISHED_SECS = 30

# What each leak does before it begins, what it keeps a second in MiB, and what it takes and frees above that.
LEAKS = {
    "within-a-minute": dict(rate=19.5),
    "fast": dict(rate=14.0),
    "steady": dict(rate=381 / 60),
    "sawtooth": dict(rate=6.0, tooth=80),
    "after-plateau": dict(rate=7.0, base=250, plateau_secs=60),
    "in-steps": dict(rate=6.0, base=150, step_secs=8.0),
    "slow": dict(rate=4.5, base=60),
}

PROGRAM = """
import sys, time
rate, base, plateau_secs, tooth, step_secs = map(float, sys.argv[1:])
MIB = 1 << 20
kept = [bytearray(int(base * MIB))]
time.sleep(plateau_secs)
print("leaks since", time.time(), flush=True)
begin, given = time.monotonic(), 0.0
while True:
    due = rate * (time.monotonic() - begin)
    if step_secs:
        due = rate * step_secs * int((time.monotonic() - begin) / step_secs)
    if due > given + 0.2:
        kept.append(bytearray(int((due - given) * MIB)))
        given = due
    if tooth:
        scratch = bytearray(int(tooth * MIB)); time.sleep(0.4); del scratch
    time.sleep(0.1)
"""


def leak(name: str, nilo: str) -> dict:
    """Runs one leak to its end; seconds count from the beginning of the leak."""
    settings = dict(base=0, plateau_secs=0, tooth=0, step_secs=0) | LEAKS[name]
    numbers = [str(settings[key]) for key in ("rate", "base", "plateau_secs", "tooth", "step_secs")]
    cgroup = CGROUPS / f"nilo-kill-{os.getpid()}"
    cgroup.mkdir()
    try:
        (cgroup / "memory.limit_in_bytes").write_text(str(LIMIT_MIB << 20))
        with tempfile.TemporaryDirectory() as folder:
            enter = f'echo $$ > {cgroup}/cgroup.procs; exec "$@"'
            command = ["sh", "-c", enter, "sh", sys.executable, "-c", PROGRAM, *numbers]
            started = time.time()
            run = [nilo, "run", "--quiet", "--dir", "runs", "--name", name, "--", *command]
            finished = subprocess.run(run, cwd=folder, text=True, capture_output=True, check=False)
            shown = json.loads(subprocess.check_output([nilo, "show", "--dir", "runs", "--format", "json", name], cwd=folder))
    finally:
        cgroup.rmdir()
    began = float(finished.stdout.split()[-1]) - started
    alerts = [alert for alert in shown["alerts"] if alert["kind"] == "oom-risk" and alert["resource"] == "job memory"]
    raised = [alert["time_nanos"] / 1e9 - began for alert in alerts if alert["raised"]]
    return {"killed_secs": shown["duration_secs"] - began, "alarm_secs": raised[0] if raised else None}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nilo", default="nilo", help="the nilo command (default: the one in PATH)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these leaks, of {', '.join(LEAKS)}")
    arguments = parser.parse_args()
    late = 0
    for name in arguments.names or LEAKS:
        seen = leak(name, os.path.abspath(arguments.nilo) if os.sep in arguments.nilo else arguments.nilo)
        deadline = (ESTABLISHED_SECS + seen["killed_secs"]) / 2
        alarm = seen["alarm_secs"]
        in_time = alarm is not None and alarm <= deadline
        late += not in_time
        words = f"{alarm:.0f} s" if alarm is not None else "none"
        print(f"{name}: killed at {seen['killed_secs']:.0f} s, alarm at {words}, due by {deadline:.0f} s{'' if in_time else ' (late)'}", flush=True)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
