"""GarbageCollector: what it changes and gives back, when it collects, and that nothing grows without bound where nobody calls it."""

import gc
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import pytest
from collector_settings import settings_as_before  # noqa: F401
from conftest import unavailable, wait_until

import nilometer
from nilometer import NilometerError
from nilometer.optimize import GarbageCollector
from nilometer.optimize.host import collector_pauses, garbage, memory_pressure, process_heap

MIB = 1 << 20


class Cycle:
    """Two of these hold each other; the class counts those that live."""

    alive = 0

    def __init__(self, size=0):
        self.other = None
        self.payload = bytearray(b"x") * size
        Cycle.alive += 1

    def __del__(self):
        Cycle.alive -= 1

    @staticmethod
    def leave(number=1, size=0):
        for _ in range(number):
            one, other = Cycle(size), Cycle(size)
            one.other, other.other = other, one


@pytest.fixture(autouse=True)
def nothing_alive(settings_as_before):  # noqa: F811
    Cycle.alive = 0


def state():
    return gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), len(gc.callbacks), threading.active_count()


def test_stop_gives_everything_back():
    gc.unfreeze()
    gc.set_threshold(701, 11, 12)
    gc.disable()
    before = state()
    with GarbageCollector() as collector:
        for _ in range(200):
            Cycle.leave()
            collector.step()
        collector.boundary()
        assert state() != before
        assert gc.get_freeze_count() > 1000
    assert state() == before
    collector.step()
    collector.boundary()
    assert state() == before


def test_what_the_program_froze_stays_frozen_and_nothing_is_added():
    gc.collect()
    gc.freeze()
    frozen = gc.get_freeze_count()
    with GarbageCollector() as collector:
        later = [Cycle() for _ in range(100)]
        for _ in range(20):
            collector.step()
        collector.boundary()
        # Frozen objects may be freed; none is added.
        assert 0 < gc.get_freeze_count() <= frozen
    assert 0 < gc.get_freeze_count() <= frozen
    del later


@pytest.mark.parametrize("when", [3, 15])
def test_what_the_program_freezes_later_stays_frozen_too(when):
    gc.unfreeze()
    with GarbageCollector() as collector:
        for step in range(20):
            if step == when:
                later = [[number] for number in range(5000)]
                gc.freeze()
            collector.step()
        collector.boundary()
        collector.emergency()
        assert gc.get_freeze_count() >= 5000
    assert gc.get_freeze_count() >= 5000
    assert collector.stats()["frozen_objects"] == 0, "it counts its own"
    del later


def test_no_collection_falls_into_a_step():
    with GarbageCollector(every_steps=50) as collector:
        for _ in range(500):
            Cycle.leave(20)
            collector.step()
    stats = collector.stats()
    # Python itself would have collected every 700 objects.
    assert stats["automatic"] == 0 and stats["own"] >= 1
    assert stats["collections"][0] == 0 and stats["collections"][1] >= 1
    assert stats["steps"] == 500
    assert stats["collected"] > 0 and Cycle.alive < 2 * 20 * 500


def test_cycles_are_collected_every_so_many_steps():
    # One collection may take all of the time: the schedule alone counts.
    with GarbageCollector(every_steps=7, max_time_share=1.0) as collector:
        for _ in range(10):
            collector.step()
        Cycle.leave()
        before = collector.stats()["own"]

        def is_collected():
            collector.step()
            return Cycle.alive == 0

        wait_until(is_collected, "a collection by schedule")
        assert collector.stats()["own"] > before


def test_where_nothing_is_left_behind_collections_become_rare():
    with GarbageCollector(every_steps=1, max_time_share=1.0) as collector:
        collector._young_throttle = AlwaysAllows()
        for _ in range(10 + 64):
            collector.step()
        quiet = collector.stats()["own"]
        for _ in range(64):
            Cycle.leave()
            collector.step()
        busy = collector.stats()["own"] - quiet
    assert 4 <= quiet <= 16 and busy >= 40


class AlwaysAllows:
    def allows(self, now):
        return True

    def spend(self, begun, ended):
        pass


def test_many_young_objects_are_collected_at_the_next_step():
    with GarbageCollector(every_steps=1_000_000) as collector:
        Cycle.leave(8_000)
        assert Cycle.alive == 16_000
        collector.step()
        assert Cycle.alive == 0


def test_a_program_that_makes_no_steps_does_not_grow_without_bound():
    most = 0
    with GarbageCollector() as collector:
        for _ in range(2_000):
            Cycle.leave(200)
            most = max(most, Cycle.alive)
        assert collector.stats()["automatic"] >= 1
    # 800,000 were made.
    assert most < 120_000


