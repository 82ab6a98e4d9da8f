"""One verdict: `show`, `runs`, `oom`, `leak`, the end of `nilo run` and Python say the same of why a job died and where it goes."""

import json
import subprocess
import sys
import textwrap

import pytest
from conftest import MIB, NILO, python, wait_until
from package import QUIET

import nilometer

NO_GPU = {"NILO_NVML": ""}

MEMORY_ERROR = "raise MemoryError('Unable to allocate 1.00 TiB for an array')"
CUDA_OOM = """
    class OutOfMemoryError(RuntimeError):
        pass
    OutOfMemoryError.__module__ = "torch"
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.10 GiB")
"""


def ended(nilo, last, *options):
    """The end of a program that uses the package and dies of its last line, as `nilo run` tells it."""
    program = nilo.folder / "train.py"
    program.write_text("import nilometer\nnilometer.log({'loss': 1})\n" + textwrap.dedent(last))
    return subprocess.run(
        [NILO, "run", *options, "--", sys.executable, str(program)], cwd=nilo.folder, env=QUIET, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "last, kind, finding, words",
    [
        (MEMORY_ERROR, "host-allocation", "out-of-memory", "job memory ran out"),
        (CUDA_OOM, "gpu-allocation", "gpu-out-of-memory", "GPU 1 ran out of memory"),
    ],
)
def test_an_exception_that_says_out_of_memory_is_told_everywhere(nilo, last, kind, finding, words):
    run = ended(nilo, last)
    assert run.returncode == 1
    shown, text = nilo.show(), nilo("show").stdout
    (row,) = nilo.runs()
    oom = json.loads(nilo("oom", "--format", "json").stdout)
    read = nilometer.read_run(nilo.run_folder()).summary()
    assert [(one["kind"], one["severity"]) for one in shown["findings"] if "memory" in one["kind"]] == [(finding, "critical")]
    assert shown["oom"] == row["oom"] == read["oom"]
    assert (shown["oom"]["kind"], shown["oom"]["certainty"]) == (kind, "certain")
    (ran_out,) = [one["ran_out"] for one in oom["resources"] if "ran_out" in one]
    assert (ran_out["kind"], ran_out["at_secs"]) == (kind, shown["oom"]["time_nanos"] / 1e9)
    assert str(shown["oom"]["victim_pid"]) in ran_out["who"]
    for said in (text, run.stderr):
        assert f"critical: {words}" in said and ("exited with 1, out of memory after" in said or "GPU out of memory after" in said)
    assert nilo("oom").returncode == 1


def test_a_run_without_measured_memory_that_ran_out_is_told_by_oom(nilo):
    code = "import nilometer\nnilometer.init(memory=False)\nnilometer.log({'loss': 1})\nraise MemoryError\n"
    result = subprocess.run([sys.executable, "-c", code], cwd=nilo.folder, env=QUIET, capture_output=True, text=True, timeout=120)
    assert result.returncode == 1
    assert nilo.show()["oom"]["kind"] == "host-allocation"
    said = nilo("oom")
    assert said.returncode == 1 and "ran out of memory" in said.stdout, said.stderr


def test_an_exception_of_another_kind_is_no_lack_of_memory(nilo):
    ended(nilo, "raise ValueError('memory')", "-q")
    shown = nilo.show()
    assert shown["oom"] is None and nilo.runs()[0]["oom"] is None
    assert not [one for one in shown["findings"] if "memory" in one["kind"]]


# Keeps so many MiB a second from its first moment on.
LEAK = """
import sys, time
kept, given, begin = [], 0, time.monotonic()
while True:
    due = float(sys.argv[1]) * (time.monotonic() - begin)
    if due > given:
        kept.append(bytearray(int((due - given) * (1 << 20))))
        given = due
    time.sleep(0.05)
"""


def test_growth_that_ended_at_the_limit_is_named_as_the_cause_everywhere(nilo, cgroup):
    cgroup.limit(200 * MIB)
    run = nilo("run", "--", *python(LEAK), "6", preexec_fn=cgroup.enter, timeout=300)
    assert run.returncode == 137 and cgroup.kills == 1
    shown, text = nilo.show(), nilo("show").stdout
    assert shown["duration_secs"] < 60, "a death within the time in which programs load"
    leak_text, oom_text = nilo("leak"), nilo("oom")
    leak = json.loads(nilo("leak", "--format", "json").stdout)
    (told,) = [one for one in leak["resources"] if one["name"] == "job memory"]
    assert (leak["leak"], told["kind"], told["led_to_end"], leak_text.returncode) == (True, "leak", True, 1)
    (found,) = [one for one in shown["findings"] if one["kind"] in ("leak", "growth")]
    assert (found["kind"], found["severity"]) == ("leak", "warning")
    for said in (text, run.stderr, leak_text.stdout, oom_text.stdout):
        assert "leaked" in said and "until memory ran out" in said, said
        assert "too early" not in said and "a program may be loading" not in said
    assert shown["oom"]["growth"]["kind"] == "leak"
    job = next(one for one in json.loads(nilo("oom", "--format", "json").stdout)["resources"] if one["name"] == "job memory")
    assert job["ran_out"]["growth"] == shown["oom"]["growth"]
    assert nilo.runs()[0]["oom"]["growth"]["kind"] == "leak"


def test_a_leak_with_a_limit_ahead_is_a_risk_while_it_runs(nilo, cgroup, job):
    cgroup.limit(2000 * MIB)
    recorded = job(NILO, "run", "-q", "--", *python(LEAK), "3", preexec_fn=cgroup.enter, cwd=nilo.folder, stdout=subprocess.DEVNULL)

    # Before there is a run, `nilo leak` looks at what runs now, and that would be the last run.
    wait_until(nilo.runs, "the run to begin")

    def leaks():
        said = nilo("leak", "--format", "json")
        assert recorded.poll() is None, said.stderr
        return said.returncode == 1

    wait_until(leaks, "the leak to be found", 120)
    oom = nilo("oom", "--format", "json")
    assert recorded.poll() is None
    resource = next(one for one in json.loads(oom.stdout)["resources"] if one["name"] == "job memory")
    assert resource["level"] in ("moderate", "high", "critical") and resource["cause"] == "leak"
    assert 60 < resource["predicted_secs"] < 1800
    assert f"job memory: {resource['level']} risk" in nilo("oom").stdout and "job memory leaks" in nilo("oom").stdout


def test_what_may_be_loading_has_one_verdict(nilo):
    code = "import time\nkept = []\nfor _ in range(150): kept.append(bytearray(b'x') * (2 << 20)); time.sleep(0.1)\n"
    run = nilo("run", "--", sys.executable, "-c", code, extra_env=NO_GPU, timeout=120)
    shown, leak = nilo("show", extra_env=NO_GPU), nilo("leak", extra_env=NO_GPU)
    words = "in the first minute this may be loading"
    for said in (run.stderr, shown.stdout):
        (warning,) = [line for line in said.splitlines() if line.startswith("warning: job memory leaks")]
        assert words in warning
    assert leak.returncode == 1 and words in leak.stdout, leak.stdout
