"""Looks at the machine that are kept as runs: every view is about host memory and GPUs, and speaks of no job."""

import json

import pytest
from fake_nvml import GIB, FakeDriver, gpu_line


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    driver = FakeDriver(folder)
    driver.say(gpu_line(6 * GIB), gpu_line(9 * GIB, uuid="GPU-b"))
    return driver


@pytest.fixture(params=[["profile"], ["monitor", "--oom"]], ids=["profile", "monitor"])
def recorded(nilo, driver, request):
    result = nilo(*request.param, "--record", "--duration", "1", "--quiet", extra_env=driver.environment)
    assert (result.returncode, result.stderr) == (0, ""), result
    return nilo


def test_a_kept_look_is_a_run_of_the_machine(recorded):
    shown = recorded.show()
    assert (shown["mode"], shown["command"], shown["processes"], shown["status"]) == ("machine", [], [], "detached")
    assert [gpu["peak_used_bytes"] for gpu in shown["gpus"]] == [6 * GIB, 9 * GIB]
    host = shown["host_memory"]
    assert 0 < host["min_used_bytes"] <= host["mean_used_bytes"] <= host["peak_used_bytes"] < host["total_bytes"]
    (run,) = recorded.runs()
    assert run["run"].endswith("-machine")


def test_its_text_speaks_of_the_host_and_of_no_job(recorded):
    text = recorded("show").stdout
    assert "HOST MEMORY STATISTICS" in text and "Peak Host Memory:" in text and "Host memory over time" in text
    assert "How It Ended:         monitoring was stopped\n" in text
    for word in ("process", "command", "unknown", "no samples", "JOB"):
        assert word not in text, word
    assert "detached    " in recorded("runs").stdout


def test_its_picture_has_the_host_and_the_gpus(recorded):
    assert recorded("plot", "-o", "machine.svg").returncode == 0
    picture = (recorded.folder / "machine.svg").read_text()
    assert ": host memory and GPUs<" in picture and "GPU 0, GiB used" in picture and "GPU 1, GiB used" in picture
    assert "no samples" not in picture and "peak " in picture and "recorded for " in picture


def test_it_is_judged_and_exported_and_not_asked_for(recorded):
    for verb in ("oom", "leak"):
        judged = recorded(verb).stdout
        assert "host memory:" in judged and "GPU 1:" in judged
    tables = json.loads(recorded("export", "--format", "json").stdout)["tables"]
    assert {"type": "gpu", "index": 1} in [table["subject"] for table in tables]
    refused = recorded("request")
    assert refused.returncode == 2 and "is a recording of the machine, not of a job\nhint: " in refused.stderr


def test_without_record_a_look_at_the_machine_is_not_kept(nilo, driver):
    assert nilo("profile", "--duration", "0.5", extra_env=driver.environment).returncode == 0
    assert not (nilo.folder / ".nilo").exists()
    refused = nilo("profile", "--record", "--no-record")
    assert refused.returncode == 2 and "cannot be used with" in refused.stderr
