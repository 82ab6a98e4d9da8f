"""One judge: text, JSON, exit status, live output and Python say the same of the same memory."""

import json
import subprocess
import sys
import textwrap

import pytest
from conftest import MIB, python
from package import QUIET

NO_GPU = {"NILO_NVML": ""}
LIMIT = 256
LEVELS = ("low", "moderate", "high", "critical")


def blocks(text):
    """Each warning as its name and its lines."""
    found = {}
    for part in text.split("[WARNING] OOM Warning: ")[1:]:
        name, *rest = part.splitlines()
        found[name] = dict(line.strip().split(": ", 1) for line in rest if line.startswith("   ") and ": " in line)
    return found


def held(job, mib, cgroup):
    code = f"held = b'x' * ({mib} << 20); print('ready', flush=True); import time; time.sleep(120)"
    target = job(*python(code), preexec_fn=cgroup.enter, stdout=subprocess.PIPE)
    assert target.stdout.readline() == b"ready\n"
    return target


@pytest.mark.parametrize("mib, threshold, level", [(200, 70, "high"), (244, 70, "critical"), (100, 85, "low"), (244, 99, "low")])
def test_a_standing_level_is_judged_alike_everywhere(nilo, cgroup, job, mib, threshold, level):
    cgroup.limit(LIMIT * MIB)
    target = held(job, mib, cgroup)
    options = ["--pid", target.pid, "--threshold", threshold, "--duration", "2.5", "--no-record"]
    text = nilo("oom", *options, extra_env=NO_GPU)
    as_json = nilo("oom", *options, "--format", "json", extra_env=NO_GPU)
    monitored = nilo("oom", "--monitor", *options, extra_env=NO_GPU)
    everything = nilo("monitor", "--oom", *options, "--format", "json", extra_env=NO_GPU)
    answer = json.loads(as_json.stdout)
    (resource,) = [one for one in answer["resources"] if one["name"] == "job memory"]
    is_warning = LEVELS.index(level) >= 2
    assert (resource["level"], resource["warned"]) == (level, is_warning)
    for result in (text, as_json, monitored, everything):
        assert result.returncode == int(is_warning), result.stdout + result.stderr
    for result in (text, monitored):
        found = blocks(result.stdout)
        assert ("job memory" in found) == is_warning
        if is_warning:
            assert found["job memory"]["Risk Level"] == level
    warnings = [json.loads(line) for line in everything.stdout.splitlines()]
    told = [one["level"] for one in warnings if one["event"] == "warning" and one["name"] == "job memory"]
    assert told == ([level] if is_warning else [])
    assert not is_warning or f"job memory: {level} risk" not in text.stdout


PYTHON = """
    import json, time
    from nilometer.memory import MemoryDebugger, OOMDetector
    held = b"x" * ({mib} << 20)
    detector = OOMDetector({threshold}, devices=["host"])
    (prediction,) = detector.check()
    report = MemoryDebugger(oom_threshold={threshold}, devices=["host"]).get_status_report()
    print(json.dumps(dict(level=prediction.risk_level.value, warning=prediction.is_warning, text=str(prediction),
                          reported=report["oom"][0]["risk_level"])))
"""


@pytest.mark.parametrize("mib, threshold, level", [(190, 70, "high"), (20, 85, "low"), (170, 80, "low")])
def test_python_says_what_the_command_says(tmp_path, cgroup, mib, threshold, level):
    cgroup.limit(LIMIT * MIB)
    code = textwrap.dedent(PYTHON.format(mib=mib, threshold=threshold))
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, preexec_fn=cgroup.enter, cwd=tmp_path, env=QUIET, timeout=60
    )
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert (said["level"], said["reported"], said["warning"]) == (level, level, LEVELS.index(level) >= 2)
    if said["warning"]:
        lines = blocks(said["text"])["job memory"]
        assert lines["Risk Level"] == level and "above the threshold of 70%" in lines["Reason"]


HOG = "b=[]\nimport time\nwhile 1: b.append(bytearray(b'x')*(8<<20)); time.sleep(.02)"


def test_a_run_that_was_oom_killed_ran_out(nilo, cgroup):
    cgroup.limit(128 * MIB)
    assert nilo("run", "-q", "--interval", "0.05", "--", *python(HOG), preexec_fn=cgroup.enter).returncode == 137
    result = nilo("oom")
    assert result.returncode == 1
    said = blocks(result.stdout)["job memory"]
    assert (said["Risk Level"], said["Predicted OOM Time"]) == ("critical", "it has run out")
    assert "ran out of memory" in said["Reason"] and "limit 128 MiB" in said["Reason"] and "peak 1" in said["Reason"]
    as_json = nilo("oom", "--format", "json")
    answer = json.loads(as_json.stdout)
    job = answer["resources"][0]
    assert (as_json.returncode, answer["warned"], answer["level"], job["level"]) == (1, True, "critical", "critical")
    ran_out = job["ran_out"]
    assert (ran_out["kind"], ran_out["limit_bytes"], job["predicted_secs"]) == ("oom-kill", 128 * MIB, None)
    assert ran_out["peak_bytes"] > 100 * MIB and ran_out["at_secs"] > 0


def test_what_runs_out_while_it_is_watched_is_said_in_the_results(nilo, cgroup, job):
    cgroup.limit(128 * MIB)
    target = job(*python("import time\ntime.sleep(1.5)\n" + HOG), preexec_fn=cgroup.enter)
    options = ["--threshold", "100", "--interval", "0.05", "--pid", target.pid, "--format", "json"]
    result = nilo("oom", "--monitor", *options, extra_env=NO_GPU)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    *_, warning, end = events
    assert result.returncode == 1
    assert (warning["event"], warning["level"], warning["ran_out"]["kind"]) == ("warning", "critical", "oom-kill")
    assert end["oom_killed"] and end["warnings"] == sum(event["event"] == "warning" for event in events)


def test_a_job_that_leaks_into_the_machines_memory_is_told_of_once(nilo, job):
    """The job's share of the machine's memory is the job's memory: one judge, one line."""
    leaking = job(*python("import time\nkept = []\nwhile 1: kept.append(bytearray(b'x') * (1 << 20)); time.sleep(.05)"))
    assert nilo("watch", "--quiet", "--pid", leaking.pid, "--interval", "0.1", "--duration", "20", extra_env=NO_GPU).returncode == 0
    limits = [one["limit_bytes"] for one in json.loads(nilo("leak", "--format", "json").stdout)["resources"] if one["name"] == "job memory"]
    told = nilo("leak").stdout
    assert "job memory: leaks " in told
    assert "host memory" not in told
    if limits == [None]:
        judged = nilo("oom").stdout
        assert "host memory leaks" not in judged and ": job memory leaks by " in judged, judged
