"""`nilo gpu`, with a fake driver and a fake PyTorch."""

import json
import os
import pathlib
import re
import signal
import sys

import pytest
from conftest import MIB, wait_until
from fake_nvml import GIB, FakeDriver, gpu_line
from test_narrow_terminals import ESCAPE, SIZE, on_terminal

NO_GPU = {"NILO_NVML": "", "NILO_SYSFS": "/nonexistent"}
T4 = f"gpu GPU-a {15 * GIB} {GIB // 2} {GIB} 50 Tesla T4"

# As much of PyTorch as the benchmark uses. A copy of N bytes takes N / 100e9 seconds, a product of size N takes 2 N^3 / 20e12.
WORKING_TORCH = """
import os, types
__version__ = "9.9.fake"
SEEN = os.environ.get("CUDA_VISIBLE_DEVICES")
uint8, float32, float16, bfloat16 = "uint8", "float32", "float16", "bfloat16"
WIDTHS = {"uint8": 1, "float32": 4, "float16": 2}
clock, allocated, peak = 0.0, 0, 0
print("a library that says hello")

class Tensor:
    def __init__(self, bytes, size):
        global allocated, peak
        self.bytes, self.size = bytes, size
        allocated += bytes
        peak = max(peak, allocated)
    def __del__(self):
        global allocated
        allocated -= self.bytes
    def copy_(self, other):
        global clock
        clock += 2 * self.bytes / 100e9

def zeros(size, dtype, device):
    return Tensor(size * WIDTHS[dtype], size)
def randn(rows, columns, dtype, device):
    return Tensor(rows * columns * WIDTHS[dtype], rows)
def empty_like(tensor):
    return Tensor(tensor.bytes, tensor.size)
def matmul(left, right, out):
    global clock
    clock += 2 * left.size**3 / 20e12
def set_float32_matmul_precision(name):
    pass

class Event:
    def __init__(self, enable_timing):
        assert enable_timing
    def record(self):
        self.at = clock
    def synchronize(self):
        pass
    def elapsed_time(self, end):
        return 1000 * (end.at - self.at)

version = types.SimpleNamespace(hip=None)
cuda = types.SimpleNamespace(
    is_available=lambda: True, get_device_name=lambda index: f"seen {SEEN}", mem_get_info=lambda: (14 << 30, 15 << 30), Event=Event,
    max_memory_reserved=lambda: peak, get_device_capability=lambda index: (7, 5), empty_cache=lambda: None,
)
"""
HANGING_TORCH = """
import os, pathlib, subprocess, time
child = subprocess.Popen(["sleep", "600"])
pathlib.Path(os.environ["PIDS"]).write_text(f"{os.getpid()} {child.pid}")
while True:
    time.sleep(600)
"""


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    driver = FakeDriver(folder)
    driver.say(T4, "sensor GPU-a capability 75")
    return driver


@pytest.fixture
def with_torch(tmp_path, driver):
    """The environment with a made-up PyTorch in it."""

    def environment(code, **more):
        folder = tmp_path / "libraries"
        folder.mkdir()
        (folder / "torch.py").write_text(code)
        return driver.environment | {"NILO_PYTHON": sys.executable, "PYTHONPATH": str(folder)} | more

    return environment


def answered(nilo, *arguments, environment):
    result = nilo("gpu", "--format", "json", *arguments, extra_env=environment)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return json.loads(result.stdout)


