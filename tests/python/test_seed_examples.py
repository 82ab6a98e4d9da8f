"""The examples of the documents that this package unites, as written there (imports adapted), with their outputs checked."""

import json
import time

import pytest

import nilometer


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NILO_STRICT", "1")
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    yield tmp_path
    nilometer.finish(0)


# Memory debugging


def test_unified_interface(capsys):
    from nilometer.memory import MemoryDebugger

    # Start comprehensive monitoring
    debugger = MemoryDebugger()
    debugger.start_monitoring()

    time.sleep(0.35)

    # Stop monitoring and get report
    debugger.stop_monitoring()
    report = debugger.get_status_report()
    print(f"Monitoring summary: {report}")

    assert capsys.readouterr().out.startswith("Monitoring summary: {'timestamp'")
    host = report["devices"]["host"]
    assert host["statistics"]["samples_count"] >= 2
    assert 0 < host["current_usage"]["allocated"] < host["current_usage"]["total"]


def test_individual_tools(folder):
    from nilometer.memory import MemoryProfiler, OOMDetector

    # Memory analysis
    profiler = MemoryProfiler(sampling_interval=0.1)
    profiler.start_monitoring()
    time.sleep(0.35)
    profiler.stop_monitoring()
    profiler.generate_report("memory_report.json")

    report = json.loads((folder / "memory_report.json").read_text())
    assert set(report) == {"timestamp", "devices", "summary"}
    for device in report["devices"].values():
        usage, statistics = device["current_usage"], device["statistics"]
        assert {"allocated", "free", "total", "utilization_percent"} <= set(usage)
        assert {"avg_utilization", "max_utilization", "samples_count"} <= set(statistics)
        assert usage["utilization_percent"] == pytest.approx(100 * usage["allocated"] / usage["total"], abs=0.01)
        assert 3 <= statistics["samples_count"] <= 6
        assert statistics["avg_utilization"] <= statistics["max_utilization"]
    assert set(report["summary"]) == {"total_devices", "total_memory_gb", "overall_utilization"}
    assert report["summary"]["total_devices"] == len(set(report["devices"]) - {"host"})

    # OOM detection
    detector = OOMDetector(threshold=85.0)
    detector.start_monitoring()
    assert detector.is_monitoring
    detector.stop_monitoring()


def test_custom_oom_callbacks(capsys):
    from nilometer.memory import OOMDetector

    seen = []

    def custom_oom_callback(prediction):
        if prediction.risk_level.value == "critical":
            # Execute emergency operations, such as reducing batch size
            print(f"Critical OOM risk on GPU {prediction.device_id}! Taking action...")
        seen.append(prediction)

    # A threshold so low that this very process is above it.
    detector = OOMDetector(threshold=1e-6, warning_callback=custom_oom_callback, sampling_interval=0.02)
    detector.start_monitoring()
    deadline = time.monotonic() + 10
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    detector.stop_monitoring()
    assert [prediction.risk_level.value for prediction in seen] == ["high"]
    assert seen[0].device_id == "host"
    block = str(seen[0]).split("\n")
    assert block[0] == "[WARNING] OOM Warning: host memory"
    assert block[1] == "   Risk Level: high"
    assert block[2].startswith("   Current Usage: ") and block[2].endswith("%")
    assert block[3] == "   Predicted OOM Time: none"
    assert block[4].startswith("   Recommendation: ")


# Profiling


def test_gpu_memory_profiler():
    from nilometer.profiling import GPUMemoryProfiler

    profiler = GPUMemoryProfiler(device=0)
    # Take measurement
    stats = profiler.measure("after_forward")
    assert set(stats) == {"allocated_gb", "reserved_gb", "max_allocated_gb", "max_reserved_gb"}
    profiler.set_baseline()  # After model load
    leak = profiler.detect_leak(threshold_gb=0.5)
    assert leak is False


def test_training_timer():
    from nilometer.profiling import TrainingTimer

    timer = TrainingTimer(device=0)
    for _ in range(100):
        timer.start("forward")
        taken = timer.stop("forward")
        timer.start("backward")
        time.sleep(0.001)
        assert timer.stop("backward") >= 0.001
    assert isinstance(taken, float)
    summary = timer.get_summary()
    assert summary["forward"]["count"] == summary["backward"]["count"] == 100
    assert summary["backward"]["mean_sec"] >= 0.001 > summary["forward"]["p50_sec"]
    assert set(summary["forward"]) == {
        "count", "mean_sec", "std_sec", "min_sec", "max_sec", "p50_sec", "p95_sec", "total_sec",
    }  # fmt: skip