def test_python_collects_by_itself_while_no_steps_come_and_not_after():
    before = gc.get_threshold()
    with GarbageCollector(interval=0.01) as collector:
        collector.step()
        assert not collector.is_automatic and gc.get_threshold()[0] > before[0]
        wait_until(lambda: collector.is_automatic, "automatic collection")
        assert gc.get_threshold() == before and gc.isenabled()
        collector.step()
        assert not collector.is_automatic and gc.get_threshold()[0] > before[0]


def test_large_garbage_is_collected_under_pressure_without_steps(monkeypatch):
    monkeypatch.setattr(memory_pressure, "_LEAST_GROWTH", 64 * MIB)
    monkeypatch.setattr(memory_pressure, "_GROWTH", 0.0)
    with GarbageCollector():
        made = []

        def is_collected():
            Cycle.leave(1, 10 * MIB)
            made.append(2)
            return Cycle.alive < sum(made)

        wait_until(is_collected, "a collection by the watching thread")


def test_a_limit_that_is_near_brings_a_full_collection():
    kept = Cycle(0)
    with GarbageCollector(limit_bytes=process_heap.rss_bytes()) as collector:
        before = collector.stats()["collections"][2]
        collector._gauge._not_below = 0

        def happened():
            collector.step()
            return collector.stats()["collections"][2] > before

        wait_until(happened, "a full collection under pressure")
        full = collector.stats()["collections"][2]
        # It freed nothing: repeating it before memory grows would be worse than doing nothing.
        collector._full_throttle.reset()
        for _ in range(3):
            collector._look_at_memory(1e9)
        assert collector.stats()["collections"][2] == full
    del kept


def test_full_collections_are_rationed():
    with GarbageCollector(max_time_share=0.0001) as collector:
        for _ in range(50):
            collector.boundary()
    # The one at the start took some of the time; at a ten-thousandth there is none for fifty more.
    assert collector.stats()["collections"][2] <= 2


def test_a_boundary_frees_what_was_frozen():
    holder = [Cycle()]
    holder[0].other = holder[0]
    with GarbageCollector(max_time_share=1.0) as collector:
        holder.clear()
        collector.collect(2)
        assert Cycle.alive == 1  # frozen at the start

        def is_freed():
            collector.boundary()
            return Cycle.alive == 0

        wait_until(is_freed, "a full collection at a boundary")


def test_own_automatic_and_asked_collections_are_told_apart():
    with GarbageCollector(thresholds=(700, 10, 10), freeze=False) as collector:
        assert gc.get_threshold() == (700, 10, 10) and collector.is_automatic
        start = collector.stats()
        gc.collect()
        gc.collect(0)
        assert collector.collect(2) >= 0
        stats = collector.stats()
        assert stats["full_asked"] - start["full_asked"] == 1
        assert stats["asked"] - start["asked"] == 2
        assert stats["own"] - start["own"] == 1
        kept = [[] for _ in range(5_000)]
        assert collector.stats()["automatic"] > start["automatic"]
        assert collector.stats()["full_asked"] - start["full_asked"] == 1
        del kept


def test_collections_of_a_program_that_disabled_the_collector_count_as_asked():
    with GarbageCollector(thresholds=(700, 10, 10)) as collector:
        gc.disable()
        kept = [[] for _ in range(5_000)]
        asked = collector.stats()["full_asked"]
        gc.collect()
        assert collector.stats()["full_asked"] == asked + 1
        del kept


def test_pauses_are_those_of_the_collections():
    with GarbageCollector() as collector:
        for _ in range(10):
            Cycle.leave(100)
            gc.collect()
    stats = collector.stats()
    assert stats["pause_count"] == sum(stats["collections"].values()) >= 10
    assert 0 < stats["pause_p50_seconds"] <= stats["pause_p99_seconds"] <= stats["pause_max_seconds"] <= stats["pause_total_seconds"]
    assert 0 < stats["time_share"] <= 1
    assert stats["collected"] >= 2000 and stats["uncollectable"] == 0
    # After its end it counts no more.
    gc.collect()
    assert collector.stats() == stats | {"time_share": stats["time_share"]}


def test_what_is_collected_to_begin_with_is_no_pause_of_the_loop():
    with GarbageCollector(every_steps=1_000_000, max_time_share=0.0001) as collector:
        at_the_start = collector.stats()["startup_seconds"]
        for _ in range(9):
            collector.step()
        frozen = gc.get_freeze_count()
        made = [[] for _ in range(1000)]
        collector.step()
        assert gc.get_freeze_count() >= frozen + len(made)  # the warm-up's collection took place
        stats, facts = collector.stats(), collector.facts()["gc"]
        # A first epoch that ends here has nothing new to look at.
        collector.boundary()
        assert collector.stats()["collections"][2] == 0
    assert stats["startup_seconds"] > at_the_start > 0
    assert (stats["pause_count"], stats["own"], stats["time_share"], stats["pause_max_seconds"]) == (0, 0, 0.0, 0.0)
    assert facts["total_seconds"] == facts["longest_pause_seconds"] == 0.0
    assert collector.stats()["own"] == 0


