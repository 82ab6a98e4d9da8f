"""What NVIDIA's driver says of a real GPU, beside what torch says: memory of the device and of the job, PIDs in a container, the cost of a look.

Run by hand with `make test-gpu`; `nilo` must be on the path or named by NILO.
"""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest
import torch

from nilometer import _native
from nilometer.memory import LeakDetector, MemoryProfiler, OOMDetector

MIB = 1 << 20
GIB = 1 << 30
NILO = os.environ.get("NILO") or shutil.which("nilo")

# A CUDA context with PyTorch's kernels takes 300 to 700 MiB, more with cuBLAS.
LARGEST_CONTEXT = int(1.5 * GIB)

JOB = """
import json, os, time, torch
block = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
time.sleep(2.5)
free, total = torch.cuda.mem_get_info()
properties = torch.cuda.get_device_properties(0)
print(json.dumps({"pid": os.getpid(), "reserved": torch.cuda.memory_reserved(), "used": total - free, "total": total,
                  "uuid": str(getattr(properties, "uuid", "")).removeprefix("GPU-")}))
"""


def record(folder, *command, interval="0.1"):
    """Runs `nilo run` and gives what the command printed, and the summary."""
    assert NILO, "nilo is not on the path; set NILO"
    arguments = [NILO, "run", "--quiet", "--interval", interval, "--json", "summary.json", "--", *command]
    result = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    return result.stdout, json.loads((folder / "summary.json").read_text())


def describe_namespace():
    namespace = os.readlink("/proc/self/ns/pid")
    first = namespace == "pid:[4026531836]"
    return f"{namespace} ({'the first' if first else 'a container'}), PID {os.getpid()}"


def test_two_gib_of_torch_are_two_gib_and_a_context_by_the_driver(tmp_path):
    out, summary = record(tmp_path, sys.executable, "-c", JOB)
    told = json.loads(out)
    print(f"\nPID namespace {describe_namespace()}; GPUs {json.dumps(summary['gpus'], indent=1)}")
    print("blind spots:", summary["blind_spots"])
    gpus = [gpu for gpu in summary["gpus"] if told["uuid"] in gpu["uuid"]]
    assert len(gpus) == 1, "the GPU that torch used"
    (gpu,) = gpus
    assert gpu["peak_job_bytes"] is not None, f"the driver's PIDs were not placed: {summary['blind_spots']}"
    context = gpu["peak_job_bytes"] - told["reserved"]
    print(f"context {context / MIB:.0f} MiB; driver: used {gpu['peak_used_bytes']}, torch: used {told['used']}")
    print(f"driver: total {gpu['total_bytes']}, reserved {gpu['reserved_bytes']}, torch: total {told['total']}")
    assert 0 < context < LARGEST_CONTEXT
    assert gpu["peak_job_bytes"] <= gpu["peak_used_bytes"]
    assert abs(gpu["peak_used_bytes"] - told["used"]) < GIB
    assert gpu["total_bytes"] - gpu["reserved_bytes"] == pytest.approx(told["total"], rel=0.01)
    assert gpu["name"] and gpu["uuid"].startswith(("GPU-", "MIG-"))


def test_a_child_of_the_job_counts_and_a_neighbour_does_not(tmp_path):
    """The test's own context lies on the same GPU and is no part of the job."""
    neighbour = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    out, summary = record(tmp_path, "sh", "-c", f"'{sys.executable}' -c '{JOB}'; true")
    told = json.loads(out)
    (gpu,) = [gpu for gpu in summary["gpus"] if told["uuid"] in gpu["uuid"]]
    del neighbour
    print(f"\njob {gpu['peak_job_bytes']}, device {gpu['peak_used_bytes']}, blind spots {summary['blind_spots']}")
    assert gpu["peak_used_bytes"] > told["reserved"] + GIB
    if gpu["peak_job_bytes"] is not None:
        assert 0 < gpu["peak_job_bytes"] - told["reserved"] < LARGEST_CONTEXT
    else:
        assert summary["blind_spots"], "what is not known must be said"


def test_a_job_without_a_gpu_holds_none_of_it(tmp_path):
    _, summary = record(tmp_path, "sleep", "1.5")
    assert summary["gpus"], "those that it could use"
    assert all(gpu["peak_job_bytes"] in (0, None) for gpu in summary["gpus"])
    _, summary = record(tmp_path, "env", "CUDA_VISIBLE_DEVICES=", "sleep", "1.5")
    assert summary["gpus"] == []


def test_the_driver_and_torch_agree_inside_a_program():
    block = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    readings = {reading.device: reading for reading in MemoryProfiler(devices=[0]).read()}
    gpu = _native.gpu_readings()[0]
    print(f"\n{readings['0']}\n{gpu}")
    assert readings["0"].torch_reserved >= 2 * GIB
    assert abs(gpu["used_bytes"] - readings["0"].allocated) < 256 * MIB
    assert readings["0"].own is not None, "the driver's PIDs were not placed"
    assert 0 < readings["0"].own - torch.cuda.memory_reserved() < LARGEST_CONTEXT
    assert hasattr(torch._C, "_cuda_hasPrimaryContext")
    del block


