"""What the hooks tell of PyTorch's GPU memory. The allocator here is a small program that behaves as PyTorch's; `tests/gpu/test_hooks.py` has the real one."""

import json
import pathlib
import signal
import subprocess
import sys
import textwrap

import pytest
from conftest import NILO

import nilometer

MIB = 1 << 20

# The functions of torch that the hooks use, with an allocator that only counts.
TORCH = '''
import types
__version__ = "0.0"
class OutOfMemoryError(RuntimeError):
    pass
OutOfMemoryError.__module__ = "torch"
LIMIT = 256 << 20
_held = {"bytes": 0, "ooms": 0}
_observers = []
_C = types.SimpleNamespace(_cuda_init=lambda: None, _cuda_getDeviceCount=lambda: 2, _cuda_getMemoryFraction=lambda device: 0.5)
def _stats(device):
    held = _held["bytes"] if device == 0 else 0
    of = lambda value: {"all": {"current": value, "peak": value}}
    return {"allocated_bytes": of(held), "reserved_bytes": of(held + (2 << 20) if held else 0), "inactive_split_bytes": of(1 << 20), "num_alloc_retries": 3, "num_ooms": _held["ooms"]}
_C._cuda_memoryStats = _stats
_C._cuda_attach_out_of_memory_observer = _observers.append
class _Cuda(types.SimpleNamespace):
    _queued_calls = []
    _initialized = False
    def is_initialized(self):
        return self._initialized
    def init(self):
        for call, _ in self._queued_calls:
            call()
        self._initialized = True
    def get_device_properties(self, device):
        return types.SimpleNamespace(total_memory=512 << 20)
cuda = _Cuda()
def empty(count):
    if _held["bytes"] + count > LIMIT:
        _held["ooms"] += 1
        for observer in _observers:
            observer(0, count, _held["bytes"], 100)
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate %.2f MiB. GPU 0 has" % (count / (1 << 20)))
    _held["bytes"] += count
'''


@pytest.fixture
def record(nilo):
    def run(code, *, torch=TORCH, expect=0):
        packages = nilo.folder / "site-packages"
        (packages / "torch").mkdir(parents=True, exist_ok=True)
        (packages / "torch/__init__.py").write_text(torch)
        (nilo.folder / "train.py").write_text(textwrap.dedent(code))
        ended = subprocess.run([NILO, "run", "-q", "--", sys.executable, "train.py"], cwd=nilo.folder, env=nilo.environment | {"PYTHONPATH": str(packages)}, capture_output=True, text=True, timeout=120)
        assert ended.returncode == expect, ended.stderr
        return nilo.show()

    return run


def stored(nilo):
    return json.loads(nilo("export", "--format", "json", "last", "-o", "-").stdout)


def test_figures_of_the_allocator_are_recorded_once_cuda_is_in_use(record, nilo):
    shown = record(
        f"""
        import threading, time
        import torch
        time.sleep(0.6)
        torch.cuda.init()
        for _ in range(8):
            torch.empty(10 * {MIB})
            time.sleep(0.2)
        print(threading.enumerate())
        """
    )
    (device,) = shown["torch_memory"]
    assert device["device"] == 0 and device["writer"].startswith("python-")
    assert 50 * MIB <= device["peak_allocated_bytes"] <= 80 * MIB
    (table,) = [table for table in stored(nilo)["tables"] if table["subject"]["type"] == "torch-memory"]
    assert {"inactive_split_bytes", "alloc_retries", "allowed_bytes"} <= {column["name"] for column in table["columns"]}
    assert len(table["times_nanos"]) >= 4 and table["times_nanos"][0] > 500_000_000


def test_the_allocators_own_account_of_the_failure_is_in_the_ending(record, nilo):
    shown = record(
        f"""
        import torch
        torch.cuda.init()
        def train():
            while True:
                torch.empty(100 * {MIB})
        train()
        """,
        expect=1,
    )
    assert shown["status"] == "gpu-out-of-memory"
    gpu = shown["oom"]["gpu"]
    assert (gpu["requested_bytes"], gpu["allocated_bytes"], gpu["allowed_bytes"]) == (100 * MIB, 200 * MIB, 256 * MIB)
    assert (gpu["alloc_retries"], gpu["ooms"], gpu["device_free_bytes"]) == (3, 1, 100)
    assert "tried to allocate 100.00 MiB on cuda:0 with 200.00 of 256.00 MiB allowed allocated, in train.py:6 (train)" in nilo("show").stdout


