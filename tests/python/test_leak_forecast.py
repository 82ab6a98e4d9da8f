"""A leak and a limit are a forecast: in a real cgroup the alarm stands long before the kernel kills."""

import json

import pytest
from conftest import MIB, python

LIMIT_MIB = 400
ESTABLISHED_SECS = 30

# Keeps so many MiB a second from its first moment on.
LEAK = """
import time
kept, given, begin = [], 0, time.monotonic()
while True:
    due = 5.5 * (time.monotonic() - begin)
    if due > given:
        kept.append(bytearray(int((due - given) * (1 << 20))))
        given = due
    time.sleep(0.05)
"""


# The same in two forked workers together; the job ends with the first of them.
LEAK_IN_WORKERS = f"""
import os, signal
workers = []
for _ in range(2):
    worker = os.fork()
    if not worker:
        exec({LEAK.replace("5.5", "2.75")!r})
    workers.append(worker)
killed, _ = os.wait()
for worker in workers:
    if worker != killed:
        os.kill(worker, signal.SIGKILL)
"""


@pytest.mark.parametrize("program", [LEAK, LEAK_IN_WORKERS], ids=["main-process", "forked-workers"])
def test_a_leak_is_foretold_by_half_of_the_time_that_is_left_to_it(nilo, cgroup, program):
    cgroup.limit(LIMIT_MIB * MIB)
    nilo("run", "--quiet", "--", *python(program), preexec_fn=cgroup.enter, timeout=300)
    assert cgroup.kills == 1
    shown = nilo.show()
    assert shown["oom"] is not None
    alerts = [alert for alert in shown["alerts"] if alert["kind"] == "oom-risk" and alert["resource"] == "job memory"]
    assert alerts and alerts[0]["raised"], shown["alerts"]
    # Times of the recording, not of this test: on a busy machine the leak is as late as its alarm.
    killed_secs = shown["duration_secs"]
    alarm_secs = alerts[0]["time_nanos"] / 1e9
    assert ESTABLISHED_SECS / 2 < alarm_secs <= (ESTABLISHED_SECS + killed_secs) / 2, (alarm_secs, killed_secs)
    assert all(alert["raised"] for alert in alerts), "the alarm stands until the kill"
    left = killed_secs - alarm_secs
    assert alerts[0]["seconds_left_low"] <= 1.5 * left and alerts[0]["seconds_left_high"] >= left / 1.5
    leak = json.loads(nilo("leak", "--format", "json").stdout)
    assert "leak" in [resource["kind"] for resource in leak["resources"]]
