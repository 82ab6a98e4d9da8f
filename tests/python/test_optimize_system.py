"""The memory optimization system without a model: it watches, alerts, cleans up, logs buffers, and reports what was measured."""

import asyncio
import gc
import json
import mmap
import os
import sys
import textwrap
import threading
import tracemalloc
import types

import numpy
import pytest
from conftest import wait_until
from package import run_program

import nilometer
from nilometer import LeakDetector, MemoryOptimizationConfig, MemoryOptimizationSystem
from nilometer.optimize import GarbageCollector, memory_efficient_context, memory_efficient_decorator, memory_efficient_training, quick_memory_optimization
from nilometer.optimize.host import garbage
from nilometer.optimize.objects.allocation_lines import traced_lines
from nilometer.optimize.report_files import bullet_points
from nilometer.optimize.system import optimization_system, step_rate
from nilometer.optimize.system.report import as_markdown

QUIET = MemoryOptimizationConfig(monitoring_interval=0.05, enable_memory_profiling=False)


def test_it_gives_back_what_it_took_over():
    before = (gc.isenabled(), gc.get_threshold(), tracemalloc.is_tracing())
    config = MemoryOptimizationConfig(monitoring_interval=0.05, gc_threshold_0=801, gc_threshold_1=11, gc_threshold_2=12)
    with MemoryOptimizationSystem(config) as optimizer:
        assert gc.get_threshold() == (801, 11, 12) and tracemalloc.is_tracing()
        assert any(thread.name == "nilo-housekeeping" for thread in threading.enumerate())
        optimizer.step()
    assert (gc.isenabled(), gc.get_threshold(), tracemalloc.is_tracing()) == before
    assert not any(thread.name == "nilo-housekeeping" for thread in threading.enumerate())
    optimizer.stop()


def test_a_trace_that_the_program_began_goes_on():
    tracemalloc.start(1)
    try:
        with MemoryOptimizationSystem(MemoryOptimizationConfig(monitoring_interval=0.05)) as optimizer:
            kept = [bytearray(1 << 20) for _ in range(8)]
            top = optimizer.get_comprehensive_report()["top_allocations"]
        assert tracemalloc.is_tracing()
        assert __file__ in top[0]["location"] and top[0]["size_mb"] == pytest.approx(8, abs=0.1) and len(kept) == 8
        assert len(top) <= 10
    finally:
        tracemalloc.stop()


def test_lines_are_those_of_a_snapshot_without_an_object_for_each_block(monkeypatch):
    made = []
    with MemoryOptimizationSystem(MemoryOptimizationConfig(monitoring_interval=5)) as optimizer:
        kept = [bytearray(1 << 20) for _ in range(3)], [bytearray(1 << 16) for _ in range(5)]
        expected = {
            f"{one.traceback[0].filename}:{one.traceback[0].lineno}": (one.size, one.count)
            for one in tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, __file__)]).statistics("lineno")
        }
        for name in ("filter_traces", "statistics", "compare_to"):
            monkeypatch.setattr(tracemalloc.Snapshot, name, lambda *_, **__: made.append(1))
        found = {f"{file}:{number}": held for (file, number), held in traced_lines().items() if file == __file__}
        optimizer.get_comprehensive_report()
    largest = max(expected, key=lambda line: expected[line])
    assert found[largest] == expected[largest] and expected[largest][0] > 3 << 20 and len(kept[1]) == 5
    assert not any(os.path.dirname(nilometer.__file__) + "/optimize/" in file for file, _ in traced_lines())
    assert made == [] and traced_lines() == {}