def test_a_failure_in_a_thread_without_python_is_that_of_the_line_that_waits_for_it(record, nilo):
    """As in a backward pass: the observer is the first Python of its thread."""
    shown = record(
        f"""
        import _thread, threading, time
        import torch
        torch.cuda.init()
        def backward():
            _thread.start_new_thread(torch._observers[0], (0, 100 * {MIB}, 0, 0))
            time.sleep(1)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 100.00 MiB. GPU 0 has")
        backward()
        """,
        expect=1,
    )
    [failure] = [event for event in stored(nilo)["events"] if event["event"] == "gpu-allocation-failed"]
    assert failure["frames"][-1]["function"] == "backward"
    assert shown["status"] == "gpu-out-of-memory" and shown["oom"]["gpu"]["requested_bytes"] == 100 * MIB


def test_what_was_allocated_last_is_in_the_peak(record):
    code = f"""
        import time
        import torch
        torch.cuda.init()
        torch.empty(10 * {MIB})
        time.sleep(0.6)
        torch.empty(100 * {MIB})
    """
    (device,) = record(code)["torch_memory"]
    assert device["peak_allocated_bytes"] == 110 * MIB


@pytest.mark.parametrize("leaves", ["os._exit(5)", "os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"])
def test_a_peak_is_told_where_no_exit_handlers_run(record, nilo, leaves):
    """It is written at the next look, not with the lines of the looks after that."""
    code = f"""
        import os, signal, time
        import torch
        torch.cuda.init()
        looks = 0
        read = torch._C._cuda_memoryStats
        def count(device):
            global looks
            looks += 1
            return read(device)
        torch._C._cuda_memoryStats = count
        torch.empty(10 * {MIB})
        while looks < 2:
            time.sleep(0.01)
        torch.empty(80 * {MIB})
        enough = looks + 3
        while looks < enough:
            time.sleep(0.01)
        {leaves}
    """
    expect = 5 if "_exit" in leaves else -signal.SIGTERM
    (device,) = record(code, expect=expect)["torch_memory"]
    assert device["peak_allocated_bytes"] == 90 * MIB


def test_what_was_held_when_an_allocation_failed_is_in_the_peak(record, nilo):
    code = f"""
        import os
        import torch
        torch.cuda.init()
        torch.empty(10 * {MIB})
        torch.empty(230 * {MIB})
        try:
            torch.empty(20 * {MIB})
        except torch.OutOfMemoryError:
            os._exit(3)
    """
    (device,) = record(code, expect=3)["torch_memory"]
    assert (device["peak_allocated_bytes"], device["peak_reserved_bytes"]) == (240 * MIB, 242 * MIB)


def test_a_failure_that_the_program_catches_ends_nothing(record, nilo):
    shown = record(
        f"""
        import torch
        torch.cuda.init()
        for _ in range(60):
            try:
                torch.empty(300 * {MIB})
            except torch.OutOfMemoryError:
                pass
        """
    )
    assert shown["status"] == "exited" and shown["oom"] is None
    failures = [event for event in stored(nilo)["events"] if event["event"] == "gpu-allocation-failed"]
    assert len(failures) == 50, "no more of one process"
    sentence = "60 GPU allocations failed and the program went on: the last tried to allocate 300.00 MiB on cuda:0 with 0 B of 256.00 MiB allowed allocated, in train.py:6 (<module>)"
    (finding,) = [finding for finding in shown["findings"] if finding["kind"] == "gpu-allocation-failed"]
    assert (finding["severity"], finding["text"]) == ("warning", sentence)
    assert sentence in nilo("show").stdout
    judged = nilo("oom")
    assert judged.returncode == 1 and f"[WARNING] {sentence}" in " ".join(judged.stdout.split())
    answer = json.loads(nilo("oom", "--format", "json").stdout)
    assert answer["handled_gpu_failures"]["count"] == shown["handled_gpu_failures"]["count"] == 60
    assert answer["handled_gpu_failures"]["cause"]["kind"] == "too-large-request" and answer["warned"]
    assert nilo.runs()[-1]["status"] == "exited"


