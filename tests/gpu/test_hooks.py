"""The hooks of `nilo run` on a real GPU: programs that know nothing of Nilometer, and run out of memory in different ways."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

NILO = os.environ.get("NILO") or shutil.which("nilo") or "nilo"
GIB = 1 << 30
TRAIN = """
    import torch
    torch.cuda.set_per_process_memory_fraction({fraction})
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    kept = []
    def train():
        for step in range(100_000):
            loss = model(torch.randn(512, 2048, device="cuda")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            {leak}
    train()
"""


@pytest.fixture
def record(tmp_path):
    def run(code, *, expect=1, command=(sys.executable, "train.py"), env=None):
        (tmp_path / "train.py").write_text(textwrap.dedent(code))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("NILO_")} | (env or {})
        ended = subprocess.run([NILO, "run", "-q", "--", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert ended.returncode == expect, ended.stderr
        return answer(tmp_path, "show")

    return run


def answer(folder, *command):
    printed = subprocess.run([NILO, *command, "--format", "json"], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(printed.stdout)


def text(folder, *command):
    return subprocess.run([NILO, *command], cwd=folder, capture_output=True, text=True).stdout


def test_one_allocation_that_is_too_large(record, tmp_path):
    shown = record("import torch\ndef ask():\n    return torch.empty(1 << 40, dtype=torch.uint8, device='cuda')\nask()\n")
    assert shown["status"] == "gpu-out-of-memory"
    gpu = shown["oom"]["gpu"]
    assert (gpu["requested_bytes"], gpu["device"]) == (1 << 40, 0)
    assert gpu["device_total_bytes"] > 10 * GIB and gpu["ooms"] >= 1
    assert os.path.basename(gpu["place"]["file"]) == "train.py" and gpu["place"]["function"] == "ask"
    assert "tried to allocate 1.00 TiB on cuda:0" in text(tmp_path, "show")


def test_a_leak_up_to_the_allowed_fraction(record, tmp_path):
    shown = record(TRAIN.format(fraction=0.03, leak="kept.append(torch.zeros(8 << 20, device='cuda'))"))
    gpu = shown["oom"]["gpu"]
    total = gpu["device_total_bytes"]
    assert gpu["allowed_bytes"] == pytest.approx(0.03 * total, rel=0.02)
    assert 0.9 * gpu["allowed_bytes"] <= gpu["allocated_bytes"] <= gpu["allowed_bytes"]
    assert " allowed allocated, in train.py:" in text(tmp_path, "show")
    (device,) = shown["torch_memory"]
    assert device["peak_allocated_bytes"] > 0.8 * gpu["allowed_bytes"]


def test_a_backward_pass_that_runs_out_keeps_its_exception(record, tmp_path):
    """It runs in a thread of PyTorch that has no line of Python."""
    code = """
        import torch
        hidden = torch.nn.Parameter(torch.randn(4096, 4096, device="cuda"))
        loss = (hidden.exp() @ hidden).sum()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 20)) / total)
        loss.backward()
    """
    shown = record(code)
    assert shown["status"] == "gpu-out-of-memory", shown["exception"]
    assert shown["exception"]["type_name"] == "torch.OutOfMemoryError"
    gpu = shown["oom"]["gpu"]
    assert os.path.basename(gpu["place"]["file"]) == "train.py" and gpu["place"]["line"] == 7
    assert gpu["phase"] == "backward"


def test_the_part_of_the_step_is_named(record, tmp_path):
    # The state of the optimizer is what does not fit: two floats for each parameter.
    code = """
        import torch
        model = torch.nn.Linear(16384, 16384).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        model(torch.randn(8, 16384, device="cuda")).sum().backward()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + (1 << 29)) / total)
        optimizer.step()
    """
    assert record(code)["oom"]["gpu"]["phase"] == "optimizer.step"


def test_a_training_that_goes_well_has_figures_over_time(record, tmp_path):
    code = TRAIN.format(fraction=1.0, leak="").replace("100_000", "2000")
    shown = record(code, expect=0)
    assert shown["status"] == "exited" and shown["oom"] is None
    (device,) = shown["torch_memory"]
    assert device["peak_reserved_bytes"] >= device["peak_allocated_bytes"] > 100 << 20
    recording = answer(tmp_path, "export", "last", "-o", "-")
    (table,) = [table for table in recording["tables"] if table["subject"]["type"] == "torch-memory"]
    assert len(table["times_nanos"]) >= 2


def test_failures_that_are_caught_are_events(record, tmp_path):
    code = """
        import torch
        for _ in range(3):
            try:
                torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
            except torch.OutOfMemoryError:
                pass
    """
    shown = record(code, expect=0)
    assert shown["status"] == "exited"
    recording = answer(tmp_path, "export", "last", "-o", "-")
    assert sum(event["event"] == "gpu-allocation-failed" for event in recording["events"]) == 3


def test_a_snapshot_is_attached_where_history_is_recorded(record, tmp_path):
    code = """
        import torch
        torch.cuda.memory._record_memory_history(max_entries=1000)
        held = [torch.empty(1 << 20, device="cuda") for _ in range(10)]
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    """
    shown = record(code)
    (attached,) = [each["name"] for each in shown["attachments"]]
    assert attached == shown["oom"]["gpu"]["snapshot"]


def test_with_nilometer_everything_is_told_once(record, tmp_path):
    code = "import nilometer\nnilometer.init()\nnilometer.log({'loss': 1.0}, step=7)\n" + textwrap.dedent(TRAIN.format(fraction=0.03, leak="kept.append(torch.zeros(8 << 20, device='cuda'))"))
    shown = record(code)
    assert shown["status"] == "gpu-out-of-memory" and shown["oom"]["gpu"]["step"] == 7
    recording = answer(tmp_path, "export", "last", "-o", "-")
    assert sum(event["event"] == "exception" for event in recording["events"]) == 1
    assert len(shown["torch_memory"]) == 1


def test_below_torchrun(record):
    command = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", "train.py")
    shown = record(TRAIN.format(fraction=0.03, leak="kept.append(torch.zeros(8 << 20, device='cuda'))"), command=command)
    assert shown["status"] == "gpu-out-of-memory"
    assert shown["exception"]["type_name"] == "torch.OutOfMemoryError"


def test_cuda_is_not_initialized_by_the_hooks(record):
    record("import torch, time\ntime.sleep(1)\nassert not torch.cuda.is_initialized()\n", expect=0)


def test_nothing_waits_for_the_gpu(record):
    code = TRAIN.format(fraction=1.0, leak="").replace("100_000", "500").replace("    train()\n", "    torch.cuda.set_sync_debug_mode('error')\n    train()\n")
    record(code, expect=0)
