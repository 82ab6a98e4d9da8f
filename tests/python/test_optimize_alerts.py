"""What the memory optimization system says of a budget, of where memory goes, and of leaks: alerts, reports and recommendations agree."""

import mmap

import pytest
from conftest import wait_until
from package import run_program

import nilometer
from nilometer import LeakDetector, MemoryOptimizationConfig, MemoryOptimizationSystem

QUIET = MemoryOptimizationConfig(monitoring_interval=0.05, enable_memory_profiling=False)


def test_usage_is_a_share_of_what_the_program_may_hold():
    config = MemoryOptimizationConfig(max_memory_usage_gb=0.5, monitoring_interval=0.05, enable_memory_profiling=False)
    with MemoryOptimizationSystem(config) as optimizer:
        usage = optimizer.get_comprehensive_report()["current_memory_usage"]
    assert usage["memory_percent"] == pytest.approx(usage["memory_mb"] / 512, rel=1e-3)
    assert usage["limit_mb"] == 512 and usage["limit_source"] == "max_memory_usage_gb"
    assert 0 < usage["process_mb"] <= usage["peak_mb"] + 1 and 0 < usage["system"]["memory_percent"] < 1 and usage["gpus"] == []
    limit = nilometer._native.memory_limit()
    large = MemoryOptimizationSystem(MemoryOptimizationConfig(max_memory_usage_gb=1e6))
    assert large.limit_bytes == limit[0]


def test_a_small_budget_alerts_and_a_late_callback_is_told():
    # This process holds more than 4 MiB, whatever the machine has.
    config = MemoryOptimizationConfig(max_memory_usage_gb=4 / 1024, monitoring_interval=0.02, enable_memory_profiling=False)
    early, late = [], []
    with MemoryOptimizationSystem(config) as optimizer:
        optimizer.monitor.add_alert_callback(early.append)
        wait_until(lambda: early, "the alert")
        optimizer.monitor.add_alert_callback(late.append)
        wait_until(lambda: late, "the alert that stands")
        report = optimizer.get_comprehensive_report()
    assert early[0]["type"] == late[0]["type"] == "critical_memory"
    assert early[0]["device"] == "host" and early[0]["threshold"] == 90 and early[0]["current_usage"] > 90
    assert {alert["type"] for alert in report["alerts"]} == {"warning_memory", "critical_memory"}
    assert [alert["type"] for alert in report["alert_history"]] == ["critical_memory"]


def new_memory(size):
    """Pages that this process did not have before: what earlier tests gave back is not used again."""
    piece = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    piece.write(b"x" * size)
    return piece


def test_where_memory_goes_is_judged_against_the_budget(tmp_path):
    # In a process of its own: what earlier tests held and gave back is part of what a forecast knows of a program.
    code = """
        import mmap, time
        import nilometer
        from nilometer import MemoryOptimizationConfig, MemoryOptimizationSystem
        held_gb = nilometer.memory.MemoryProfiler().read()[0].allocated / 2**30
        config = MemoryOptimizationConfig(max_memory_usage_gb=held_gb + 1, monitoring_interval=0.1, enable_memory_profiling=False, enable_object_counting=False)
        kept, alerts = [], []
        with MemoryOptimizationSystem(config) as optimizer:
            optimizer.monitor.add_alert_callback(alerts.append)
            deadline = time.monotonic() + 120
            while not any(alert["type"] == "oom_risk" for alert in alerts):
                assert time.monotonic() < deadline, f"timed out: the risk, after {alerts}"
                piece = mmap.mmap(-1, 256 << 10, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
                piece.write(b"x" * (256 << 10))
                kept.append(piece)
                optimizer.step()
                time.sleep(0.02)
            report = optimizer.get_comprehensive_report()
        [alert] = [alert for alert in alerts if alert["type"] == "oom_risk"][:1]
        assert alert["limit"] == "the program's own budget" and alert["message"].startswith("job memory is likely to run out in "), alert
        [risk] = report["oom_risk"]
        usage = report["current_memory_usage"]
        assert risk["limit"] == usage["limit_source"] == "max_memory_usage_gb" and risk["resource"] == "job memory", risk
        assert abs(risk["current_usage"] - 100 * usage["memory_percent"]) <= 2, (risk, usage)
        assert risk["risk_level"] in ("high", "critical") and risk["predicted_oom_seconds"] < 600, risk
        assert "oom_risk" in {alert["type"] for alert in report["alerts"]}, report["alerts"]
    """
    run_program(code, tmp_path, timeout=180)


