"""Fragmentation of GPU memory, with a made-up allocator: figures that add up, and advice only where something was found."""

import subprocess
import sys

import pytest
from made_up_torch import MadeUpTorch, segment

import nilometer
from nilometer.memory import MemoryDebugger, analyze_fragmentation
from nilometer.profiling import GPUMemoryProfiler

GIB = 1 << 30
MIB = 1 << 20


@pytest.fixture
def use(monkeypatch):
    def put(**options):
        torch = MadeUpTorch(**options)
        monkeypatch.setitem(sys.modules, "torch", torch)
        return torch

    return put


def holds(torch, *segments):
    torch.segments = list(segments)
    torch.reserved = sum(each["total_size"] for each in segments)
    blocks = [(each, block) for each in segments for block in each["blocks"]]
    torch.allocated = sum(block["size"] for _, block in blocks if block["state"] == "active_allocated")
    partly = [each for each in segments if any(block["state"] == "active_allocated" for block in each["blocks"])]
    torch.split = sum(block["size"] for each in partly for block in each["blocks"] if block["state"] == "inactive")


def test_the_figures_are_those_of_the_segments(use):
    torch = use()
    holds(torch, segment(100, (60, True), (30, False), (10, False)), segment(50, (50, False)), segment(50, (50, True)), segment(999, (999, True), device=1))
    torch.reserved -= 999
    torch.allocated -= 999
    found = analyze_fragmentation("cuda:0")
    assert found["available"] and found["reason"] is None and found["device"] == 0
    assert (found["allocated_bytes"], found["reserved_bytes"], found["cached_bytes"]) == (110, 200, 90)
    assert (found["inactive_split_bytes"], found["releasable_bytes"]) == (40, 50)
    assert found["fragmentation_index"] == 0.2 and found["cached_share"] == 0.45
    assert found["largest_free_block_bytes"] == 50
    assert (found["segments"], found["partly_used_segments"], found["free_segments"]) == (3, 1, 1)
    assert found["recommendations"] == [], "so few bytes are worth no setting"


def advice(torch):
    return " | ".join(analyze_fragmentation(0)["recommendations"])


def test_pieces_are_a_reason_for_expandable_segments_unless_they_are(use):
    torch = use()
    blocks = [(100 * MIB, True), (60 * MIB, False)]
    holds(torch, *[segment(160 * MIB, *blocks) for _ in range(10)])
    assert "expandable_segments:True" in advice(torch) and "600.00 MiB of 1.56 GiB" in advice(torch)
    assert "max_split_size_mb" not in advice(torch) and "empty_cache" not in advice(torch)
    holds(torch, *[segment(160 * MIB, *blocks, is_expandable=True) for _ in range(10)])
    assert "expandable_segments:True" not in advice(torch) and "although segments are expandable" in advice(torch)


def test_large_segments_that_small_tensors_keep_are_a_reason_for_a_splitting_limit(use):
    torch = use()
    holds(torch, *[segment(200 * MIB, (10 * MIB, True), (190 * MIB, False)) for _ in range(4)])
    assert "max_split_size_mb:128: 4 large segments" in advice(torch)


def test_free_segments_are_a_reason_to_empty_the_cache(use):
    torch = use()
    holds(torch, segment(GIB, (GIB, False)), segment(GIB, (GIB, True)))
    assert "torch.cuda.empty_cache()" in advice(torch) and "expandable" not in advice(torch)


def test_a_torch_that_tells_no_segments_has_the_rest(use):
    torch = use(without=["memory_snapshot"])
    torch.alloc(100)
    found = analyze_fragmentation(0)
    assert found["allocated_bytes"] == 100 and found["segments"] is None and found["largest_free_block_bytes"] is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"has_cuda": False, "is_started": False}, "there is no CUDA device"),
        ({"is_started": False}, "the program has not used CUDA yet"),
    ],
)
def test_without_cuda_there_are_no_figures_and_a_reason(use, options, reason):
    use(**options)
    assert analyze_fragmentation() == {"available": False, "device": 0, "reason": reason, "recommendations": []}


def test_a_device_that_is_not_there_is_named(use):
    use()
    assert "no CUDA device 5" in analyze_fragmentation(5)["reason"]
    with pytest.raises(ValueError):
        analyze_fragmentation("tpu")


def test_torch_is_not_imported_for_it():
    code = "import sys\nfrom nilometer.memory import analyze_fragmentation\nprint(analyze_fragmentation()['reason'], 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "PyTorch is not imported False\n"


def test_measurements_have_the_index_and_the_run_has_the_pieces(use, run):
    torch = use()
    profiler = GPUMemoryProfiler(0, run=run)
    for pieces in (0, 40, 10):
        torch.allocated, torch.reserved, torch.split = 60, 100, pieces
        stats = profiler.measure()
    assert stats["fragmentation"] == 0.1 and stats["unallocated_gb"] == 40 / GIB and stats["inactive_split_gb"] == 10 / GIB
    summary = profiler.get_summary()["fragmentation"]
    assert (summary["last"], summary["max"]) == (0.1, 0.4) and summary["mean"] == pytest.approx(0.5 / 3)
    run.finish(0)
    assert nilometer.read_run(run.path).torch_memory(0, "inactive_split_bytes").value.tolist() == [0, 40, 10]


def test_without_a_gpu_measurements_have_no_index(run):
    profiler = GPUMemoryProfiler(0, run=run)
    assert "fragmentation" not in profiler.measure()
    assert profiler.get_summary()["fragmentation"] is None


def test_the_debuggers_report_has_it_for_every_gpu():
    report = MemoryDebugger(count_objects=False).get_status_report()
    assert set(report["fragmentation"]) == {device for device in report["devices"] if device != "host"}
