"""The hooks of `nilo run` in programs with a real PyTorch, below real launchers."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import ROOT

NILO = os.environ.get("NILO") or os.path.join(os.path.dirname(sys.executable), "nilo")
# Without a GPU an allocation on one cannot fail by itself; the exception is PyTorch's own.
FAILS = """
    import torch
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.AdamW(model.parameters())
    def train():
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB")
    train()
"""
BIN = pathlib.Path(sys.executable).parent


@pytest.fixture
def record(tmp_path):
    """Runs a program below `nilo run`; gives what it printed and the run."""

    def run(code, *command, options=(), expect=1):
        (tmp_path / "train.py").write_text(textwrap.dedent(code))
        environment = {key: value for key, value in os.environ.items() if not key.startswith("NILO_")}
        command = command or (sys.executable, "train.py")
        ended = subprocess.run([NILO, "run", "-q", *options, "--", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert ended.returncode == expect, ended.stderr
        shown = subprocess.run([NILO, "show", "--format", "json"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        return ended, json.loads(shown.stdout)

    return run


def test_a_failed_allocation_ends_the_run_as_what_it_is(record):
    ended, shown = record(FAILS)
    assert shown["status"] == "gpu-out-of-memory"
    assert shown["oom"]["gpu"]["requested_bytes"] == 2 << 30
    assert shown["exception"]["frames"][-1]["function"] == "train"
    assert "torch.OutOfMemoryError: CUDA out of memory" in ended.stderr


def test_memory_that_the_system_refuses_pytorch_is_out_of_memory(record):
    ended, shown = record("import torch\ntorch.empty(1 << 60, dtype=torch.uint8)\n")
    assert "DefaultCPUAllocator" in ended.stderr and shown["oom"]["kind"] == "host-allocation"


@pytest.mark.parametrize(
    "launcher",
    [
        (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "0", "train.py"),
        (str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "1", "train.py"),
        (str(BIN / "accelerate"), "launch", "--cpu", "--num_processes", "1", "train.py"),
        ("bash", "-c", f"{sys.executable} train.py"),
    ],
    ids=["torch.distributed.run", "torchrun", "accelerate", "bash"],
)
def test_below_launchers_the_worker_is_told(record, launcher):
    assert shutil.which(launcher[0])
    _, shown = record(FAILS, *launcher)
    assert shown["status"] == "gpu-out-of-memory"
    assert shown["exception"]["type_name"] == "torch.OutOfMemoryError"


def test_workers_of_a_data_loader_and_spawned_ranks_tell(record):
    code = """
        import torch, torch.multiprocessing as mp
        def work(rank):
            raise ValueError("rank %d" % rank)
        if __name__ == "__main__":
            mp.spawn(work, nprocs=1)
    """
    _, shown = record(code)
    assert "rank 0" in shown["exception"]["message"]


PROBE = """
    import sys
    import torch, threading, gc, time, warnings, os
    model = torch.nn.Linear(4, 4)
    model(torch.ones(1, 4)).sum().backward()
    loader = torch.utils.data.DataLoader(range(8), num_workers=1)
    print(sorted(sys.modules), sys.path, [getattr(each, "__name__", type(each).__name__) for each in sys.meta_path], threading.enumerate().__len__())
    numbers = list(map(int, loader))
    deadline = time.monotonic() + 10
    # The loader's own thread may take a moment to end.
    while len(os.listdir("/proc/self/task")) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    print(numbers, len(os.listdir("/proc/self/task")), warnings.filters.__len__(), len(gc.callbacks), torch.cuda.is_initialized())
    print([line for line in open("/proc/self/maps") if "nilo" in line])
"""


def test_a_program_with_torch_prints_the_same(record):
    printed = [record(PROBE, options=options, expect=0)[0] for options in (["--no-hooks"], [])]
    assert printed[0].stdout == printed[1].stdout
    assert printed[0].stderr == printed[1].stderr


def test_whether_gradients_were_enabled_is_told(record):
    """The observer of PyTorch is called as its allocator calls it; without a GPU the allocator's figures are made up."""
    code = """
        import types
        import torch
        observers = []
        figures = dict(allocated_bytes=12 << 30, reserved_bytes=12 << 30, inactive_split_bytes=0)
        torch._C._cuda_attach_out_of_memory_observer = observers.append
        torch._C._cuda_memoryStats = lambda device: {name: {"all": {"current": size, "peak": size}} for name, size in figures.items()}
        torch._C._cuda_getDeviceCount = lambda: 1
        torch._C._cuda_getMemoryFraction = lambda device: 0.1
        torch.cuda.get_device_properties = lambda device: types.SimpleNamespace(total_memory=140 << 30)
        for call, _ in torch.cuda._queued_calls:
            if "nilo_torch" in call.__code__.co_filename:
                call()
        model = torch.nn.Linear(8, 8).eval()
        def evaluate():
            (observer,) = observers
            observer(0, 1 << 26, 12 << 30, 120 << 30)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacity of 140.00 GiB")
        evaluate()
    """
    _, shown = record(code)
    gpu = shown["oom"]["gpu"]
    assert (gpu["grad_enabled"], gpu["is_training"], gpu["allocated_bytes"]) == (True, False, 12 << 30)
    assert shown["oom"]["gpu_cause"]["kind"] == "allowed-fraction"