def test_a_budget_above_the_limit_in_force_is_none():
    limit = nilometer._native.memory_limit()
    risk = nilometer.OOMDetector(devices=["host"]).check()[0]
    above = nilometer.OOMDetector(devices=["host"], max_memory_bytes=limit[0] + 1).check()[0]
    assert above.limit_source == risk.limit_source != nilometer._native.OWN_BUDGET
    held = nilometer.memory.MemoryProfiler().read()[0].allocated
    below = nilometer.OOMDetector(devices=["host"], max_memory_bytes=held).check()[0]
    assert (below.limit_source, below.risk_level.value) == (nilometer._native.OWN_BUDGET, "critical") and below.current_usage > 90
    with pytest.raises(ValueError, match="max_memory_bytes is 0; it must be a whole number, 1 or more"):
        nilometer.MemoryDebugger(max_memory_bytes=0)


def test_objects_that_accumulate_are_found_and_registered_ones_cleaned_up(tmp_path):
    code = """
        import nilometer
        class Record:
            def __init__(self):
                self.values = [1.0] * 100
        config = nilometer.MemoryOptimizationConfig(monitoring_interval=0.5, profile_top_n=3)
        cache = []
        with nilometer.MemoryOptimizationSystem(config) as optimizer:
            optimizer.leaks.time_share, optimizer.leaks.every_steps = 1e9, 5
            optimizer.leaks.on_cleanup(cache.clear)
            for _ in range(200):
                cache.append(Record())
                optimizer.step()
            report = optimizer.get_comprehensive_report()["object_leaks"]
            optimizer.export_optimization_report("report.md")
            assert 0 < len(report["growing"]) <= 3
            assert any("cache" in str(one["holder"]) for one in report["growing"]), report
            result = optimizer.optimize_memory_usage()
            assert result["actions"][0]["name"] == "registered objects" and cache == []
        assert "Objects that accumulate" in open("report.md").read()
    """
    run_program(code, tmp_path)


def test_loading_is_no_leak_and_growth_beyond_a_baseline_that_was_set_is():
    with MemoryOptimizationSystem(QUIET) as optimizer:
        loaded = bytearray(b"x") * (200 << 20)
        [leak] = optimizer.get_comprehensive_report()["memory_leaks"]
        assert leak["growth_mb"] > 150 and leak["kind"] == "baseline" and not leak["is_leak"]
        optimizer.monitor.set_baseline()
        more = bytearray(b"x") * (200 << 20)
        [leak] = optimizer.get_comprehensive_report()["memory_leaks"]
        assert leak["growth_mb"] > 150 and leak["is_leak"]
        del loaded, more


def test_a_leak_is_in_alerts_and_recommendations(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = nilometer.init(name="leaks")
    config = MemoryOptimizationConfig(monitoring_interval=0.1, enable_memory_profiling=False, enable_object_counting=False)
    kept = []
    with MemoryOptimizationSystem(config) as optimizer:

        def is_recommended():
            kept.append(new_memory(256 << 10))
            run.log({"loss": 1.0})
            optimizer.step()
            return any(one["rule"] == "stop-the-leak" for one in optimizer.generate_optimization_recommendations())

        wait_until(is_recommended, "a leak that goes on", 120)
        assert optimizer.facts()["host"]["leak_bytes_per_second"] > 0
        wait_until(lambda: is_recommended() and optimizer.monitor.active_alerts(), "the alert", 120)
        report = optimizer.get_comprehensive_report()
    assert "memory_leak" in {alert["type"] for alert in report["alerts"]}
    assert report["memory_leaks"][0]["is_leak"] and report["memory_leaks"][0]["kind"] == "leak"
    run.finish(0)


def test_steps_that_the_system_counts_end_the_time_of_loading():
    """No run logs steps, and it is the first minute: what the system was told of tells training from loading, for all parts of the report alike."""
    config = MemoryOptimizationConfig(monitoring_interval=0.1, enable_memory_profiling=False, enable_object_counting=False)
    kept = []
    with LeakDetector(sampling_interval=0.1) as still_watching, MemoryOptimizationSystem(config) as optimizer:

        def recommended():
            kept.append(new_memory(256 << 10))
            optimizer.step()
            return [one for one in optimizer.generate_optimization_recommendations() if one["rule"] == "stop-the-leak"]

        # While nothing runs on a busy machine, nothing grows either.
        told = []

        def goes_on():
            told[:] = [*recommended(), optimizer.get_comprehensive_report()]
            return len(told) == 2 and told[1]["memory_leaks"] and optimizer.steps > 120

        wait_until(goes_on, "a leak that goes on", 120)
        said, report = told
        optimizer.stop()
        # Nothing grows any more, and whoever goes on looking says so.
        wait_until(lambda: not still_watching.check()[0].is_leak, "the end of the leak", 120)
    assert report["memory_leaks"][0]["is_leak"] and report["memory_leaks"][0]["kind"] == "leak"
    [alert] = [one for one in report["alerts"] if one["type"] == "memory_leak"]
    assert alert["device"] == "host" and alert["mb_per_minute"] > 0
    assert said["confidence"] == "high" and not any("may be loading" in reason for reason in said["evidence"])
    assert optimizer.get_comprehensive_report()["memory_leaks"][0]["is_leak"], "after its end too"
