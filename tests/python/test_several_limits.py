"""Processes in cgroups with different limits: each is held against its own."""

import json
import os
import pathlib
import signal
import subprocess

import pytest
from conftest import MIB, python, wait_until

NO_GPU = {"NILO_NVML": ""}


@pytest.fixture
def small(cgroup):
    cgroup.limit(256 * MIB)
    return cgroup


@pytest.fixture
def large(other_cgroup):
    other_cgroup.limit(1024 * MIB)
    return other_cgroup


def held(job, mib, cgroup, name):
    code = f"held = b'x' * ({mib} << 20); open({str(name)!r}, 'w').write('ready'); import time; time.sleep(120)"
    target = job(*python(code), preexec_fn=cgroup.enter)
    wait_until(name.exists, "memory to be held")
    return target


def judged(nilo, *pids):
    result = nilo("oom", "--pid", *pids, "--duration", "2", "--format", "json", extra_env=NO_GPU)
    answer = json.loads(result.stdout)
    return result.returncode, {resource["name"]: resource for resource in answer["resources"]}


@pytest.mark.parametrize("order", [1, -1])
def test_the_sum_is_not_held_against_the_smaller_limit(nilo, small, large, job, tmp_path, order):
    targets = [held(job, 100, small, tmp_path / "a"), held(job, 400, large, tmp_path / "b")]
    status, resources = judged(nilo, *[target.pid for target in targets][::order])
    assert status == 0
    assert resources["job memory"]["limit_bytes"] is None
    for cgroup, mib, limit in ((small, 100, 256), (large, 400, 1024)):
        own = resources[f"cgroup {cgroup.path}"]
        assert (own["limit_bytes"], own["warned"]) == (limit * MIB, False)
        assert mib * MIB < own["used_bytes"] < (mib + 60) * MIB


def test_the_one_that_is_full_is_warned_of(nilo, small, large, job, tmp_path):
    targets = [held(job, 400, large, tmp_path / "a"), held(job, 225, small, tmp_path / "b")]
    status, resources = judged(nilo, *[target.pid for target in targets])
    assert status == 1
    assert resources[f"cgroup {small.path}"]["warned"] and not resources[f"cgroup {large.path}"]["warned"]
    assert not resources["job memory"]["warned"]


def test_alerts_and_the_summary_of_a_watch_over_all_know_both_limits(nilo, small, large, job, tmp_path):
    name = f"both-{os.getpid()}.py"
    (tmp_path / name).write_text(
        "import sys, time\nheld = b'x' * (int(sys.argv[1]) << 20)\nopen(sys.argv[2], 'w').close()\ntime.sleep(120)\n"
    )
    interpreter = python("")[0]
    for mib, cgroup, ready in ((225, small, "small"), (400, large, "large")):
        job(interpreter, str(tmp_path / name), str(mib), str(tmp_path / ready), preexec_fn=cgroup.enter)
        wait_until((tmp_path / ready).exists, "memory to be held")
    result = nilo("watch", "--name", name, "--all", "--duration", "4", "--interval", "0.1", extra_env=NO_GPU)
    assert result.returncode == 0, result.stderr
    shown = nilo.show()
    raised = {alert["resource"] for alert in shown["alerts"] if alert["raised"]}
    assert f"cgroup {small.path}" in raised and f"cgroup {large.path}" not in raised and "job memory" not in raised
    assert shown["memory"]["limit_bytes"] not in (256 * MIB, 1024 * MIB)


def test_two_processes_in_one_cgroup_share_its_limit(nilo, small, job, tmp_path):
    targets = [held(job, 60, small, tmp_path / "a"), held(job, 60, small, tmp_path / "b")]
    status, resources = judged(nilo, *[target.pid for target in targets])
    assert (status, resources["job memory"]["limit_bytes"]) == (0, 256 * MIB)
    assert f"cgroup {small.path}" not in resources


def reads(monitor, target):
    """Whether the monitor keeps the memory figures of a process open."""
    files = pathlib.Path("/proc", str(monitor.pid), "fd")
    return any(os.path.realpath(file) == f"/proc/{target.pid}/statm" for file in files.iterdir())


def test_a_kill_in_one_of_them_names_its_limit(nilo, small, large, job, tmp_path):
    other = held(job, 400, large, tmp_path / "a")
    begin = tmp_path / "begin"
    wait = f"import os, time\nwhile not os.path.exists({str(begin)!r}): time.sleep(.02)\n"
    hog = wait + "held = []\nwhile True: held.append(bytearray(b'x') * (8 << 20)); time.sleep(.02)"
    killed = job(*python(hog), preexec_fn=small.enter)
    options = ["--interval", "0.05", "--duration", "12", "--quiet", "--no-record", "--format", "json"]
    # On a busy machine the monitor may begin seconds later: it must be there before the kill.
    monitor = nilo.start("oom", "--monitor", "--pid", other.pid, killed.pid, *options, extra_env=NO_GPU)
    wait_until(lambda: reads(monitor, killed), "the monitor to read the process")
    begin.touch()
    out, err = monitor.communicate(timeout=120)
    result = subprocess.CompletedProcess(monitor.args, monitor.returncode, out, err)
    events = [json.loads(line) for line in out.splitlines()]
    # The kernel killed it, and nobody else did.
    assert (killed.wait(timeout=60), small.kills) == (-signal.SIGKILL, 1), result.stdout
    assert result.returncode == 1, result.stdout
    ran_out = [event for event in events if event.get("ran_out")]
    assert ran_out, result.stdout + result.stderr
    assert ran_out[-1]["name"] == f"cgroup {small.path}" and ran_out[-1]["ran_out"]["limit_bytes"] == 256 * MIB
    warned = {event["name"] for event in events if event["event"] == "warning"}
    assert f"cgroup {small.path}" in warned and f"cgroup {large.path}" not in warned
