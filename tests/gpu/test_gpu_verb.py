"""`nilo gpu` on a real GPU: what the driver tells, what torch tells, and rates that a GPU can have."""

import json
import os
import shutil
import subprocess
import sys

import torch

GIB = 1 << 30
NILO = os.environ.get("NILO") or shutil.which("nilo")


def asked(folder, *arguments):
    """The answer, about the GPU that torch uses first, measured with this Python."""
    assert NILO, "nilo is not on the path; set NILO"
    environment = os.environ | {"NILO_PYTHON": sys.executable}
    command = [NILO, "gpu", "--format", "json", "--models", "gpt2,deepseek-math-7b", *arguments]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_the_gpu_is_described_as_torch_describes_it(tmp_path):
    answer = asked(tmp_path, "--skip-throughput")
    (gpu,) = [gpu for gpu in answer["gpu_info"] if gpu["index"] == answer["device"]]
    properties = torch.cuda.get_device_properties(0)
    assert gpu["name"] == properties.name
    assert gpu["compute_capability"] == f"{properties.major}.{properties.minor}"
    assert gpu["driver_version"]
    (found,) = answer["compatibility"]
    # What the driver keeps is known to a hundredth.
    assert abs(found["available_gpu_memory_bytes"] / properties.total_memory - 1) < 0.01


def test_throughput_is_what_a_gpu_can_do(tmp_path):
    answer = asked(tmp_path)
    found = answer["throughput"]
    assert found, answer["no_throughput"]
    print("\n", json.dumps(found, indent=1))
    assert (found["library"], found["library_version"]) == ("torch", torch.__version__)
    assert found["device_name"] == torch.cuda.get_device_name(0)
    assert 0 < found["peak_allocated_bytes"] <= 1.1 * GIB
    assert found["copy"]["bytes_per_sec"] > 20e9
    rates = {rate["dtype"]: rate for rate in found["matrix"]}
    assert {"fp32", "fp16"} <= set(rates)
    for rate in [found["copy"], *rates.values()]:
        percent = rate["of_nominal_percent"]
        # Idle GPUs reach most of it; none does more than its maker says.
        assert percent is None or 30 < percent <= 105


def test_memory_in_use_is_that_of_this_process_and_others(tmp_path):
    block = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    memory = asked(tmp_path, "--skip-throughput")["memory"]
    free, _ = torch.cuda.mem_get_info()
    assert memory["used_bytes"] >= 2 * GIB
    assert abs(memory["free_bytes"] - free) < GIB
    del block
