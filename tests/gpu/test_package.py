"""What concerns a GPU, on a real one: nothing waits for it, and its memory and times are right.

Run by hand with `make test-gpu` on a machine with a GPU and PyTorch.
"""

import itertools
import json
import statistics
import time

import pytest
import torch

import nilometer
from nilometer.memory import MemoryProfiler, OOMDetector
from nilometer.metrics import MetricTracker
from nilometer.profiling import ComprehensiveProfiler, GPUMemoryProfiler, TrainingTimer
from nilometer.profiling.timer import CudaTimer

GIB = 1 << 30


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NILO_STRICT", "1")
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    torch.cuda.synchronize()
    run = nilometer.init(memory=False)
    yield run
    run.finish(0)
    torch.cuda.empty_cache()


@pytest.fixture
def nothing_waits():
    """Inside, anything that makes the program wait for the GPU raises."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def busy(milliseconds):
    """Keeps the GPU busy without keeping the CPU: a loop of `cycles` clock ticks, about 1.7 GHz on this kind of GPU."""
    torch.cuda._sleep(int(milliseconds * 1.7e6))


def test_scalars_on_the_gpu_are_logged_without_waiting(run, nothing_waits):
    values = torch.arange(100, device="cuda", dtype=torch.float32)
    busy(200)
    losses = [(values[step] * 2).sum() for step in range(100)]
    for step, loss in enumerate(losses):
        run.log({"loss": loss, "plain": 1.0}, step=step)
    assert not torch.cuda.current_stream().query(), "logging waited for the GPU"
    torch.cuda.set_sync_debug_mode("default")
    run.finish(0)
    series = nilometer.read_run(run.path).series("loss")
    assert series.step.tolist() == list(range(100))
    assert series.value.tolist() == [2.0 * step for step in range(100)]


def test_values_arrive_while_the_loop_goes_on(run):
    loss = torch.tensor(1.5, device="cuda")
    run.log({"loss": loss}, step=0)
    torch.cuda.synchronize()
    run.log({"other": 1.0}, step=1)
    assert nilometer.read_run(run.path).series("loss").value.tolist() == [1.5]


@pytest.mark.parametrize("kind", ["float64", "float16", "bfloat16", "int64", "bool"])
def test_every_type_of_scalar(run, kind):
    run.log({"x": torch.ones((1,), device="cuda", dtype=getattr(torch, kind))}, step=0)
    run.finish(0)
    assert nilometer.read_run(run.path).series("x").value.tolist() == [1.0]


def test_a_value_that_needs_grad_keeps_no_graph(run):
    import gc
    import weakref

    weight = torch.ones(1000, device="cuda", requires_grad=True)
    hidden = weight * 2
    alive = weakref.ref(hidden)
    run.log({"loss": hidden.sum()}, step=0)
    torch.cuda.synchronize()
    run.log({"x": 1.0}, step=1)
    del hidden
    gc.collect()
    assert alive() is None


def test_a_tracker_reads_gpu_scalars_when_asked(run, nothing_waits):
    tracker = MetricTracker()
    for step in range(10):
        tracker.update("loss", torch.tensor(float(step)).pin_memory().to("cuda", non_blocking=True), step)
    torch.cuda.set_sync_debug_mode("default")
    assert tracker.get_mean("loss") == 4.5
    assert tracker.get_values("loss") == [float(step) for step in range(10)]


def test_phases_are_timed_on_the_gpu_without_waiting(run, nothing_waits):
    timer = TrainingTimer(device=0)
    assert isinstance(timer, CudaTimer)
    durations = []
    for _ in range(5):
        timer.start("forward")
        busy(20)
        durations.append(timer.stop("forward"))
    assert not torch.cuda.current_stream().query(), "timing waited for the GPU"
    torch.cuda.set_sync_debug_mode("default")
    summary = timer.get_summary()["forward"]
    assert summary["count"] == 5
    # What a synchronizing measurement says of the same work.
    torch.cuda.synchronize()
    started = time.perf_counter()
    busy(20)
    torch.cuda.synchronize()
    expected = time.perf_counter() - started
    assert summary["p50_sec"] == pytest.approx(expected, rel=0.2)
    # The host only queued it.
    assert all(type(seconds) is float and seconds < expected for seconds in durations)
    assert json.dumps(durations) and statistics.mean(durations) > 0
    waiting = TrainingTimer(device=0, synchronize=True)
    waiting.start("forward")
    busy(20)
    seconds = waiting.stop("forward")
    assert type(seconds) is float and seconds == pytest.approx(expected, rel=0.2)
    # The five, and the one that was waited for.
    assert len(nilometer.read_run(run.path).phase("forward").value) == 6


def test_nested_phases_on_the_gpu(run):
    timer = TrainingTimer(device="cuda")
    with timer.phase("step"):
        with timer.phase("forward"):
            busy(5)
        with timer.phase("backward"):
            busy(10)
    summary = timer.get_summary()
    assert sorted(summary) == ["step", "step/backward", "step/forward"]
    parts = summary["step/forward"]["mean_sec"] + summary["step/backward"]["mean_sec"]
    assert summary["step"]["mean_sec"] == pytest.approx(parts, rel=0.1)


def test_memory_is_what_torch_says_and_a_leak_is_found(run):
    profiler = GPUMemoryProfiler(device=0)
    profiler.set_baseline()
    block = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    stats = profiler.measure("with block")
    assert stats["allocated_gb"] == pytest.approx(torch.cuda.memory_allocated() / GIB)
    assert profiler.detect_leak(threshold_gb=0.5)
    del block
    assert not profiler.detect_leak(threshold_gb=0.5)
    summary = profiler.get_summary()
    assert summary["peak_allocated_gb"] >= 1.0
    shown = nilometer.read_run(run.path).summary()
    assert shown is not None
    with pytest.raises(nilometer.NilometerError, match="no CUDA device 99"):
        GPUMemoryProfiler(device=99)


def test_the_profile_has_the_gpu_beside_the_host(run, tmp_path):
    torch.ones(1, device="cuda")
    profiler = MemoryProfiler(sampling_interval=0.02)
    with profiler:
        block = torch.empty(2 * GIB, dtype=torch.uint8, device="cuda")
        time.sleep(0.2)
    del block
    report = profiler.generate_report(tmp_path / "report.json")
    assert set(report["devices"]) == {"host", "0"}
    gpu = report["devices"]["0"]
    assert gpu["statistics"]["peak_allocated"] >= 2 * GIB
    assert gpu["current_usage"]["total"] == torch.cuda.mem_get_info()[1]
    assert gpu["current_usage"]["non_torch"] >= 0
    assert json.loads((tmp_path / "report.json").read_text()) == report
    # The samples lie in the run; the peaks are not looked up at every one of them.
    recorded = nilometer.read_run(run.path)
    assert max(recorded.torch_memory(0, "reserved_bytes").value) >= 2 * GIB
    assert len(recorded.torch_memory(0, "peak_reserved_bytes").value) == 0


def test_a_gpu_that_fills_up_is_warned_of(run):
    torch.ones(1, device="cuda")
    free, total = torch.cuda.mem_get_info()
    seen = []
    detector = OOMDetector(threshold=85.0, warning_callback=seen.append, sampling_interval=0.02, devices=[0])
    with detector:
        time.sleep(0.1)
        assert seen == []
        block = torch.empty(int(free - 0.1 * total), dtype=torch.uint8, device="cuda")
        time.sleep(0.3)
        more = torch.empty(int(torch.cuda.mem_get_info()[0] - 0.03 * total), dtype=torch.uint8, device="cuda")
        time.sleep(0.3)
    del block, more
    assert [prediction.risk_level.value for prediction in seen] == ["high", "critical"]
    assert seen[0].device_id == 0 and 85 <= seen[0].current_usage <= 95
    assert str(seen[0]).startswith("[WARNING] OOM Warning: GPU 0\n   Risk Level: high\n   Current Usage: 9")


def test_the_comprehensive_profiler_on_a_gpu(run, tmp_path):
    profiler = ComprehensiveProfiler(device=0)
    for _ in range(20):
        profiler.start_iteration()
        busy(2)
        profiler.end_iteration(num_samples=8, num_tokens=128)
    results = profiler.export_to_json(tmp_path / "p.json")
    assert results["memory"]["kind"] == "torch"
    assert results["timing"]["iteration"]["count"] == 20
    assert 0.001 < results["timing"]["iteration"]["p50_sec"] < 0.01


def test_the_cost_of_instrumentation_is_printed(run):
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(2048, 2048, device="cuda")

    numbers = itertools.count()

    def step(timer=None):
        if timer is None:
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return
        timer.start("forward")
        loss = model(batch).square().mean()
        timer.stop("forward")
        timer.start("backward")
        loss.backward()
        timer.stop("backward")
        timer.start("optimizer")
        optimizer.step()
        optimizer.zero_grad()
        timer.stop("optimizer")
        run.log({"loss": loss, "lr": 1e-3}, step=next(numbers))

    timer = TrainingTimer(device=0)
    for _ in range(20):
        step(timer)
    torch.cuda.synchronize()
    plain, watched = [], []
    for _ in range(15):
        for taken, which in ((plain, None), (watched, timer)):
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(20):
                step(which)
            torch.cuda.synchronize()
            taken.append((time.perf_counter() - started) / 20)
    plain.sort(), watched.sort()
    difference = watched[7] - plain[7]
    print(f"\na step of {1e3 * plain[7]:.3f} ms takes {1e6 * difference:+.1f} µs ({100 * difference / plain[7]:+.2f} %) more with three phases and a GPU scalar logged")