def test_throughput_tracker():
    from nilometer.profiling import ThroughputTracker

    tracker = ThroughputTracker(window_size=100)
    batch_size, total_tokens = 8, 10240
    for _ in range(10):
        time.sleep(0.005)
        tracker.update(num_samples=batch_size, num_tokens=total_tokens)
    throughput = tracker.get_current_throughput()
    assert throughput["tokens_per_sec"] == pytest.approx(throughput["samples_per_sec"] * 1280)
    assert 0 < throughput["samples_per_sec"] <= 8 / 0.005


def test_comprehensive_profiler(folder):
    from nilometer.profiling import ComprehensiveProfiler

    num_epochs, batch_size, total_tokens = 2, 4, 64
    dataloader = range(5)
    profiler = ComprehensiveProfiler(device=0)
    for _epoch in range(num_epochs):
        for _batch in dataloader:
            profiler.start_iteration()
            time.sleep(0.002)
            profiler.end_iteration(num_samples=batch_size, num_tokens=total_tokens)
    # Export everything
    profiler.export_to_json("profiling_results.json")

    results = json.loads((folder / "profiling_results.json").read_text())
    assert {"timestamp", "device", "memory", "timing", "throughput"} <= set(results)
    assert results["device"] == 0
    assert {"peak_allocated_gb", "mean_allocated_gb", "baseline_gb"} <= set(results["memory"])
    assert 0 < results["memory"]["mean_allocated_gb"] <= results["memory"]["peak_allocated_gb"]
    assert results["timing"]["iteration"]["count"] == 10
    assert results["timing"]["iteration"]["mean_sec"] >= 0.002
    assert results["throughput"]["tokens_per_sec"] == pytest.approx(results["throughput"]["samples_per_sec"] * 16)


# Metrics


def test_metric_tracker():
    from nilometer.metrics import MetricTracker

    tracker = MetricTracker()
    for step in range(1000):
        loss = (step % 100) / 100
        tracker.update("loss", loss, step=step)
    assert tracker.get_mean("loss") == pytest.approx(0.495)
    assert tracker.get_std("loss") == pytest.approx(0.28866070047722116)
    summary = tracker.get_summary("loss")
    assert summary["count"] == 1000
    assert (summary["min"], summary["max"]) == (0.0, 0.99)
    assert summary["p95"] == pytest.approx(0.94, abs=0.011)
    tracker.update_batch({"loss": 0.5, "reward": 0.8, "kl_div": 0.01}, step=100)
    assert tracker.get_mean("reward") == 0.8
    assert tracker.get_mean("loss", window=100) == pytest.approx((sum(range(1, 100)) / 100 + 0.5) / 100)


def test_grpo_metrics_tracker():
    from nilometer.metrics import GRPOMetricsTracker

    grpo_tracker = GRPOMetricsTracker()
    grpo_tracker.update_grpo_step(
        step=100,
        policy_loss=0.45,
        mean_reward=0.72,
        reward_components={"format": 1.0, "score": 0.68, "meta": 0.85},
        kl_divergence=0.012,
    )
    # Store group rewards for analysis
    grpo_tracker.update_group_rewards([0.9, 0.7, 0.5, 0.3])
    # Analyze distribution
    dist = grpo_tracker.get_reward_distribution()
    assert dist["reward_mean"] == pytest.approx(0.6)
    assert dist["reward_std"] == pytest.approx(0.2581988897471611)
    assert set(dist["rank_distribution"]) == {1, 2, 3, 4}


def test_score_distribution_tracker():
    from nilometer.metrics import ScoreDistributionTracker

    score_tracker = ScoreDistributionTracker()
    # Batch of verification scores
    scores = [1.0, 0.5, None, 1.0, 0.0]  # None = invalid
    score_tracker.update(scores)
    dist = score_tracker.get_distribution()
    expected = {
        "total": 5,
        "valid_count": 4,
        "invalid_count": 1,
        "invalid_rate": 0.2,
        "score_counts": {"0.0": 1, "0.5": 1, "1.0": 2},
        "mean_score": 0.625,
    }
    assert {key: dist[key] for key in expected} == expected