def test_the_gpus_and_the_memory_in_use_are_shown(nilo, driver, job):
    holder = job(sys.executable, "-c", "import time; time.sleep(600)")
    other = gpu_line(2 * GIB, uuid="GPU-b")
    driver.say(T4, "sensor GPU-a capability 75", f"process GPU-a {holder.pid} {GIB}", other, f"process GPU-b {holder.pid} {2 * GIB}")
    answer = answered(nilo, "--skip-throughput", environment=driver.environment)
    assert answer["schema"] == "nilo.gpu/1" and answer["device"] == 0
    first, second = answer["gpu_info"]
    assert (first["name"], first["total_bytes"], first["compute_capability"], first["driver_version"]) == ("Tesla T4", 15 * GIB, "7.5", "999.99")
    assert (second["index"], second["compute_capability"]) == (1, None)
    memory = answer["memory"]
    assert (memory["used_bytes"], memory["free_bytes"], memory["utilization_percent"]) == (GIB, 15 * GIB - GIB // 2 - GIB, 50)
    assert [(process["pid"], process["used_bytes"]) for process in memory["processes"]] == [(holder.pid, GIB)]
    assert "sleep(600)" in memory["processes"][0]["command"]
    (found,) = answer["compatibility"]
    assert (found["gpu"], found["available_gpu_memory_bytes"], found["free_bytes"]) == ("Tesla T4", 15 * GIB - GIB // 2, memory["free_bytes"])
    text = nilo("gpu", "--skip-throughput", "--device", "1", extra_env=driver.environment).stdout
    assert "Memory of GPU 1 (Fake G16):" in text and "Available GPU memory: 15.00 GiB (Fake G16, 13.00 GiB of it free)" in text
    assert "Throughput: not measured: --skip-throughput was given" in text


def test_the_rows_of_models_are_those_of_the_document(nilo, driver):
    answer = answered(nilo, "--skip-throughput", environment=driver.environment)
    models = {model["slug"]: model for model in answer["model_requirements"]}
    small = models["deepseek-math-7b"]
    assert 12.9 * GIB < small["inference_bytes"]["expected"] < 15 * GIB
    assert 4 * small["weights_bytes"] < small["training_bytes"]["low"]
    assert "deepseek-llm-67b" in models
    experts = models["deepseek-v3"]
    assert experts["active_parameters"] < 40e9 < 600e9 < experts["parameters"]
    assert experts["inference_bytes"]["expected"] > 2 * experts["parameters"]
    text = nilo("gpu", "--skip-throughput", extra_env=driver.environment).stdout
    assert "but all of them must be loaded" in text
    (found,) = answer["compatibility"]
    rows = {(row["slug"], row["use"]): row for row in found["models"]}
    assert rows["gpt2", "training"]["status"] == "fits" and rows["gpt2", "training"]["advice"] is None
    training = rows["deepseek-math-7b", "training"]
    assert training["status"] == "does-not-fit" and "LoRA" in training["advice"]["way"]["change"]
    assert training["advice"]["way"]["process_bytes"]["high"] <= found["available_gpu_memory_bytes"]
    impossible = rows["deepseek-v3", "training"]["advice"]
    assert impossible["way"] is None and impossible["smallest_gpu"] is None
    assert any("DeepSeek-V3 / R1 671B training: too large" in sentence for sentence in found["verdict"])


def test_what_fits_the_gpu_may_have_no_room_beside_what_is_in_use(nilo, driver):
    driver.say(f"gpu GPU-a {15 * GIB} {GIB // 2} {14 * GIB} 50 Tesla T4")
    answer = answered(nilo, "--skip-throughput", "--models", "gpt2", environment=driver.environment)
    assert [(row["status"], row["status_now"]) for row in answer["compatibility"][0]["models"]] == [("fits", "does-not-fit")] * 2
    text = nilo("gpu", "--skip-throughput", "--models", "gpt2", extra_env=driver.environment).stdout
    assert text.count("fits, but not now") == 2


def test_models_are_chosen_by_name(nilo, driver):
    answer = answered(nilo, "--skip-throughput", "--models", "llama-3.2-1b,GPT2,gpt2", environment=driver.environment)
    assert [model["slug"] for model in answer["model_requirements"]] == ["llama-3.2-1b", "gpt2"]
    every = answered(nilo, "--skip-throughput", "--all-models", "--gpu", "h200", environment=NO_GPU)
    known = json.loads(nilo("fit", "--list", "--format", "json").stdout)["models"]
    assert len(every["model_requirements"]) + len(every["notes"]) == len(known)
    result = nilo("gpu", "--models", "gpt2,no-such-model", extra_env=NO_GPU)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith('error: no model "no-such-model" is in the catalogue\nhint: `nilo fit --list` lists all names')


def test_without_a_gpu_models_are_compared_with_common_ones(nilo):
    answer = answered(nilo, environment=NO_GPU)
    assert answer["gpu_info"] == [] and answer["no_gpu_info"] == "no NVIDIA or AMD GPU found"
    assert (answer["device"], answer["memory"], answer["throughput"]) == (None, None, None)
    assert [found["gpu"] for found in answer["compatibility"]] == ["T4", "RTX 4090", "A100 40GB", "L40S", "H100 SXM", "H200"]
    text = nilo("gpu", extra_env=NO_GPU)
    assert text.returncode == 0
    assert text.stdout.startswith("GPUs, memory in use and throughput: not shown, no NVIDIA or AMD GPU found\n")


def test_a_gpu_that_is_not_in_the_machine_can_be_asked_about(nilo, driver):
    answer = answered(nilo, "--gpu", "t4", environment=driver.environment)
    assert answer["gpu_info"] == [] and answer["memory"] is None and answer["throughput"] is None
    (found,) = answer["compatibility"]
    assert found["gpu"] == "T4" and found["free_bytes"] is None and found["verdict"]
    assert answered(nilo, "--gpu", "24GiB", environment=NO_GPU)["compatibility"][0]["available_gpu_memory_bytes"] == 24 * GIB
    text = nilo("gpu", "--gpu", "t4", extra_env=driver.environment).stdout
    assert text.startswith("GPUs, memory in use and throughput: not shown, as --gpu asks about t4 and not about this machine\n")
    assert "Available GPU memory: 14.56 GiB (T4)\n" in text and "Verdict for T4 (14.56 GiB):\n" in text
    result = nilo("gpu", "--gpu", "voodoo", extra_env=NO_GPU)
    assert result.returncode == 2 and result.stderr.startswith('error: no GPU "voodoo" is known\nhint: ')


def test_a_device_that_does_not_exist_is_refused(nilo, driver):
    result = nilo("gpu", "--device", "3", extra_env=driver.environment)
    assert (result.returncode, result.stderr) == (2, "error: there is no GPU 3\nhint: --device takes 0 (Tesla T4)\n")
    result = nilo("gpu", "--device", "0", extra_env=NO_GPU)
    assert result.returncode == 2 and result.stderr.startswith("error: no NVIDIA or AMD GPU found\nhint: leave out --device")


def test_the_report_is_written_whole_or_refused_before_anything_is_measured(nilo, driver):
    result = nilo("gpu", "--skip-throughput", "--output", "results.json", extra_env=driver.environment)
    assert (result.returncode, result.stderr) == (0, "nilo: wrote results.json\n")
    report = json.loads((nilo.folder / "results.json").read_text())
    printed = answered(nilo, "--skip-throughput", environment=driver.environment)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", report["timestamp"])
    assert report | {"timestamp": None} == printed | {"timestamp": None}
    for place in ("no/such/folder.json", "-"):
        result = nilo("gpu", "--output", place, extra_env=NO_GPU)
        assert (result.returncode, result.stdout) == (2, "") and "hint: " in result.stderr


def test_a_gpu_that_cannot_be_read_says_why(nilo, driver):
    driver.say(T4, "from 1", "fail GPU-a 15")
    answer = answered(nilo, "--skip-throughput", environment=driver.environment)
    assert answer["memory"] is None and answer["no_memory"] == "it has fallen off the bus"


@pytest.mark.parametrize("columns", [40, 80])
def test_tables_fit_narrow_terminals(nilo, driver, columns):
    variables = [f"{name}={value}" for name, value in driver.environment.items()]
    status, text = on_terminal(nilo, columns, "gpu", "--skip-throughput", variables=variables)
    assert status == 0
    text = re.sub(ESCAPE, "", text)
    for line in text.splitlines():
        assert len(line) <= columns or " " not in line.strip(), line
    # Headings may be shortened; names of models and figures are whole.
    cut = [line for line in text.splitlines() if "…" in line and not line.isupper() and "FP16" not in line and "INFERENCE" not in line]
    assert re.search(SIZE, text) and not cut, text


def test_throughput_is_measured_beside_the_nominal_figures(nilo, with_torch):
    found = answered(nilo, "--models", "gpt2", environment=with_torch(WORKING_TORCH))["throughput"]
    assert (found["library"], found["library_version"], found["device_name"]) == ("torch", "9.9.fake", "seen GPU-a")
    assert found["copy"] == {"bytes_per_sec": pytest.approx(100e9), "nominal_bytes_per_sec": 320e9, "of_nominal_percent": pytest.approx(31.25, abs=0.1)}
    rates = {rate["dtype"]: rate for rate in found["matrix"]}
    # Neither tf32 nor bf16 on a GPU of capability 7.5.
    assert set(rates) == {"fp32", "fp16"}
    assert rates["fp32"]["flops_per_sec"] == pytest.approx(20e12) and rates["fp32"]["nominal_flops_per_sec"] is None
    assert rates["fp16"]["of_nominal_percent"] == pytest.approx(30.8, abs=0.1)
    assert 512 * MIB <= found["peak_allocated_bytes"] <= GIB


def test_a_measurement_takes_at_most_a_quarter_of_what_is_free(nilo, driver, with_torch):
    environment = with_torch(WORKING_TORCH.replace("(14 << 30, 15 << 30)", "(2 << 30, 15 << 30)"))
    driver.say(f"gpu GPU-a {15 * GIB} {GIB // 2} {12 * GIB} 50 Tesla T4")
    found = answered(nilo, "--models", "gpt2", environment=environment)["throughput"]
    assert found["peak_allocated_bytes"] <= GIB // 2
    driver.say(f"gpu GPU-a {15 * GIB} {GIB // 2} {13 * GIB} 50 Tesla T4")
    answer = answered(nilo, "--models", "gpt2", environment=environment)
    assert answer["throughput"] is None and answer["no_throughput"] == "only 1.50 GiB are free, and the measurement needs 2.00 GiB"


@pytest.mark.parametrize(
    ["torch", "reason"],
    [
        ("import sys; sys.modules['__main__'].RESULT.write('{\"status\": '); sys.modules['__main__'].RESULT.flush(); import os; os._exit(0)", "the benchmark in PYTHON printed something other than its result"),
        ("import os; os._exit(0)", "the benchmark in PYTHON printed something other than its result"),
        ("import os; os._exit(7)", "the benchmark in PYTHON ended with exit status 7"),
        ("import os; os.abort()", "the benchmark in PYTHON was killed by signal 6"),
        ("raise ImportError('libcudart.so.12: cannot open shared object file')", "torch failed: ImportError: libcudart.so.12: cannot open shared object file"),
        ("import no_such_part_of_torch", "torch failed: No module named 'no_such_part_of_torch'"),
        ("import types; __version__ = '2.11'; cuda = types.SimpleNamespace(is_available=lambda: False)", "torch 2.11 sees no GPU"),
        (WORKING_TORCH.replace("clock += 2 * self.bytes / 100e9", "raise RuntimeError('CUDA out of memory')"), "torch failed: RuntimeError: CUDA out of memory"),
    ],
    ids=["bad-json", "nothing", "status", "crash", "broken-library", "broken-installation", "no-gpu", "no-memory"],
)
def test_what_is_not_measured_is_absent_with_one_sentence(nilo, with_torch, torch, reason):
    answer = answered(nilo, "--models", "gpt2", environment=with_torch(torch))
    assert answer["throughput"] is None
    assert answer["no_throughput"] == reason.replace("PYTHON", sys.executable)
    assert answer["compatibility"], "the other parts are there"


def test_a_python_without_libraries_and_one_that_is_not_there_are_told(nilo, driver):
    python = nilo.folder / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    python.chmod(0o755)
    for named, reason in [(python, "{} has neither torch nor CuPy"), ("/no/such/python", "{} cannot be started (No such file or directory (os error 2))")]:
        environment = driver.environment | {"NILO_PYTHON": str(named)}
        assert answered(nilo, "--models", "gpt2", environment=environment)["no_throughput"] == reason.format(named)


def test_a_library_in_the_current_folder_is_not_imported(nilo, driver):
    (nilo.folder / "torch.py").write_text("raise RuntimeError('imported from the current folder')")
    answer = answered(nilo, "--models", "gpt2", environment=driver.environment | {"NILO_PYTHON": sys.executable})
    assert "current folder" not in answer.get("no_throughput", "")


def test_a_gpu_that_is_hidden_from_programs_is_not_measured(nilo, driver, with_torch):
    environment = with_torch(WORKING_TORCH)
    driver.say(T4, gpu_line(0, uuid="GPU-b"))
    hidden = answered(nilo, "--models", "gpt2", "--device", "0", environment=environment | {"CUDA_VISIBLE_DEVICES": "GPU-b"})
    assert hidden["throughput"] is None and hidden["no_throughput"] == "CUDA_VISIBLE_DEVICES hides GPU 0 from programs"
    chosen = answered(nilo, "--models", "gpt2", environment=environment | {"CUDA_VISIBLE_DEVICES": "GPU-b"})
    assert chosen["device"] == 1 and chosen["throughput"]["device_name"] == "seen GPU-b"


def has_ended(pid):
    try:
        return ") Z" in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True


def started(path):
    wait_until(lambda: path.exists() and len(path.read_text().split()) == 2, "the benchmark to start")
    return [int(pid) for pid in path.read_text().split()]


def test_a_benchmark_that_hangs_is_killed_with_its_children(nilo, with_torch, tmp_path):
    environment = with_torch(HANGING_TORCH, PIDS=str(tmp_path / "pids"), NILO_GPU_TIME_LIMIT="2")
    answer = answered(nilo, "--models", "gpt2", environment=environment)
    assert answer["no_throughput"] == f"the benchmark in {sys.executable} took longer than 2 seconds and was killed"
    for pid in started(tmp_path / "pids"):
        wait_until(lambda: has_ended(pid), "the benchmark to be gone")


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_benchmark_that_is_interrupted_leaves_nothing_running(nilo, with_torch, tmp_path, sent):
    process = nilo.start("gpu", extra_env=with_torch(HANGING_TORCH, PIDS=str(tmp_path / "pids")))
    pids = started(tmp_path / "pids")
    process.send_signal(sent)
    assert process.wait(30) == -sent, "it dies of the signal, as a shell expects"
    for pid in pids:
        wait_until(lambda: has_ended(pid), "the benchmark to be gone")


def test_a_benchmark_does_not_outlive_a_command_that_is_killed(nilo, with_torch, tmp_path):
    process = nilo.start("gpu", extra_env=with_torch(HANGING_TORCH, PIDS=str(tmp_path / "pids")))
    benchmark, child = started(tmp_path / "pids")
    try:
        process.kill()
        wait_until(lambda: has_ended(benchmark), "the benchmark to be gone")
    finally:
        # What the benchmark started is not ours any more when we are gone.
        os.kill(child, signal.SIGKILL)
