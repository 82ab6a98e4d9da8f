"""The command under the documents' names: as a Python module, and with their options."""

import json
import subprocess
import sys
import time

import pytest
from conftest import NILO
from fake_nvml import GIB, FakeDriver, gpu_line
from package import QUIET


@pytest.mark.parametrize("module", ["nilometer", "nilometer.memory"])
def test_the_package_is_the_command(tmp_path, module):
    def call(*arguments):
        return subprocess.run(
            [sys.executable, "-m", module, *arguments], cwd=tmp_path, env=QUIET, capture_output=True, text=True, timeout=120
        )

    version = subprocess.run([NILO, "--version"], capture_output=True, text=True).stdout
    assert call("--version").stdout == version
    result = call("profile", "--duration", "0.3", "--output", "profile.json", "--quiet")
    assert result.returncode == 0, result.stderr
    assert {"devices", "summary", "host"} <= set(json.loads((tmp_path / "profile.json").read_text()))
    refused = call("profile", "--duration", "-1")
    assert refused.returncode == 2 and "a duration cannot be negative" in refused.stderr


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(folder)


def test_a_profile_says_where_each_level_went(nilo, driver):
    driver.say(gpu_line(4 * GIB, "GPU-a"), gpu_line(4 * GIB, "GPU-b"))
    profile = nilo.start("profile", "--duration", "4", "--output", "profile.json", "--quiet", extra_env=driver.environment)
    quarters = 16
    while profile.poll() is None:
        quarters = min(quarters + 1, 56)
        driver.say(gpu_line(quarters * GIB // 4, "GPU-a"), gpu_line(4 * GIB, "GPU-b"))
        time.sleep(0.1)
    out, err = profile.communicate(timeout=60)
    assert profile.returncode == 0, err
    devices = json.loads((nilo.folder / "profile.json").read_text())["devices"]
    assert [devices[name]["statistics"]["trend"] for name in ("0", "1")] == ["increasing", "stable"]
    rows = {line.split("  ")[0]: line for line in out.splitlines()}
    assert " increasing " in rows["GPU 0"] and " stable " in rows["GPU 1"]


def test_a_tokenizers_training_says_what_its_memory_did(nilo):
    (nilo.folder / "text.txt").write_text("the cat sat on the mat " * 2000)
    result = nilo("bpe", "train", "text.txt", "--vocab-size", "270", "--save-memory-log")
    assert result.returncode == 0, result.stderr
    lines = [line.removeprefix("nilo: ") for line in result.stderr.splitlines()]
    begins = [
        "Initial memory usage: ",
        "Started memory monitoring (interval: 0.1s)",
        "Stopped memory monitoring. Peak memory: ",
        "Memory log saved to memory_log_270.csv",
        "Training completed in ",
    ]
    places = [next(place for place, line in enumerate(lines) if line.startswith(begin)) for begin in begins]
    assert places == sorted(places)
    log = (nilo.folder / "memory_log_270.csv").read_text().splitlines()
    assert log[0] == "timestamp_seconds,memory_mb,cpu_percent" and len(log) >= 2
    quiet = nilo("bpe", "train", "text.txt", "--vocab-size", "270", "--quiet")
    assert quiet.returncode == 0 and quiet.stderr == ""
    both = nilo("bpe", "train", "text.txt", "--vocab-size", "270", "--save-memory-log", "--memory-log", "x.csv")
    assert both.returncode == 2


def test_a_process_is_found_by_the_documents_option(nilo, job):
    job("sleep", "97.125")
    result = nilo("watch", "--process-name", "sleep 97.125", "--duration", "0.5", "--save-log", "log.csv")
    assert result.returncode == 0, result.stderr
    assert (nilo.folder / "log.csv").read_text().startswith("timestamp_seconds,")