def test_a_failure_that_ended_the_program_is_told_once(record, nilo):
    shown = record(f"import torch\ntorch.cuda.init()\ntorch.empty(300 * {MIB})\n", expect=1)
    assert "handled_gpu_failures" not in shown
    assert [finding["kind"] for finding in shown["findings"]].count("gpu-out-of-memory") == 1
    assert "gpu-allocation-failed" not in [finding["kind"] for finding in shown["findings"]]


def test_what_oom_says_of_the_gpu_and_of_pytorch_on_it_agrees(record, nilo):
    record(f"import time, torch\ntorch.cuda.init()\ntorch.empty(200 * {MIB})\ntime.sleep(0.6)\nfor _ in range(9):\n    torch.empty(20 * {MIB})\n", expect=1)
    resources = json.loads(nilo("oom", "--format", "json").stdout)["resources"]
    used = {resource["name"]: resource["used_bytes"] for resource in resources if "GPU" in resource["name"]}
    assert set(used.values()) == {240 * MIB}, used


def test_a_torch_without_the_private_functions_is_said_once_and_the_rest_goes_on(record, nilo):
    without = TORCH + "\ndel _C._cuda_attach_out_of_memory_observer, _C._cuda_memoryStats\n"
    shown = record("import torch\ntorch.cuda.init()\ntorch.empty(1 << 40)\n", torch=without, expect=1)
    assert shown["status"] == "gpu-out-of-memory"
    blind = [event["text"] for event in stored(nilo)["events"] if event["event"] == "blind" and "torch 0.0" in event["text"]]
    assert len(blind) == 1


@pytest.mark.parametrize("broken", ["_C = None", "del cuda", "_C._cuda_memoryStats = None", "raise ImportError('no such library')"])
def test_a_torch_that_is_none_breaks_nothing(record, broken):
    record("try:\n    import torch\nexcept ImportError as error:\n    print(error)\n", torch=TORCH + "\n" + broken + "\n")


def test_without_cuda_there_is_no_thread_and_no_row(record, nilo):
    code = """
        import os, torch
        assert len(os.listdir("/proc/self/task")) == 1
    """
    assert record(code)["torch_memory"] == []


# The functions that keep a history, in addition.
HISTORY = TORCH + """
_history = []
_C._cuda_isHistoryEnabled = lambda: bool(_history)
def _record(enabled="all", context="all", stacks="all", max_entries=1 << 62):
    _history[:] = [max_entries] if enabled else []
cuda.memory = types.SimpleNamespace(_record_memory_history=_record, _snapshot=lambda: {"segments": [], "device_traces": [[{"action": "oom", "size": 1, "device_free": 0, "stream": 0}]]})
cuda.is_available = lambda: True
cuda.device_count = lambda: 2
def _lazy_call(call):
    call() if cuda._initialized else cuda._queued_calls.append((call, []))
cuda._lazy_call = _lazy_call
"""


@pytest.mark.parametrize("recorded_by", ["torch.cuda.memory._record_memory_history(max_entries=10)", "record_history(max_entries=10)"])
def test_the_snapshot_of_a_failure_is_stored_once_whoever_records_the_history(record, nilo, recorded_by):
    """Where nilometer records it the hooks name the attachment of nilometer, and take none of their own."""
    package = pathlib.Path(nilometer.__file__).resolve().parents[1]
    shown = record(
        f"""
        import sys
        sys.path.insert(0, {str(package)!r})
        import torch
        from nilometer._torch_history import record_history
        recording = {recorded_by}
        torch.cuda.init()
        for _ in range(2):
            try:
                torch.empty(300 * {MIB})
            except torch.OutOfMemoryError:
                pass
        torch.empty(300 * {MIB})
        """,
        torch=HISTORY,
        expect=1,
    )
    failures = [event for event in stored(nilo)["events"] if event["event"] == "gpu-allocation-failed"]
    named = [event["snapshot"] for event in failures if event.get("snapshot")]
    files = [path.name for path in nilo.folder.rglob("snapshot-*.pickle")]
    assert len(failures) == 3 and len(named) == 1 and files == named
    assert [each["name"] for each in shown["attachments"]] == named
