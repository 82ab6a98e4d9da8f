"""`nilo ps --gpu`: who holds GPU memory, with a fake driver."""

import csv
import json
import subprocess
import sys

import pytest
from conftest import MIB, NILO, unavailable
from fake_nvml import GIB, FakeDriver, gpu_line

COMMAND = "import time; time.sleep(600)"


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(folder)


def process(pid, size, uuid="GPU-a"):
    return f"process {uuid} {pid} {size}"


def listed(nilo, driver, *arguments):
    result = nilo("ps", "--gpu", "--format", "json", *arguments, extra_env=driver.environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_each_process_has_a_row_for_each_gpu_the_most_memory_first(nilo, driver, job):
    small, large, without = (job(sys.executable, "-c", COMMAND) for _ in range(3))
    driver.say(
        gpu_line(6 * GIB),
        gpu_line(9 * GIB, uuid="GPU-b"),
        process(small.pid, GIB),
        process(large.pid, 3 * GIB),
        process(large.pid, 9 * GIB, "GPU-b"),
    )
    answer = listed(nilo, driver)
    assert [row["pid"] for row in answer["processes"]] == [large.pid, small.pid]
    assert answer["processes"][0]["gpus"] == [{"index": 1, "used_bytes": 9 * GIB}, {"index": 0, "used_bytes": 3 * GIB}]
    assert answer["processes"][1]["gpus"] == [{"index": 0, "used_bytes": GIB}]
    assert answer["processes"][0]["rss_bytes"] > MIB
    assert "notes" not in answer and "unmatched_gpus" not in answer
    text = nilo("ps", "--gpu", extra_env=driver.environment)
    assert text.stderr == ""
    head, *rows = text.stdout.splitlines()
    assert head.split() == ["PID", "USER", "GPU", "GPU", "MEMORY", "MEMORY", "CPU%", "COMMAND"]
    assert [(row.split()[0], row.split()[2], " ".join(row.split()[3:5])) for row in rows] == [
        (str(large.pid), "1", "9.00 GiB"),
        (str(large.pid), "0", "3.00 GiB"),
        (str(small.pid), "0", "1.00 GiB"),
    ]
    rows = list(csv.DictReader(nilo("ps", "--gpu", "--format", "csv", extra_env=driver.environment).stdout.splitlines()))
    assert [(row["pid"], row["gpu"], row["gpu_bytes"]) for row in rows] == [
        (str(large.pid), "1", str(9 * GIB)),
        (str(large.pid), "0", str(3 * GIB)),
        (str(small.pid), "0", str(GIB)),
    ]
    # Without --gpu nothing is said of GPUs.
    plain = json.loads(nilo("ps", "--format", "json", extra_env=driver.environment).stdout)
    assert all("gpus" not in row for row in plain["processes"])


def test_other_programs_than_python_are_left_out_where_only_python_is_wanted(nilo, driver, job):
    python, shell = job(sys.executable, "-c", COMMAND), job("sleep", "600")
    driver.say(gpu_line(6 * GIB), process(python.pid, GIB), process(shell.pid, 2 * GIB))
    assert [row["pid"] for row in listed(nilo, driver)["processes"]] == [shell.pid, python.pid]
    assert [row["pid"] for row in listed(nilo, driver, "--python")["processes"]] == [python.pid]


def test_a_process_out_of_sight_is_listed_by_what_is_known_of_it(nilo, driver, job):
    own = job(sys.executable, "-c", COMMAND)
    driver.say(gpu_line(6 * GIB), process(own.pid, GIB), process(4_000_000, 5 * GIB))
    text = nilo("ps", "--gpu", extra_env=driver.environment)
    assert "4000000" not in text.stdout
    assert text.stderr == "nilo: 1 process outside this container (or already exited) is hidden; use --all to list it\n"
    text = nilo("ps", "--gpu", "--all", extra_env=driver.environment)
    assert text.stderr == ""
    assert text.stdout.splitlines()[1].split() == ["4000000", "-", "0", "5.00", "GiB", "-", "-", "-"]
    assert listed(nilo, driver, "--all")["unmatched_gpus"] == [{"index": 0, "pid": 4_000_000, "used_bytes": 5 * GIB}]


def test_bytes_that_the_driver_does_not_tell_are_unknown_and_not_zero(nilo, driver, job):
    own = job(sys.executable, "-c", COMMAND)
    driver.say(gpu_line(6 * GIB), process(own.pid, -1))
    answer = listed(nilo, driver)
    assert answer["processes"][0]["gpus"] == [{"index": 0}]
    reason = "GPU memory of some processes is unknown: the driver does not report memory per process"
    assert answer["notes"] == [reason]
    text = nilo("ps", "--gpu", extra_env=driver.environment)
    assert text.stdout.splitlines()[1].split()[2:4] == ["0", "-"]
    assert text.stderr == f"nilo: {reason}\n"


def test_without_a_gpu_there_is_one_sentence_and_a_hint(nilo, tmp_path):
    result = nilo("ps", "--gpu", extra_env={"NILO_NVML": "", "NILO_SYSFS": str(tmp_path)})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        "error: no NVIDIA or AMD GPU found\nhint: without --gpu, `nilo ps` lists processes by host memory\n"
    )


def test_in_a_container_numbers_of_the_host_are_nobodys(nilo, driver):
    script = f"""
        set -e
        mkdir {nilo.folder}/devices && mount --bind /dev {nilo.folder}/devices && mount -t tmpfs none /dev
        for name in null zero urandom; do touch /dev/$name && mount --bind {nilo.folder}/devices/$name /dev/$name; done
        touch /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm
        sleep 600 3</dev/nvidiactl 4</dev/nvidia0 5</dev/nvidia-uvm >/dev/null &
        exec "$@"
    """
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh"]
    if subprocess.run([*command[:6], "true"], capture_output=True).returncode:
        unavailable("a PID namespace needs root")
    driver.say(gpu_line(6 * GIB), process(77001, 5 * GIB))
    environment = nilo.environment | driver.environment
    result = subprocess.run(
        [*command, NILO, "ps", "--gpu", "--format", "json"], cwd=nilo.folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["unmatched_gpus"] == [{"index": 0, "used_bytes": 5 * GIB}]
    ((name, gpus),) = [(row["name"], row["gpus"]) for row in answer["processes"]]
    assert (name, gpus) == ("sleep", []), "it computes, and on which GPU is not known"
    assert answer["notes"] == [
        "GPU memory of some processes is unknown: the driver reports the PIDs of the host, not of this container"
    ]