def test_training_logger(folder):
    from nilometer.metrics import TrainingLogger

    logger = TrainingLogger(log_dir="experiments/logs", experiment_name="verifier_iter1")
    for step in range(1000):
        loss, reward = 1 / (step + 1), step / 1000
        logger.log_step(step=step, metrics={"loss": loss, "reward": reward}, scores=[1.0, 0.5, 1.0, 0.0])
        # Save at checkpoints
        if step % 100 == 0:
            logger.save_checkpoint_metrics(f"step_{step}")
    # Final export
    logger.export_all()

    logs = folder / "experiments" / "logs"
    exported = json.loads((logs / "verifier_iter1_metrics.json").read_text())
    assert exported["experiment_name"] == "verifier_iter1"
    assert exported["raw_metrics"]["loss"] == [1 / (step + 1) for step in range(1000)]
    assert exported["metric_summaries"]["reward"]["max"] == 0.999
    assert exported["score_distribution"]["mean_score"] == 0.625
    assert exported["score_distribution"]["score_counts"] == {"0.0": 1000, "0.5": 1000, "1.0": 2000}
    checkpoints = sorted(path.name for path in logs.glob("verifier_iter1_step_*.json"))
    assert len(checkpoints) == 10
    at_300 = json.loads((logs / "verifier_iter1_step_300.json").read_text())
    assert at_300["metric_summaries"]["loss"]["count"] == 301


@pytest.mark.filterwarnings("ignore:.*the step went back")
def test_profiling_and_metrics_together(folder, monkeypatch):
    # Its steps begin anew in each epoch, which strict mode raises for.
    monkeypatch.delenv("NILO_STRICT")
    from nilometer.metrics import TrainingLogger
    from nilometer.profiling import ComprehensiveProfiler

    class Batch(list):
        total_tokens = 32

    def training_step(batch):
        return 0.5, 0.8, [1.0, None]

    num_epochs, dataloader = 2, [Batch(range(4))] * 3
    profiler = ComprehensiveProfiler(device=0)
    logger = TrainingLogger("experiments/logs", "verifier_iter1")
    for epoch in range(num_epochs):
        for step, batch in enumerate(dataloader):
            profiler.start_iteration()
            loss, reward, scores = training_step(batch)
            profiler.end_iteration(num_samples=len(batch), num_tokens=batch.total_tokens)
            logger.log_step(step=step, metrics={"loss": loss, "reward": reward}, scores=scores)
        profiler.export_to_json(f"profiling_epoch{epoch}.json")
        logger.save_checkpoint_metrics(f"epoch{epoch}")

    assert json.loads((folder / "profiling_epoch1.json").read_text())["timing"]["iteration"]["count"] == 6
    assert (folder / "experiments/logs/verifier_iter1_epoch1.json").is_file()
    # Everything lies in one run, beside memory.
    recorded = nilometer.RecordedRun(logger.run.path)
    assert len(recorded.series("loss").value) == 6
    assert len(recorded.phase("iteration").value) == 6
    assert recorded.throughput("samples").value.tolist() == [4, 8, 12, 16, 20, 24]
    assert [text for _, text in recorded.marks] == ["checkpoint epoch0", "checkpoint epoch1"]


def test_finding_a_leak_every_hundred_steps(capsys):
    from nilometer.profiling import GPUMemoryProfiler

    profiler = GPUMemoryProfiler(device=0)
    profiler.set_baseline()  # After model load
    for step in range(1000):
        if step % 100 == 0:
            if profiler.detect_leak(threshold_gb=0.5):
                print(f"Leak detected at step {step}")
    assert capsys.readouterr().out == ""


# How much memory a job takes


def test_peak_memory_as_the_kernel_counts_it():
    from resource import RUSAGE_SELF, getrusage

    block = bytearray(64 << 20)
    peak = nilometer.peak_rss()
    assert peak >= len(block)
    # On Linux ru_maxrss is in KiB and may be that of the program before exec; ours never is.
    assert peak <= getrusage(RUSAGE_SELF).ru_maxrss * 1024 + (1 << 20)


def test_repeat_in_the_spirit_of_timeit():
    timing = nilometer.repeat(lambda: sum(range(1000)), number=100, repeat=3)
    assert len(timing.rounds) == 3 and timing.number == 100
    assert 0 < timing.minimum <= timing.median <= timing.maximum
    assert timing.spread == pytest.approx(timing.maximum / timing.minimum - 1)
    assert "per call" in timing.describe() and str(timing) == str(list(timing))


def test_a_line_every_n_batches(caplog):
    lines = []
    tracker = nilometer.ThroughputTracker(window_size=10, total_batches=100, log_every=10, log=lines.append)
    for _ in range(50):
        time.sleep(0.001)
        tracker.update(num_samples=2, num_tokens=16)
    assert len(lines) == 5
    assert lines[-1].startswith("batch 50, last 10 in ") and "samples/s" in lines[-1] and lines[-1].endswith(" left")
