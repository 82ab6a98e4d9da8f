"""The commands of the GPU memory document as it writes them, with a driver whose numbers the test makes up."""

import json
import re
import signal
import subprocess
import sys

import pytest
from conftest import NILO, Nilo, unavailable, wait_until
from fake_nvml import GIB, FakeDriver, gpu_line


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(folder)


def test_oom_of_a_device_monitors_it(nilo, driver):
    driver.say(gpu_line(2 * GIB))
    process = nilo.start("oom", "--devices", "0", "--threshold", "90", extra_env=driver.environment)
    try:
        assert "monitoring this machine every 0.1 s; Ctrl+C to stop" in process.stderr.readline()
        # Longer than a short look takes: the warning can only come from one that goes on.
        with pytest.raises(Exception):
            process.wait(4)
        driver.say(gpu_line(14 * GIB))
        block = [process.stdout.readline() for _ in range(3)]
        assert block == ["[WARNING] OOM Warning: GPU 0\n", "   Risk Level: high\n", "   Current Usage: 93.3%\n"]
        assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 1


def test_a_gpu_that_stands_still_is_judged(nilo, driver):
    driver.say(gpu_line(6 * GIB))
    oom = nilo.start("oom", "--devices", "0", "--duration", "12", "--format", "json", "--quiet", extra_env=driver.environment)
    leak = nilo.start("leak", "--check", "--devices", "0", "--duration", "12", "--quiet", extra_env=driver.environment)
    out, err = oom.communicate(timeout=120)
    assert oom.returncode == 0, err
    (gpu,) = json.loads(out)["resources"]
    assert gpu["readings"] >= 5 and gpu["watched_secs"] > 9
    out, err = leak.communicate(timeout=120)
    assert (leak.returncode, out) == (0, "no leak found\n"), err


RUNS = "import time\nopen('running', 'w').close()\n"
LEAKS = RUNS + "kept = []\nwhile True: kept.append(bytearray(b'x') * (1 << 20)); time.sleep(0.1)\n"
STANDS_STILL = RUNS + "kept = bytearray(b'x') * (64 << 20)\nwhile True: time.sleep(0.1)\n"


def test_leak_check_without_a_run_looks_at_what_runs_now(tmp_path):
    """In a PID namespace of its own for each program: nobody else's programs run there."""

    def check(name, code):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.py").write_text(code)
        # What runs now is looked for once: on a busy machine the program may not have begun by then.
        script = '"$0" "$1" & until [ -e running ]; do sleep 0.05; done; "$2" leak --check --threshold 100; exit $?'
        alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, sys.executable, f"{name}.py", NILO]
        environment = Nilo(folder).environment | {"NILO_NVML": ""}
        return subprocess.Popen(alone, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True).returncode != 0:
        unavailable("no PID namespace of its own to be had")
    leaking, standing = check("leaks", LEAKS), check("stands", STANDS_STILL)
    try:
        out, err = leaking.communicate(timeout=180)
        assert leaking.returncode == 1, err
        assert re.fullmatch(r"leak found: job memory leaks .* in .*leaks\.py \(PID \d+\)\n", out), out
        assert re.search(r"monitoring .*leaks\.py \(PID \d+\) every 0.1 s for 30 seconds", err), err
        out, err = standing.communicate(timeout=180)
        assert (standing.returncode, out) == (0, "no leak found\n"), err
        assert re.search(r"monitoring .*stands\.py \(PID \d+\)", err), err
        # Nobody asked to record them.
        assert not list(tmp_path.glob("*/.nilo"))
    finally:
        for process in (leaking, standing):
            process.kill()
            process.wait()


def test_leak_check_with_runs_judges_the_last_one(nilo):
    assert nilo("run", "-q", "--", "sleep", "0.5").returncode == 0
    result = nilo("leak", "--check", "--threshold", "100")
    assert result.returncode == 2 and "a recording of" in result.stderr and "is too short to detect a leak" in result.stderr


def test_a_profile_reads_gpus_as_often_as_it_is_told_to(nilo, driver):
    driver.say(gpu_line(6 * GIB))
    options = ["--duration", "5", "--format", "json", "--quiet"]
    usual = nilo.start("profile", *options, extra_env=driver.environment)
    slow = nilo.start("profile", *options, "--interval", "1", extra_env=driver.environment)
    fast = nilo.start("profile", *options, "--interval", "0.05", extra_env=driver.environment)

    def counts(process):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        report = json.loads(out)
        return report["interval_secs"], *(part["statistics"]["samples_count"] for part in (report["devices"]["0"], report["host"]))

    interval, gpu, host = counts(usual)
    assert interval == 0.1 and gpu >= 0.7 * host > 0
    fast_interval, fast_gpu, fast_host = counts(fast)
    assert fast_interval == 0.05 and fast_gpu >= 0.7 * fast_host > 0.7 * host
    _, slow_gpu, _ = counts(slow)
    assert slow_gpu <= 7
    wait_until(lambda: all(process.poll() is not None for process in (usual, slow, fast)), "all to end")
