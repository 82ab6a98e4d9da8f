"""GPU memory from inside the program on a real GPU: history, the snapshot of a failure, peaks of phases, fragmentation."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time

import pytest
import torch

import nilometer
from nilometer.memory import MemoryDebugger, analyze_fragmentation
from nilometer.profiling import GPUMemoryProfiler, TrainingTimer
from nilometer.torch import record_history, watch

NILO = os.environ.get("NILO") or shutil.which("nilo") or "nilo"
MIB = 1 << 20


@pytest.fixture(autouse=True)
def no_history():
    """Each test begins without a history and with an empty allocator."""
    torch.cuda.init()
    torch.cuda.memory._record_memory_history(None)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    yield
    torch.cuda.memory._record_memory_history(None)


def run_out():
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")


def attachment(run, name):
    return run.path / "attachments" / name


def test_a_failure_is_attached_with_its_history_and_explained():
    run = nilometer.init(memory=False)
    with record_history(max_entries=1000) as recording:
        assert recording.is_recording
        held = [torch.empty(MIB, device="cuda") for _ in range(10)]
        run_out()
    assert len(held) == 10 and not torch._C._cuda_isHistoryEnabled()
    path = attachment(run, recording.failure_snapshot)
    actions = [event["action"] for event in pickle.loads(path.read_bytes())["device_traces"][torch.cuda.current_device()]]
    assert actions.count("alloc") >= 10 and "oom" in actions
    answer = subprocess.run([NILO, "snapshot", "why", path, "--format", "json"], capture_output=True, text=True)
    assert answer.returncode == 1, answer.stderr
    failure = json.dumps(json.loads(answer.stdout))
    assert str(1 << 42) in failure and "test_torch_live.py" in failure


def test_a_failure_in_backward_is_attached_too():
    run = nilometer.init(memory=False)
    hidden = torch.nn.Parameter(torch.randn(4096, 4096, device="cuda"))
    loss = (hidden.exp() @ hidden).sum()
    total = torch.cuda.get_device_properties(0).total_memory
    with record_history() as recording:
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + MIB) / total)
        try:
            with pytest.raises(torch.OutOfMemoryError):
                loss.backward()
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
    assert attachment(run, recording.failure_snapshot).exists()


def test_the_history_is_bounded():
    with record_history(max_entries=50) as recording:
        for _ in range(200):
            torch.empty(MIB, device="cuda")
        path = recording.snapshot(path="bounded.pickle")
    with open(path, "rb") as file:
        assert 0 < len(pickle.load(file)["device_traces"][torch.cuda.current_device()]) <= 50


def test_what_the_program_records_goes_on():
    torch.cuda.memory._record_memory_history(max_entries=100)
    with record_history():
        pass
    assert torch._C._cuda_isHistoryEnabled()
    torch.cuda.memory._record_memory_history(None)
    with record_history():
        torch.cuda.memory._record_memory_history(max_entries=100)
    assert torch._C._cuda_isHistoryEnabled()


def test_below_nilo_run_there_is_one_snapshot_and_it_is_named(tmp_path):
    code = """
import nilometer, torch
with nilometer.torch.record_history(max_entries=1000):
    assert not torch.cuda.is_initialized()
    held = [torch.empty(1 << 20, device="cuda") for _ in range(10)]
    torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
