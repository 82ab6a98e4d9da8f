"""Processes in cgroups with different limits: each is held against its own."""

import json
import os
import pathlib
import shlex
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


def in_cgroup(cgroup, code):
    """A shell outside of the cgroup, whose child moves itself there and becomes Python."""
    inner = "echo $$ > {}; exec {} -c {}".format(cgroup.procs, python("")[0], shlex.quote(code))
    return ["sh", "-c", f"sh -c {shlex.quote(inner)}; echo inner $?"]


GROW = "import time\nheld = []\nwhile True: held.append(bytearray(b'x') * (2 << 20)); time.sleep(.05)"


def test_a_child_in_a_cgroup_of_its_own_is_held_against_its_limit(nilo, small):
    result = nilo("run", "--interval", "0.1", "--", *in_cgroup(small, GROW), extra_env=NO_GPU)
    assert (result.returncode, result.stdout, small.kills) == (0, "inner 137\n", 1)
    shown = nilo.show()
    assert (shown["status"], shown["oom"]["limit"]["bytes"]) == ("oom-killed", 256 * MIB)
    assert shown["oom"]["limit"]["source"]["path"] == small.path
    assert (shown["memory"]["limit_bytes"], shown["memory"]["limit_used_bytes"]) == (256 * MIB, 256 * MIB)
    before = [alert for alert in shown["alerts"] if alert["time_nanos"] < shown["oom"]["time_nanos"]]
    assert any(alert["limit_bytes"] == 256 * MIB for alert in before), shown["alerts"]
    judged = nilo("oom", "--format", "json")
    worst = json.loads(judged.stdout)["resources"][0]
    assert (judged.returncode, worst["limit_bytes"], worst["used_percent"]) == (1, 256 * MIB, 100)


def test_a_watch_from_outside_sees_the_limit_of_the_child(nilo, small, job, tmp_path):
    ready = tmp_path / "ready"
    code = f"held = b'x' * (225 << 20); open({str(ready)!r}, 'w').close(); import time; time.sleep(120)"
    # The parent holds as much, and has no limit but the machine's.
    inner = shlex.join(["sh", "-c", f"echo $$ > {small.procs}; exec {shlex.join(python(code))}"])
    outer = f"import subprocess\nheld = b'x' * (225 << 20)\nsubprocess.run({inner!r}, shell=True)"
    target = job(*python(outer))
    wait_until(ready.exists, "memory to be held")
    status, resources = judged(nilo, target.pid)
    assert status == 1
    assert resources[f"cgroup {small.path}"]["limit_bytes"] == 256 * MIB
    assert resources[f"cgroup {small.path}"]["warned"] and not resources["job memory"]["warned"]


def test_the_growth_of_a_job_in_a_shared_cgroup_is_its_own(nilo, large, job):
    neighbour = "import time\nheld = []\nwhile True: held.append(bytearray(b'x') * (1 << 20)); time.sleep(.05)"
    job(*python(neighbour), preexec_fn=large.enter)
    grow = "import time\nheld = []\nfor _ in range(300): held.append(bytearray(b'x') * (1 << 18)); time.sleep(.05)"
    result = nilo("run", "-q", "--interval", "0.1", "--", *python(grow), preexec_fn=large.enter, extra_env=NO_GPU)
    assert result.returncode == 0, result.stderr
    answer = json.loads(nilo("leak", "--format", "json").stdout)
    [of_job] = [resource for resource in answer["resources"] if resource["name"] == "job memory"]
    # The job grows by 75 MiB, its cgroup by five times that.
    assert 30 * MIB < of_job["grown_bytes"] < nilo.show()["memory"]["peak_bytes"]


def test_a_neighbours_kill_is_not_told_of_a_job_that_went_well(nilo, small, job, tmp_path):
    done = tmp_path / "done"
    quiet = f"import os, time\nwhile not os.path.exists({str(done)!r}): time.sleep(.05)\ntime.sleep(1.5)"
    run = nilo.start("run", "-q", "--interval", "0.1", "--", *python(quiet), preexec_fn=small.enter, extra_env=NO_GPU)
    wait_until(lambda: len(small.procs.read_text().split()) >= 2, "the run to be in the cgroup")
    hog = job(*python(GROW), preexec_fn=small.enter)
    assert hog.wait(timeout=60) == -signal.SIGKILL
    done.touch()
    run.communicate(timeout=60)
    assert (run.returncode, small.kills) == (0, 1)
    shown = nilo.show()
    assert (shown["status"], shown["oom"]) == ("exited", None)
    assert not [finding for finding in shown["findings"] if finding["kind"] == "oom-kill"]


def test_a_profile_shows_no_more_than_the_limit(nilo, small, job, tmp_path):
    target = held(job, 240, small, tmp_path / "ready")
    result = nilo("profile", "--pid", target.pid, "--duration", "2", "--format", "json", extra_env=NO_GPU)
    own = json.loads(result.stdout)["processes"]
    _, resources = judged(nilo, target.pid)
    assert own["current_usage"]["total"] == 256 * MIB
    assert own["current_usage"]["utilization_percent"] == pytest.approx(resources["job memory"]["used_percent"], abs=1)
    assert own["statistics"]["max_utilization"] <= 100
