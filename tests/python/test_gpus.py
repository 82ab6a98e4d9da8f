"""GPUs in a recording, with a fake driver: a real library that is loaded and asked as NVIDIA's is."""

import csv
import json
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest
from conftest import NILO, python, unavailable, wait_until
from fake_nvml import GIB, PRELUDE, FakeDriver, gpu_line
from package import only_run, run_program

GPU_LOST = 15


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(folder)


def program(code):
    return python(PRELUDE + textwrap.dedent(code))


def record(nilo, driver, code, *arguments, **environment):
    """Records a job that says what its GPUs do."""
    options = {"extra_env": driver.environment | environment}
    result = nilo("run", "--quiet", "--interval", "0.05", *arguments, "--", *program(code), **options)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return nilo.show()


def gpu_rows(nilo, index=0):
    """The rows of a GPU's table, by column."""
    recording = json.loads(nilo("export", "last", "--format", "json").stdout)
    subject = {"type": "gpu", "index": index}
    (table,) = [table for table in recording["tables"] if table["subject"] == subject]
    return dict(zip([column["name"] for column in table["columns"]], table["values"]))


GROWING = """
    say(gpu(GIB), process(GIB // 2)); heard()
    say(gpu(6 * GIB, busy=90), process(5 * GIB)); heard()
    say(gpu(3 * GIB), process(2 * GIB)); heard()
"""