def test_the_time_of_collections_that_were_asked_for_is_known(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(collector_pauses, "perf_counter", lambda: clock[0])

    def pass_time(phase, _):
        clock[0] += phase == "start"

    with GarbageCollector(thresholds=(700, 10, 10), freeze=False) as collector:
        # After the recorder's own: a second goes by within each collection.
        gc.callbacks.append(pass_time)
        try:
            gc.collect()
            collector.collect(2)
            kept = [[] for _ in range(5_000)]
            stats = collector.stats()
        finally:
            gc.callbacks.remove(pass_time)
        assert stats["automatic"] >= 1 and len(kept) == 5_000
        assert stats["asked_seconds"] == stats["asked"] == 1
        assert stats["pause_total_seconds"] == stats["automatic"] + stats["own"] + stats["asked"]
        assert collector.facts()["gc"]["asked_seconds"] == 1


def test_who_collects_is_in_the_run_before_the_end(run, monkeypatch):
    monkeypatch.setattr(garbage, "_TELL_SECS", 0.0)
    with GarbageCollector() as collector:
        for _ in range(3):
            collector.step()
        told = [file for file in run.path.iterdir() if file.is_file() and b"sets_thresholds" in file.read_bytes()]
        assert len(told) == 1 and told[0].read_bytes().count(b"sets_thresholds") == 1


def test_only_one_collector_at_a_time():
    with GarbageCollector() as first:
        first.start()
        with pytest.raises(NilometerError, match="already managed by another GarbageCollector; stop that one first"):
            GarbageCollector().start()
    with GarbageCollector():
        pass


def test_builds_without_generations_are_left_to_themselves(monkeypatch):
    monkeypatch.setattr(garbage, "_HAS_GENERATIONS", False)
    thresholds = gc.get_threshold()
    with GarbageCollector(every_steps=1) as collector:
        for _ in range(20):
            collector.step()
        assert gc.get_threshold() == thresholds and collector.is_automatic
        assert collector.stats()["collections"][1] == 0


def test_a_forked_child_collects_by_itself_until_it_makes_steps():
    before = gc.get_threshold()
    with GarbageCollector() as collector:
        gc.collect()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = {"thresholds": gc.get_threshold(), "fresh": collector.stats()["full_asked"] == 0, "frozen": gc.get_freeze_count() > 0}
            collector.step()
            said["taken_over"] = not collector.is_automatic
            said["every_steps"] = collector.every_steps
            os.write(write, json.dumps(said).encode())
            os._exit(0)
        os.close(write)
        with open(read) as pipe:
            said = json.load(pipe)
        assert os.waitpid(pid, 0)[1] == 0
        assert said == {"thresholds": list(before), "fresh": True, "frozen": True, "taken_over": True, "every_steps": 50}
        assert collector.stats()["full_asked"] == 1


def test_facts_go_into_the_run_when_it_stops_and_not_from_idle_children(run):
    def stored():
        return [file.name for file in run.path.iterdir() if file.is_file() and b"full_collections_asked" in file.read_bytes()]

    with GarbageCollector() as collector:
        collector.step()
        pid = os.fork()
        if pid == 0:
            collector.stop()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert stored() == []
    assert len(stored()) == 1


def test_threads_that_collect_and_step_at_the_same_time():
    over = threading.Event()

    def collect():
        while not over.is_set():
            gc.collect(0)
            Cycle.leave(5)

    threads = [threading.Thread(target=collect) for _ in range(3)]
    with GarbageCollector(every_steps=3) as collector:
        for thread in threads:
            thread.start()
        for _ in range(2_000):
            Cycle.leave()
            collector.step()
        over.set()
        for thread in threads:
            thread.join()
    stats = collector.stats()
    assert stats["pause_count"] == stats["own"] + stats["asked"] + stats["automatic"]


def test_a_finalizer_may_wait_for_a_thread_that_makes_a_step():
    class Waits:
        def __init__(self, collector):
            self.me, self.collector = self, collector

        def __del__(self):
            thread = threading.Thread(target=self.collector.collect)
            thread.start()
            thread.join(30)
            waited.append(thread.is_alive())

    waited = []
    with GarbageCollector() as collector:
        Waits(collector)
        collector.collect()
    assert waited == [False]


@pytest.mark.parametrize("at_the_end", ["", "raise SystemExit(0)", "import threading; threading.Thread(target=gc.collect).start()"])
def test_a_program_may_end_without_stop(at_the_end):
    code = f"""
import gc
from nilometer.optimize import GarbageCollector
collector = GarbageCollector()
collector.start()
class Node: pass
for _ in range(100):
    node = Node(); node.me = node
    collector.step()
{at_the_end}
"""
    package = str(pathlib.Path(nilometer.__file__).resolve().parents[1])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=os.environ | {"PYTHONPATH": package})
    assert (done.returncode, done.stderr) == (0, "")


