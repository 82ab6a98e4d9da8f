"""The memory optimization system without a model: it gives back what it took over, cleans up, logs buffers, and reports what was measured."""

import gc
import json
import os
import threading
import tracemalloc
import types

import numpy
import pytest
from conftest import wait_until
from package import run_program

import nilometer
from nilometer import MemoryOptimizationConfig, MemoryOptimizationSystem
from nilometer.optimize import GarbageCollector
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
    assert text.startswith("# Memory optimization report") and "| cleanup | yes |" in text and "No recommendations" in text
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


def test_all_names_can_be_imported_at_once_where_torch_is_not_installed(tmp_path):
    program = "import sys; sys.modules['torch'] = None\nfrom nilometer.optimize import *\nprint(SharedList.__name__, 'checkpoint_model' in globals())"
    assert run_program(program, tmp_path).stdout.split() == ["SharedList", "False"]