def test_memory_that_grows_and_falls_is_recorded(nilo, driver):
    shown = record(nilo, driver, GROWING)
    (gpu,) = shown["gpus"]
    assert (gpu["index"], gpu["name"], gpu["uuid"]) == (0, "Fake G16", "GPU-a")
    assert (gpu["total_bytes"], gpu["reserved_bytes"]) == (16 * GIB, GIB)
    assert (gpu["peak_used_bytes"], gpu["last_used_bytes"]) == (6 * GIB, 3 * GIB)
    assert gpu["peak_job_bytes"] == 5 * GIB
    assert 0 < gpu["mean_used_bytes"] < 6 * GIB
    assert 0.4 < gpu["mean_utilization"] < 0.9
    asked = json.loads(nilo("request", "last", "--format", "json").stdout)
    assert asked["gpu"]["peak_bytes"] == 5 * GIB and asked["gpu"]["devices"] == 1
    assert shown["blind_spots"] == []
    rows = gpu_rows(nilo)
    levels = [level for level in rows["used_bytes"] if level]
    assert levels == [GIB, 6 * GIB, 3 * GIB], "a row only when something changed"
    assert set(rows["total_bytes"]) == {16 * GIB}
    assert [share for share in rows["job_bytes"] if share] == [GIB // 2, 5 * GIB, 2 * GIB]
    assert rows["utilization"][-2:] == [0.9, 0.5]


def test_every_export_carries_the_gpus(nilo, driver):
    import pyarrow.parquet

    record(nilo, driver, "say(gpu(GIB), process(GIB)); heard()")
    assert nilo("export", "last", "--long", "-o", "long.csv").returncode == 0
    with open(nilo.folder / "long.csv") as file:
        found = {(row["column"], float(row["value"])) for row in csv.DictReader(file) if row["table"] == "gpu:0" and row["value"]}
    assert {("used_bytes", float(GIB)), ("job_bytes", float(GIB)), ("utilization", 0.5)} <= found
    assert nilo("export", "last", "-o", "all.parquet").returncode == 0
    table = pyarrow.parquet.read_table(nilo.folder / "all.parquet").to_pydict()
    values = [value for name, column, value in zip(table["table"], table["column"], table["value"]) if (name, column) == ("gpu:0", "used_bytes")]
    assert values[-1] == GIB
    assert nilo("export", "last").returncode == 0
    assert nilo("plot", "last", "-o", "chart.svg").returncode == 0
    assert nilo("verify").returncode == 0


def test_the_text_has_a_line_for_each_gpu_of_the_job(nilo, driver):
    driver.say(gpu_line(0), gpu_line(9 * GIB, "GPU-b"))
    record(nilo, driver, "say(gpu(3 * GIB), process(2 * GIB), gpu(9 * GIB, 'GPU-b')); heard(2)")
    text = nilo("show").stdout
    lines = text[text.index("GPU memory (driver):") :].splitlines()
    assert lines[1].split() == ["GPU", "JOB", "PEAK", "PEAK", "USED", "MEAN", "USED", "TOTAL", "BUSY", "NAME"]
    assert lines[2].split()[:5] == ["0", "2.00", "GiB", "3.00", "GiB"]
    assert lines[2].endswith("Fake G16")
    assert not lines[3].startswith("  1")


def test_the_share_is_that_of_the_jobs_processes_and_of_nobody_else(nilo, driver):
    code = """
        import subprocess
        child = subprocess.Popen(["sleep", "100"])
        say(gpu(12 * GIB), process(GIB), process(2 * GIB, pid=child.pid), process(5 * GIB, pid=1))
        heard(); heard()
        child.kill(); child.wait()
    """
    (gpu,) = record(nilo, driver, code)["gpus"]
    assert (gpu["peak_used_bytes"], gpu["peak_job_bytes"]) == (12 * GIB, 3 * GIB)


def test_a_share_that_the_driver_does_not_tell_is_absent_and_not_zero(nilo, driver):
    (gpu,) = record(nilo, driver, "say(gpu(4 * GIB), process(-1)); heard()")["gpus"]
    assert (gpu["peak_used_bytes"], gpu["peak_job_bytes"]) == (4 * GIB, None)


def test_a_gpu_lost_in_the_middle_is_said_once_and_the_other_goes_on(nilo, driver):
    driver.say(gpu_line(0), gpu_line(0, "GPU-b"))
    code = f"""
        both = [process(GIB), process(GIB, "GPU-b")]
        say(gpu(2 * GIB), gpu(GIB, "GPU-b"), *both); heard(2)
        say(gpu(2 * GIB), gpu(GIB, "GPU-b"), *both, "fail GPU-a {GPU_LOST}"); heard(2); heard(2)
        say(gpu(2 * GIB), gpu(7 * GIB, "GPU-b"), *both, "fail GPU-a {GPU_LOST}"); heard(2)
    """
    shown = record(nilo, driver, code)
    assert shown["blind_spots"] == [
        "GPU 0 (Fake G16) cannot be read: it has fallen off the bus; it is not recorded until it can be"
    ]
    lost, other = shown["gpus"]
    assert (lost["peak_used_bytes"], lost["last_used_bytes"]) == (2 * GIB, 2 * GIB)
    assert other["last_used_bytes"] == 7 * GIB
    assert all(values[-1] is None for values in gpu_rows(nilo, 0).values())


def test_a_gpu_that_comes_back_is_recorded_again(nilo, driver):
    code = f"""
        say(gpu(2 * GIB), process(GIB)); heard()
        say(gpu(2 * GIB), process(GIB), "fail GPU-a {GPU_LOST}"); heard()
        say(gpu(5 * GIB), process(GIB)); heard()
    """
    shown = record(nilo, driver, code)
    levels = gpu_rows(nilo)["used_bytes"]
    assert levels[-3:] == [2 * GIB, None, 5 * GIB], levels
    assert len(shown["blind_spots"]) == 1


HANGING = """
    say(gpu(2 * GIB), process(GIB)); heard()
    say("hang", gpu(2 * GIB), process(GIB))
    # Longer than the recorder's patience with a driver.
    time.sleep(4)
"""


def test_a_driver_that_hangs_delays_neither_the_job_nor_the_samples_nor_the_end(nilo, driver):
    shown = record(nilo, driver, HANGING)
    assert shown["blind_spots"] == ["the GPU driver is not responding; GPUs are not recorded until it does"]
    assert shown["gpus"][0]["peak_used_bytes"] == 2 * GIB
    assert gpu_rows(nilo)["used_bytes"][-1] is None
    assert shown["recorder"]["gaps"] == 0
    assert (shown["status"], shown["exit_code"]) == ("exited", 0)


def test_a_driver_that_answers_again_is_recorded_again(nilo, driver):
    shown = record(nilo, driver, HANGING + "    say(gpu(7 * GIB), process(GIB)); heard()\n")
    assert gpu_rows(nilo)["used_bytes"][-2:] == [None, 7 * GIB]
    assert shown["gpus"][0]["last_used_bytes"] == 7 * GIB


def test_a_driver_that_hangs_from_the_beginning_leaves_a_record_without_gpus(nilo, driver):
    driver.say("hang", gpu_line(GIB))
    shown = record(nilo, driver, "time.sleep(1)")
    assert (shown["gpus"], shown["status"]) == ([], "exited")
    assert shown["memory"]["samples"] > 1


@pytest.mark.parametrize("library", ["/nowhere/libnvidia-ml.so.1", ""])
def test_without_a_library_there_are_no_gpus_and_no_words_about_them(nilo, library):
    process = nilo.start("run", "--interval", "0.05", "--", "sleep", "1.5", extra_env={"NILO_NVML": library})
    wait_until(lambda: (nilo.folder / ".nilo").exists() and len(nilo.runs()) == 1, "the run")
    threads = [path.read_text().strip() for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/comm")]
    assert threads and "nilo-gpu" not in threads
    _, err = process.communicate(timeout=60)
    assert "GPU" not in err and "NVIDIA" not in err
    shown = nilo.show()
    assert (shown["gpus"], shown["blind_spots"]) == ([], [])


@pytest.mark.parametrize(("code", "words"), [(9, None), (18, "its library and its kernel module are of different versions")])
def test_a_driver_that_is_not_loaded_is_nothing_to_speak_of_and_a_broken_one_is(nilo, driver, code, words):
    driver.say(f"init {code}", gpu_line(GIB))
    shown = record(nilo, driver, "time.sleep(0.5)")
    assert shown["gpus"] == []
    assert shown["blind_spots"] == ([] if words is None else [f"GPU memory: cannot query the NVIDIA driver: {words}"])


def test_a_level_that_stands_still_is_written_again(nilo, driver):
    record(nilo, driver, "say(gpu(GIB), process(GIB // 2)); heard(); time.sleep(11)")
    assert gpu_rows(nilo)["used_bytes"].count(GIB) >= 2


def test_only_visible_gpus_are_recorded(nilo, driver):
    driver.say(gpu_line(GIB), gpu_line(2 * GIB, "GPU-b"))
    code = "say(gpu(GIB), gpu(2 * GIB, 'GPU-b')); heard(2)"
    shown = record(nilo, driver, code, CUDA_VISIBLE_DEVICES="1")
    assert [gpu["index"] for gpu in shown["gpus"]] == [1]
    shown = record(nilo, driver, code, CUDA_VISIBLE_DEVICES="")
    assert shown["gpus"] == []
    shown = record(nilo, driver, code)
    assert [gpu["index"] for gpu in shown["gpus"]] == [0, 1]


def test_once_the_job_holds_memory_on_a_gpu_the_others_are_left_alone(nilo, driver):
    driver.say(gpu_line(0), gpu_line(0, "GPU-b"))
    code = """
        say(gpu(GIB), gpu(2 * GIB, 'GPU-b')); heard(2)
        say(gpu(GIB), gpu(3 * GIB, 'GPU-b'), process(GIB, 'GPU-b')); heard(2)
        say(gpu(9 * GIB), gpu(4 * GIB, 'GPU-b'), process(GIB, 'GPU-b')); heard(2)
    """
    first, second = record(nilo, driver, code)["gpus"]
    assert (first["peak_used_bytes"], second["peak_used_bytes"]) == (GIB, 4 * GIB)
    assert gpu_rows(nilo, 0)["used_bytes"][-1] is None
    # A GPU that the variable hides from the job's first process, but not from its children, is the job's all the same.
    (only,) = record(nilo, driver, code, CUDA_VISIBLE_DEVICES="")["gpus"]
    assert (only["index"], only["peak_used_bytes"]) == (1, 4 * GIB)


def test_watch_records_gpus_too(nilo, driver, job):
    code = """
        say(gpu(2 * GIB), process(GIB))
        print("ready", flush=True)
        heard(); say(gpu(5 * GIB), process(4 * GIB)); heard()
    """
    target = job(*program(code), env=os.environ | driver.environment, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    result = nilo("watch", "--pid", target.pid, "--interval", "0.05", extra_env=driver.environment)
    assert result.returncode == 0, result.stderr
    assert "GPU memory (driver):" in result.stderr
    (gpu,) = nilo.show()["gpus"]
    assert (gpu["peak_used_bytes"], gpu["peak_job_bytes"]) == (5 * GIB, 4 * GIB)


def test_a_program_that_records_itself_has_its_gpus(tmp_path, driver):
    code = PRELUDE + textwrap.dedent("""
        import nilometer
        for name in ("first", "second"):
            run = nilometer.init(name=name, dir=name)
            say(gpu(2 * GIB), process(GIB)); heard()
            say(gpu(6 * GIB), process(5 * GIB))
            # The last reading is taken at the end.
            nilometer.finish()
    """)
    run_program(code, tmp_path, **driver.environment)
    import nilometer

    for name in ("first", "second"):
        summary = nilometer.read_run(only_run(tmp_path, name)).summary()
        (gpu,) = summary["gpus"]
        assert (gpu["peak_job_bytes"], gpu["last_used_bytes"]) == (5 * GIB, 6 * GIB)
        assert summary["recorder"]["dropped_samples"] == 0


def in_container(nilo, driver, code):
    """Records a job in a PID namespace of its own, where device files of a GPU can be opened."""
    script = f"""
        set -e
        mkdir {nilo.folder}/devices && mount --bind /dev {nilo.folder}/devices && mount -t tmpfs none /dev
        for name in null zero urandom; do touch /dev/$name && mount --bind {nilo.folder}/devices/$name /dev/$name; done
        touch /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm
        exec "$@"
    """
    command = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"]
    if subprocess.run([*command[:5], "true"], capture_output=True).returncode:
        unavailable("a PID namespace needs root")
    command += [NILO, "run", "--quiet", "--interval", "0.05", "--", sys.executable, "-c", PRELUDE + textwrap.dedent(code)]
    environment = nilo.environment | driver.environment
    result = subprocess.run(command, cwd=nilo.folder, env=environment, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, ""), result
    return nilo.show()


CUDA = """
    def start_cuda():
        return [open(f"/dev/{name}") for name in ("nvidiactl", "nvidia0", "nvidia-uvm")]
"""


def test_in_a_container_the_machines_numbers_are_matched_with_the_process_that_holds_cuda(nilo, driver):
    """An older driver: strangers and the job by numbers that mean nothing here."""
    code = CUDA + """
    stranger, own = 77001, 77002
    say(gpu(3 * GIB), process(3 * GIB, pid=stranger)); heard()
    held = start_cuda()
    say(gpu(8 * GIB), process(3 * GIB, pid=stranger), process(5 * GIB, pid=own)); heard(); heard()
"""
    (gpu,) = in_container(nilo, driver, code)["gpus"]
    assert (gpu["peak_used_bytes"], gpu["peak_job_bytes"]) == (8 * GIB, 5 * GIB)


def test_in_a_container_numbers_that_cannot_be_told_apart_are_nobodys_and_said_to_be(nilo, driver):
    code = CUDA + """
    held = start_cuda()
    say(gpu(8 * GIB), process(3 * GIB, pid=77001), process(5 * GIB, pid=77002))
    for _ in range(12):
        heard()
"""
    shown = in_container(nilo, driver, code)
    assert shown["gpus"][0]["peak_job_bytes"] is None
    assert shown["blind_spots"] == [
        "the job's share of GPU memory is unknown: the driver reports the PIDs of the host, not of this container"
    ]


def test_in_a_container_a_driver_that_translates_is_believed(nilo, driver):
    code = CUDA + """
    held = start_cuda()
    say(gpu(8 * GIB), process(5 * GIB)); heard(); heard()
"""
    (gpu,) = in_container(nilo, driver, code)["gpus"]
    assert gpu["peak_job_bytes"] == 5 * GIB