def test_trim_gives_back_what_the_kernel_sees():
    if process_heap.heap() is None:
        unavailable("this C library does not tell of its heap")
    blocks = [bytes(2_000) for _ in range(50_000)]
    kept = blocks[::500]
    del blocks
    unused = process_heap.unused_bytes()
    collector = GarbageCollector()
    before = process_heap.rss_bytes()
    given_back = collector.trim()
    assert given_back == pytest.approx(before - process_heap.rss_bytes(), abs=MIB)
    assert given_back > 50 * MIB and unused > given_back / 2
    assert collector.stats()["trims"] == 1 and collector.stats()["trimmed_bytes"] == given_back
    host = collector.facts()["host"]
    assert host["trimmed_bytes"] == given_back and host["regrown_ratio"] < 0.1
    again = [bytearray(b"x" * 10_000) for _ in range(given_back // 10_000)]
    assert collector.facts()["host"]["regrown_ratio"] > 0.8
    del kept, again


def test_trim_is_nothing_where_the_c_library_has_none(monkeypatch):
    monkeypatch.setattr(process_heap, "_libc", lambda: None)
    assert process_heap.trim() == 0 and process_heap.heap() is None
    assert GarbageCollector().facts()["host"]["heap_live_bytes"] is None


def test_an_emergency_frees_and_is_marked_in_the_run(run):
    collector = GarbageCollector()
    Cycle.leave(20, 2 * MIB)
    freed = collector.emergency()
    assert Cycle.alive == 0
    assert freed["freed_bytes"] > 60 * MIB and freed["collected"] >= 40 and freed["cuda_bytes"] == 0
    path = run.path
    run.finish(0)
    marks = [text for _, text in nilometer.read_run(path).marks]
    assert len(marks) == 1 and re.fullmatch(r"emergency cleanup: \d+ objects collected, \d+ MiB of host memory .*", marks[0])


def test_figures_are_in_the_run_and_do_not_move_its_steps(run, monkeypatch):
    monkeypatch.setattr(garbage, "_TELL_SECS", 0.0)
    with GarbageCollector(every_steps=1) as collector:
        for _ in range(5):
            nilometer.log({"loss": 1.0})
            collector.step()
        gc.collect()
        collector.boundary()
    path = run.path
    run.finish(0)
    read = nilometer.read_run(path)
    assert read.series("loss").step.tolist() == read.series("gc/total_ms").step.tolist()[:5]
    assert len(set(read.series("loss").step.tolist())) == 5
    assert read.series("gc/collections").value.tolist()[-1] == collector.stats()["pause_count"]
    assert max(read.series("gc/pause_max_ms").value.tolist()) == pytest.approx(1000 * collector.stats()["pause_max_seconds"])
    assert read.series("gc/trimmed_mb").value.tolist()[-1] == collector.stats()["trimmed_bytes"] / MIB


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"thresholds": (700, 10)}, "thresholds must be three whole numbers"),
        ({"thresholds": (0, 10, 10)}, "thresholds must be three whole numbers"),
        ({"thresholds": (700, -1, 10)}, "thresholds must be three whole numbers"),
        ({"thresholds": (700, 1.5, 10)}, "thresholds must be three whole numbers"),
        ({"thresholds": 700}, "thresholds must be tuple or list, not int"),
        ({"every_steps": 0}, "every_steps must be at least 1, not 0"),
        ({"every_steps": 1.5}, "every_steps must be int, not float"),
        ({"interval": -1}, "interval must be above 0 seconds, not -1"),
        ({"pressure": 1.5}, "pressure must be a share above 0 and at most 1, not 1.5"),
        ({"limit_bytes": 0}, "limit_bytes must be above 0, not 0"),
        ({"max_time_share": 0}, "max_time_share must be above 0 and at most 1, not 0"),
        ({"freeze": 1}, "freeze must be bool, not int"),
    ],
)
def test_wrong_arguments_raise_at_once(arguments, said):
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        GarbageCollector(**arguments)


def test_a_wrong_generation_is_refused():
    with pytest.raises(ValueError, match="generation must be 0, 1 or 2, not 3"):
        GarbageCollector().collect(3)