"""
    (tmp_path / "train.py").write_text(code)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NILO_")}
    ended = subprocess.run([NILO, "run", "-q", "--", sys.executable, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1, ended.stderr
    shown = json.loads(subprocess.run([NILO, "show", "--format", "json"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
    snapshots = [path for path in tmp_path.rglob("snapshot-*.pickle")]
    assert len(snapshots) == 1
    assert shown["oom"]["gpu"]["snapshot"] == snapshots[0].name


def test_peaks_of_phases_are_those_of_pytorch_and_its_counters_stay(recorded):
    timer = TrainingTimer(0)
    held = torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
    with timer.phase("rises"):
        torch.empty(256 * MIB, dtype=torch.uint8, device="cuda")
    peak = torch.cuda.max_memory_allocated()
    with timer.phase("below"):
        torch.empty(128 * MIB, dtype=torch.uint8, device="cuda")
    with timer.phase("keeps"):
        more = torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.max_memory_allocated() == peak >= 320 * MIB
    now = torch.cuda.memory_allocated()
    assert held.numel() + more.numel() <= now
    phases = {phase["name"]: (phase["peak_at_least_bytes"], phase["peak_at_most_bytes"]) for phase in recorded().summary()["phases"]}
    assert phases["rises"] == (peak, peak)
    # Allocated and freed again: the counters bound it, and its true peak lies at the upper bound.
    assert phases["below"] == (now - 32 * MIB, now - 32 * MIB + 128 * MIB)
    assert phases["keeps"] == (now, now)


def test_watch_knows_the_phase_with_the_programs_peak_and_nothing_waits(recorded):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(8192, 1024, device="cuda")
    torch.cuda.reset_peak_memory_stats()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with watch(model, optimizer):
            for _ in range(20):
                model(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    peak = torch.cuda.max_memory_allocated()
    phases = {phase["name"]: phase for phase in recorded().summary()["phases"]}
    assert {"forward", "backward", "optimizer"} <= set(phases)
    for phase in phases.values():
        assert phase["peak_at_least_bytes"] <= phase["peak_at_most_bytes"] <= peak, phase
    # The loss and its backward lie between forward and the model's backward, and count as backward.
    assert max(phase["peak_at_least_bytes"] for phase in phases.values()) == peak


def test_fragmentation_is_found_and_gone_again():
    pieces = [torch.empty(16 * MIB, dtype=torch.uint8, device="cuda") for _ in range(64)]
    assert analyze_fragmentation()["partly_used_segments"] is not None
    del pieces
    found = analyze_fragmentation()
    stats = torch.cuda.memory_stats()
    assert found["reserved_bytes"] == stats["reserved_bytes.all.current"]
    assert found["inactive_split_bytes"] == stats["inactive_split_bytes.all.current"]
    assert found["releasable_bytes"] >= 1 << 30
    assert found["largest_free_block_bytes"] >= 16 * MIB
    assert any("empty_cache" in sentence for sentence in found["recommendations"])
    torch.cuda.empty_cache()
    assert analyze_fragmentation()["releasable_bytes"] == 0


def test_a_segment_that_a_small_tensor_keeps_is_partly_used():
    torch.empty(512 * MIB, dtype=torch.uint8, device="cuda")  # a segment that is free as a whole
    small = torch.empty(16 * MIB, dtype=torch.uint8, device="cuda")
    found = analyze_fragmentation()
    stats = GPUMemoryProfiler(0).measure()
    if not found["expandable_segments"]:
        assert found["barely_used_large_segments"] >= 1 and found["inactive_split_bytes"] >= 490 * MIB
        assert stats["fragmentation"] > 0.5
        assert any("expandable_segments:True" in sentence for sentence in found["recommendations"])
    assert small.numel() and MemoryDebugger(count_objects=False).get_status_report()["fragmentation"]["0"]["available"]


def test_what_a_look_costs_is_printed(capsys):
    from nilometer.profiling._phase_peaks import PhasePeaks

    held = [torch.empty(MIB, device="cuda") for _ in range(1000)]
    peaks = PhasePeaks(torch, 0)
    began = time.perf_counter()
    for _ in range(1000):
        peaks.look()
    look = (time.perf_counter() - began) / 1000
    began = time.perf_counter()
    analyze_fragmentation()
    whole = time.perf_counter() - began
    with capsys.disabled():
        print(f"\na look at the allocator takes {look * 1e6:.0f} µs, analyze_fragmentation {whole * 1e3:.1f} ms with {len(held)} tensors")