def test_looking_makes_no_context_anywhere():
    """In a program of its own: neither CUDA nor a context is started by a look."""
    code = """
import torch
from nilometer.memory import MemoryProfiler
found = [reading.device for reading in MemoryProfiler(devices=list(range(16))).read()]
assert found and not torch.cuda.is_initialized(), found
torch.ones(1, device="cuda")
MemoryProfiler(devices=list(range(16))).read()
contexts = [index for index in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(index)]
assert contexts == [0], contexts
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_classes_work_without_torch(tmp_path):
    """A program that has not loaded torch sees the GPU by its index."""
    code = """
import sys
from nilometer.memory import LeakDetector, OOMDetector
assert OOMDetector(devices=[0]).check()[0].device_id == 0
assert LeakDetector(devices=[0]).check()[0].device == "0"
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=tmp_path)
    assert OOMDetector(devices=[0]).check()[0].device_id == 0
    assert LeakDetector(devices=[0]).check()[0].device == "0"


def test_the_cost_of_looking_is_printed(tmp_path, monkeypatch):
    _native.gpu_readings()
    taken = []
    for _ in range(300):
        began = time.perf_counter()
        _native.gpu_readings()
        taken.append(time.perf_counter() - began)
    taken.sort()
    print(f"\ngpu_readings(): best {1e6 * taken[0]:.1f} µs, median {1e6 * taken[150]:.1f} µs, worst {1e6 * taken[-1]:.1f} µs")
    for name in ("with", "without"):
        if name == "without":
            monkeypatch.setenv("NILO_NVML", "")
        _, summary = record(tmp_path, "sleep", "20")
        recorder = summary["recorder"]
        print(f"nilo run at 10 Hz {name} GPUs: {recorder['cpu_percent']:.3f} % of a core, {recorder['peak_rss_bytes'] / MIB:.1f} MiB")


# nvidia-smi's names, ours, and how far two looks a moment apart may differ while the GPU is busy.
SENSORS = [
    ("power.draw", "power_watts", 150.0),
    ("enforced.power.limit", "power_limit_watts", 1.0),
    ("temperature.gpu", "temperature_celsius", 10.0),
    ("clocks.sm", "sm_clock_mhz", 600.0),
    ("clocks.mem", "memory_clock_mhz", 100.0),
    ("ecc.errors.uncorrected.volatile.total", "uncorrected_ecc_errors", 0.0),
]

BUSY = """
import time, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
end = time.monotonic() + 8
while time.monotonic() < end:
    for _ in range(20):
        b = a @ a
    torch.cuda.synchronize()
"""


def ask_nvidia_smi():
    """What nvidia-smi says of the first GPU, by its own names; None where it says that it does not know."""
    names = [name for name, *_ in SENSORS]
    command = ["nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader,nounits", "--id=0"]
    values = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().split(",")
    known = [None if "N/A" in value or "Supported" in value else float(value) for value in values]
    return dict(zip(names, known))


def test_sensors_agree_with_nvidia_smi(tmp_path):
    """While the GPU is busy, and what a run of the same job says about it."""
    assert NILO, "nilo is not on the path; set NILO"
    arguments = [NILO, "run", "--quiet", "--interval", "0.1", "--json", "summary.json", "--", sys.executable, "-c", BUSY]
    job = subprocess.Popen(arguments, cwd=tmp_path)
    differences = []
    try:
        # The driver averages power over a second.
        time.sleep(5)
        theirs, ours = ask_nvidia_smi(), _native.gpu_readings()[0]
        for name, own_name, tolerance in SENSORS:
            print(f"{name}: nvidia-smi {theirs[name]}, nilometer {ours[own_name]}")
            if theirs[name] is None or ours[own_name] is None:
                if theirs[name] is not None or ours[own_name] is not None:
                    differences.append(f"{name}: only one of both tells it")
            elif abs(theirs[name] - ours[own_name]) > tolerance:
                differences.append(f"{name}: {theirs[name]} and {ours[own_name]}")
        print("throttled by", ours["throttled_by"])
        assert ours["throttled_by"] is not None and set(ours["throttled_by"]) <= {"power", "heat", "hardware"}
    finally:
        assert job.wait(timeout=120) == 0
    assert not differences
    gpu = json.loads((tmp_path / "summary.json").read_text())["gpus"][0]
    sensors = gpu["sensors"]
    print(json.dumps(sensors, indent=1))
    assert theirs["power.draw"] * 0.7 < sensors["peak_power_watts"] < theirs["enforced.power.limit"] * 1.2
    assert sensors["peak_temperature_celsius"] >= sensors["temperature_celsius"] > 0
    assert abs(sensors["power_limit_watts"] - theirs["enforced.power.limit"]) <= 1
    assert 0 <= sensors["throttled_by_power_share"] <= 1