def test_the_time_of_a_report_is_no_time_of_the_loop(monkeypatch):
    clock, looked = [100.0], []
    monkeypatch.setattr(garbage, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(step_rate, "time", types.SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(optimization_system, "time", types.SimpleNamespace(perf_counter=lambda: clock[0]))
    with MemoryOptimizationSystem(QUIET) as optimizer:
        look, report_leaks = optimizer.monitor.get_status_report, optimizer.leaks.report

        def look_long():
            clock[0] += 1000
            gc.collect()
            return look()

        monkeypatch.setattr(optimizer.monitor, "get_status_report", look_long)
        monkeypatch.setattr(optimizer.leaks, "report", lambda: looked.append(1) or report_leaks())
        for _ in range(4):
            clock[0] += 0.5
            optimizer.step()
        first = optimizer.get_comprehensive_report()
        clock[0] += 0.5
        optimizer.step()
        second = optimizer.get_comprehensive_report()
        facts = optimizer.facts()["gc"]
        assert len(looked) == 3, "once a report"
        # On another thread the loop goes on meanwhile.
        thread = threading.Thread(target=optimizer.status)
        thread.start()
        thread.join()
        later = optimizer.facts()["gc"]
    assert facts["wall_seconds"] == pytest.approx(2.5) and facts["full_collections_asked"] == 0
    assert facts["step_seconds"] == pytest.approx(0.5)
    assert first["training"]["seconds_per_step"] == second["training"]["seconds_per_step"] == pytest.approx(0.5)
    assert later["wall_seconds"] == pytest.approx(1002.5)


def test_what_is_saved_is_measured(tmp_path):
    # In a process of its own: what other tests left free would be given back here.
    code = """
        import nilometer
        config = nilometer.MemoryOptimizationConfig(monitoring_interval=0.05, enable_memory_profiling=False)
        with nilometer.MemoryOptimizationSystem(config) as optimizer:
            # Blocks of the C heap that are free between others: nobody gives them back by himself.
            blocks = [bytes(1000) for _ in range(200_000)]
            kept = blocks[::1000]
            del blocks
            first = optimizer.optimize_memory_usage()
            second = optimizer.optimize_memory_usage()
        rows = {row["name"]: row["saved_mb"] for row in first["actions"]}
        assert first["memory_saved_mb"] > 150, first
        assert rows["heap trim"] > 150 and list(rows) == ["registered objects", "garbage collection", "GPU cache", "heap trim"], rows
        assert abs(first["memory_saved_mb"] - (first["memory_before_mb"] - first["memory_after_mb"])) < 0.01
        assert 0 <= second["memory_saved_mb"] < 20, second
        assert [row["saved_mb"] for row in optimizer.get_comprehensive_report()["optimizations"]] == [first["memory_saved_mb"], second["memory_saved_mb"]]
    """
    run_program(code, tmp_path)


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


def test_where_memory_goes_is_judged_against_the_budget():
    held_gb = nilometer.memory.MemoryProfiler().read()[0].allocated / 2**30
    config = MemoryOptimizationConfig(max_memory_usage_gb=held_gb + 1, monitoring_interval=0.1, enable_memory_profiling=False, enable_object_counting=False)
    kept, alerts = [], []
    with MemoryOptimizationSystem(config) as optimizer:
        optimizer.monitor.add_alert_callback(alerts.append)

        def is_told():
            kept.append(new_memory(256 << 10))
            optimizer.step()
            return any(alert["type"] == "oom_risk" for alert in alerts)

        wait_until(is_told, "the risk", 120)
        report = optimizer.get_comprehensive_report()
    [alert] = [alert for alert in alerts if alert["type"] == "oom_risk"][:1]
    assert alert["limit"] == "the program's own budget" and alert["message"].startswith("job memory is likely to run out in ")
    [risk] = report["oom_risk"]
    usage = report["current_memory_usage"]
    assert risk["limit"] == usage["limit_source"] == "max_memory_usage_gb" and risk["resource"] == "job memory"
    assert risk["current_usage"] == pytest.approx(100 * usage["memory_percent"], abs=2)
    assert risk["risk_level"] in ("high", "critical") and risk["predicted_oom_seconds"] < 600
    assert "oom_risk" in {alert["type"] for alert in report["alerts"]}


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


def test_garbage_is_collected_where_no_step_does(monkeypatch):
    config = MemoryOptimizationConfig(monitoring_interval=0.02, auto_gc_interval=0.02, enable_memory_profiling=False)
    with MemoryOptimizationSystem(config) as optimizer:
        wait_until(lambda: optimizer._housekeeping.collections > 1, "collections by the clock")
        assert optimizer.get_comprehensive_report()["gc"]["own"] > 1


def test_buffers_are_within_their_limit_and_logged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = nilometer.init(name="buffers")
    config = MemoryOptimizationConfig(buffer_size_limit_mb=1, monitoring_interval=0.02, enable_memory_profiling=False)
    with MemoryOptimizationSystem(config) as optimizer:
        assert optimizer.buffers.max_bytes == 1 << 20
        optimizer.buffers.put("zeros", numpy.zeros(50_000))
        assert optimizer.buffers.get("zeros") is not None and optimizer.buffers.get("none") is None
        buffer = nilometer.ReplayBuffer(100, ((4,), numpy.float32), ((1,), numpy.int64))
        for step in range(20):
            buffer.add(numpy.ones(4), numpy.ones(4), action=1, reward=0.0, done=False)
        optimizer.buffers.add_buffer("replay", buffer)
        report = optimizer.get_comprehensive_report()["buffers"]
    assert report["hit_rate"] == 0.5 and report["compression_ratio"] > 1
    assert report["replay_buffers"]["replay"]["transitions"] == 20
    path = run.path
    nilometer.finish()
    recorded = nilometer.read_run(path)
    assert recorded.series("buffer/cache/hit_rate").value[-1] == 0.5
    assert recorded.series("buffer/cache/compression_ratio").value[-1] > 100
    assert recorded.series("buffer/replay/memory_mb").value[-1] > 0


def test_nothing_is_recommended_where_nothing_is_wrong_and_reports_collect_nothing_for_the_program():
    with MemoryOptimizationSystem(MemoryOptimizationConfig(monitoring_interval=0.05)) as optimizer:
        for _ in range(3):
            optimizer.step(samples=4)
            report = optimizer.get_comprehensive_report()
        assert report["recommendations"] == optimizer.generate_optimization_recommendations() == []
        assert optimizer.facts()["gc"]["full_collections_asked"] == 0
    assert report["training"]["steps"] == 3 and report["training"]["samples_per_second"] > 0


def test_collections_that_the_program_asks_for_are_recommended_against():
    with MemoryOptimizationSystem(QUIET) as optimizer:
        for _ in range(30):
            gc.collect()
            optimizer.step()
        found = optimizer.generate_optimization_recommendations()
    assert any("collect" in one["rule"] for one in found), found
    assert set(found[0]) >= {"rule", "text", "change", "evidence", "confidence", "source"}


def test_pauses_within_steps_are_recommended_against_also_where_thresholds_are_the_default_ones():
    with MemoryOptimizationSystem(QUIET) as optimizer:
        for _ in range(20):
            optimizer.step()
        optimizer.collector._pauses.total_secs = optimizer.collector._pauses.longest_automatic_secs = 1000.0
        found = {one["rule"]: one["change"] for one in optimizer.generate_optimization_recommendations()}
    assert "memory_efficient_training() in place of MemoryOptimizationSystem" in found["schedule-collections"]


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

        wait_until(lambda: recommended() and optimizer.steps > 120, "a leak that goes on", 120)
        report = optimizer.get_comprehensive_report()
        [said] = recommended()
        optimizer.stop()
        # Nothing grows any more, and whoever goes on looking says so.
        wait_until(lambda: not still_watching.check()[0].is_leak, "the end of the leak", 120)
    assert report["memory_leaks"][0]["is_leak"] and report["memory_leaks"][0]["kind"] == "leak"
    [alert] = [one for one in report["alerts"] if one["type"] == "memory_leak"]
    assert alert["device"] == "host" and alert["mb_per_minute"] > 0
    assert said["confidence"] == "high" and not any("may be loading" in reason for reason in said["evidence"])
    assert optimizer.get_comprehensive_report()["memory_leaks"][0]["is_leak"], "after its end too"


def test_the_report_of_objects_has_the_same_keys_whatever_is_switched_off():
    def report(**switches):
        with MemoryOptimizationSystem(MemoryOptimizationConfig(monitoring_interval=0.05, **switches)) as optimizer:
            optimizer.step()
            return optimizer.get_comprehensive_report()["object_leaks"]

    traced, counted, off = report(), report(enable_memory_profiling=False), report(enable_object_counting=False)
    assert set(traced) == set(counted) == set(off)
    assert traced["counted"] == counted["counted"] is not None and counted["steps"] == 1
    assert off["counted"] is None and off["growing"] == [] and off["steps"] == 0 and off["text"] == "objects are not counted"
    assert set(traced) == set(MemoryOptimizationSystem(QUIET).get_comprehensive_report()["object_leaks"]), "before its start too"


def test_trends_are_named():
    with MemoryOptimizationSystem(QUIET) as optimizer:
        wait_until(lambda: optimizer.get_comprehensive_report()["memory_trend"], "a trend")
        assert optimizer.get_comprehensive_report()["memory_trend"] in ("increasing", "decreasing", "stable")


def test_throughput_is_that_of_the_steps_and_not_of_what_came_before(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(step_rate, "time", types.SimpleNamespace(perf_counter=lambda: clock[0]))
    with MemoryOptimizationSystem(QUIET) as optimizer:
        assert optimizer.get_comprehensive_report()["training"]["seconds_per_step"] is None
        for samples in (100, 8, 8, 8):
            optimizer.step(samples=samples)
            clock[0] += 0.5
        report = optimizer.get_comprehensive_report()
        # A recommendation rests on the same time.
        assert optimizer.facts()["gc"]["step_seconds"] == 0.5
        for wrong in (-1, 2.5, "8", True):
            with pytest.raises(ValueError, match="samples is .*; it must be a whole number, 0 or more"):
                optimizer.step(samples=wrong)
    figures = {name: report["training"][name] for name in ("steps", "steps_per_second", "seconds_per_step", "samples_per_second", "samples_per_step")}
    assert figures == {"steps": 4, "steps_per_second": 2.0, "seconds_per_step": 0.5, "samples_per_second": 16.0, "samples_per_step": 31.0}
    assert "## Training\n4 steps, 500.0 ms each, 31.0 samples each, 16.0 samples/s" in as_markdown(report)


def test_reports_are_files_by_their_name(tmp_path, monkeypatch):
    with MemoryOptimizationSystem(QUIET) as optimizer:
        optimizer.optimize_memory_usage()
        optimizer.export_optimization_report(tmp_path / "report.json")
        optimizer.export_optimization_report(str(tmp_path / "report.md"))
        with pytest.raises(ValueError, match=r"must end in \.json or \.md"):
            optimizer.export_optimization_report(tmp_path / "report.txt")
        with pytest.raises(FileNotFoundError, match=r"^cannot write the report .*/resluts/report\.json: the folder .*/resluts does not exist$"):
            optimizer.export_optimization_report(tmp_path / "resluts" / "report.json")
        (tmp_path / "folder.md").mkdir()
        with pytest.raises(IsADirectoryError, match=r"^cannot write the report .*/folder\.md: it is a folder$"):
            optimizer.export_optimization_report(tmp_path / "folder.md")
        (tmp_path / "folder.md").rmdir()
        monkeypatch.chdir(tmp_path)
        optimizer.export_optimization_report("here.json")
        (tmp_path / "here.json").unlink()
    report = json.loads((tmp_path / "report.json").read_text())
    expected = {"current_memory_usage", "memory_trend", "alerts", "buffers", "gc", "model", "recommendations", "optimizations", "config"}
    assert expected <= set(report)
    text = (tmp_path / "report.md").read_text()
    assert text.startswith("# Memory optimization report") and "| cleanup | yes |" in text and "Nothing to recommend" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "report.md"]


def test_code_with_backticks_is_quoted_as_the_command_quotes_it():
    one = {"text": "Stop *it*", "change": "`nilo leak` names it", "evidence": ["a_b grows"], "confidence": "high", "source": "ours"}
    assert bullet_points([one]) == [
        r"- **Stop \*it\*** (high confidence; ours)",
        "  - change: `` `nilo leak` names it ``",
        r"  - a\_b grows",
    ]


def test_a_collector_that_is_started_already_serves():
    with GarbageCollector() as collector, MemoryOptimizationSystem(QUIET) as optimizer:
        assert optimizer.collector is collector
        optimizer.step()
        assert collector.stats()["steps"] == 0, "whoever started it makes its steps"
    assert collector.stats()["steps"] == 0


def test_quick_optimization_measures(tmp_path):
    code = """
        import gc, nilometer
        gc.disable()
        class Node:
            pass
        node = Node()
        node.self, node.data = node, bytearray(100 << 20)
        del node
        result = nilometer.quick_memory_optimization()
        assert 95 < result["memory_saved_mb"] < 130 and result["objects_collected"] >= 2, result
        assert nilometer.quick_memory_optimization()["memory_saved_mb"] < 10
    """
    run_program(code, tmp_path)
    quick = quick_memory_optimization()
    assert set(quick) >= {"memory_saved_mb", "gpu_memory_saved_mb", "actions"}
    assert quick["optimizations_applied"] == [row["name"] for row in quick["actions"] if row["saved_mb"] > 0]


class Kept:
    """Garbage that only a collection frees."""

    alive = 0

    def __init__(self):
        self.self = self
        Kept.alive += 1

    def __del__(self):
        Kept.alive -= 1


@pytest.fixture
def no_gc():
    gc.collect()
    Kept.alive = 0
    gc.disable()
    yield
    gc.enable()


def test_contexts_and_functions_leave_no_garbage(no_gc):
    with memory_efficient_context() as figures:
        Kept()
    assert Kept.alive == 0 and figures["memory_saved_mb"] >= 0 and figures["objects_collected"] >= 1
    with pytest.raises(KeyError), memory_efficient_context():
        Kept()
        raise KeyError
    gc.collect()
    assert Kept.alive == 0

    @memory_efficient_decorator(threshold_mb=0)
    def work(a, *, b):
        """What it does."""
        Kept()
        return a + b

    assert work(1, b=2) == 3 and Kept.alive == 0
    assert work.__name__ == "work" and work.__doc__ == "What it does."

    @memory_efficient_decorator(threshold_mb=1e6)
    def small():
        Kept()

    small()
    assert Kept.alive == 1, "a call that grew by little is not worth a collection"


@pytest.mark.parametrize("wrong", [-1, float("nan"), "16", None, True])
def test_thresholds_that_are_no_size_are_refused_at_once(wrong):
    with pytest.raises((ValueError, TypeError), match="^threshold_mb must"):
        memory_efficient_decorator(threshold_mb=wrong)
    with pytest.raises((ValueError, TypeError), match="^threshold_mb must"), memory_efficient_context(threshold_mb=wrong):
        pass


def test_methods_of_a_class_are_decorated_on_either_side(no_gc):
    tidy = memory_efficient_decorator(threshold_mb=0)

    class Work:
        @tidy
        @staticmethod
        def above(value=1):
            """What it does."""
            Kept()
            return value

        @staticmethod
        @tidy
        def below(value=2):
            Kept()
            return value

        @memory_efficient_decorator
        @classmethod
        def of_class(cls):
            return cls

        @tidy
        def of_object(self):
            Kept()
            return self

    one = Work()
    assert (one.above(), Work.above(3), one.below(), Work.below(4)) == (1, 3, 2, 4) and Kept.alive == 0
    assert one.of_class() is Work.of_class() is Work and one.of_object() is one and Kept.alive == 0
    assert Work.above.__name__ == "above" and Work.above.__doc__ == "What it does."


def test_async_functions_and_generators(no_gc):
    tidy = memory_efficient_decorator(threshold_mb=0)

    @tidy
    async def later(value):
        Kept()
        await asyncio.sleep(0)
        return value

    @tidy
    async def numbers():
        Kept()
        yield 1
        yield 2

    @tidy
    def echo():
        Kept()
        got = yield 1
        return got

    async def main():
        assert await later(5) == 5 and Kept.alive == 0
        assert [number async for number in numbers()] == [1, 2] and Kept.alive == 0

    asyncio.run(main())
    generator = echo()
    assert next(generator) == 1 and Kept.alive == 1
    with pytest.raises(StopIteration) as end:
        generator.send("sent")
    assert end.value.value == "sent" and Kept.alive == 0
    with pytest.raises(TypeError, match="name its argument"):
        memory_efficient_decorator(64)


def test_training_of_ones_own_is_stepped_and_cleaned_up():
    before = gc.get_threshold()
    with memory_efficient_training(every_steps=2) as training:
        for _ in range(5):
            training.step(samples=3)
        assert training.collector.stats()["steps"] == 5 and training.collector.every_steps == 2
    assert gc.get_threshold() == before
    report = training.get_comprehensive_report()
    assert report["training"]["steps"] == 5 and report["optimizations"][0]["name"] == "cleanup"


def test_nothing_of_it_imports_torch(tmp_path):
    code = """
        import sys, nilometer, nilometer.optimize
        with nilometer.MemoryOptimizationSystem() as optimizer:
            optimizer.optimize_memory_usage()
            optimizer.get_comprehensive_report()
        nilometer.quick_memory_optimization()
        nilometer.create_memory_efficient_config()
        assert "torch" not in sys.modules
    """
    run_program(code, tmp_path)


OPTIMIZED = """
    import threading, nilometer
    from nilometer.optimize import GarbageCollector
    from nilometer.optimize.in_run import tell_optimization
    with GarbageCollector() as collector:
        thread = threading.Thread(target=collector.emergency)
        thread.start()
        thread.join()
        for _ in range(20):
            collector.step()
        collector.boundary()
        tell_optimization("made up", applied=True, before_bytes=2.0, after_bytes=1.0)
"""


def test_a_recorded_program_tells_its_job_without_init(nilo):
    done = nilo("run", "--name", "job", "--", sys.executable, "-c", textwrap.dedent(OPTIMIZED))
    assert done.returncode == 0, done.stderr
    folder = nilo.run_folder()
    read = nilometer.read_run(folder)
    assert not (folder / "runs").exists(), "the job itself is the run"
    assert [text for _, text in read.marks if text.startswith("emergency cleanup")]
    assert len(read.series("gc/collections").value) >= 1
    assert [one["name"] for one in read.summary()["optimizations"]] == ["made up"]
    told = json.loads(nilo("optimize", "job", "--format", "json").stdout)
    [missing] = [one["missing_facts"] for one in told["not_looked_at"] if one["subject"] == "garbage collection"]
    assert missing == ["host.leak_bytes_per_second"], "what the collector measured was told"


def test_what_comes_before_init_goes_to_the_job_and_what_comes_after_to_the_run(nilo):
    code = OPTIMIZED + """
    run = nilometer.init(name="inner")
    marked = threading.Thread(target=lambda: GarbageCollector().emergency())
    marked.start()
    marked.join()
    nilometer.finish()
    GarbageCollector().emergency()
    assert nilometer._open_runs.all_open() == []
    """
    done = nilo("run", "--name", "job", "--", sys.executable, "-c", textwrap.dedent(code))
    assert done.returncode == 0, done.stderr
    [inner] = [path.parent for path in nilo.run_folder().glob("runs/*/run.json")]
    assert len([text for _, text in nilometer.read_run(inner).marks if text.startswith("emergency")]) == 1


def test_a_program_that_nobody_records_makes_no_run(nilo):
    run_program(OPTIMIZED, nilo.folder)
    assert not (nilo.folder / ".nilo").exists()
