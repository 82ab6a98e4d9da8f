"""GPU memory with the real PyTorch on a machine without a GPU: everything says so, and the private functions that are used are there."""

import inspect

import pytest
import torch
from torch.cuda import memory

import nilometer
from nilometer._allocator_history import AllocatorHistory
from nilometer.memory import MemoryDebugger, analyze_fragmentation
from nilometer.profiling import GPUMemoryProfiler, TrainingTimer

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: tests/gpu has the tests for it")


def test_without_cuda_recording_says_so_and_the_program_goes_on(monkeypatch):
    monkeypatch.setattr(nilometer._trouble, "_said", set())
    with pytest.warns(nilometer.NilometerWarning, match="there is no CUDA device; nothing is recorded"):
        recording = nilometer.torch.record_history()
    with recording:
        assert not recording.is_recording
        torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()
    assert recording.failure_snapshot is None
    assert not torch.cuda.is_initialized()


def test_without_cuda_there_is_no_fragmentation():
    assert analyze_fragmentation() == {"available": False, "device": 0, "reason": "there is no CUDA device", "recommendations": []}
    assert MemoryDebugger(count_objects=False).get_status_report()["fragmentation"] == {}
    assert set(GPUMemoryProfiler().measure()) == {"allocated_gb", "reserved_gb", "max_allocated_gb", "max_reserved_gb"}


def test_without_cuda_phases_have_no_peak(recorded):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nilometer.torch.watch(model, optimizer), TrainingTimer(0).phase("all"):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    phases = recorded().summary()["phases"]
    assert {"forward", "all"} <= {phase["name"] for phase in phases}
    assert not any("peak_at_least_bytes" in phase for phase in phases)


def test_the_private_functions_that_are_used_are_there():
    assert AllocatorHistory(torch).missing == []
    assert {"enabled", "stacks", "max_entries"} <= set(inspect.signature(memory._record_memory_history).parameters)
    assert inspect.signature(memory._snapshot).bind()
    assert inspect.signature(torch.cuda._lazy_call).bind(print)
    assert callable(torch._C._cuda_memoryStats)
    assert inspect.signature(torch.cuda.memory_stats_as_nested_dict).bind(0)
    assert inspect.signature(torch.cuda.memory_snapshot).bind()


def test_calls_that_the_program_queues_for_cuda_are_one_more(monkeypatch):
    """Where CUDA could be had but was not started, nothing is recorded and nothing is started."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    queued = len(torch.cuda._queued_calls)
    try:
        with nilometer.torch.record_history() as recording:
            assert len(torch.cuda._queued_calls) == queued + 1
            assert not recording.is_recording and not torch.cuda.is_initialized()
        # As CUDA's start would do, after the recording has ended.
        torch.cuda._queued_calls[-1][0]()
    finally:
        del torch.cuda._queued_calls[queued:]
