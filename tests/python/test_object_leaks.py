"""ObjectLeaks: what goes on growing is found with its holder, what fills and stops is not, and the program is left as it was."""

import collections
import gc
import json
import math
import re
import sys
import tracemalloc
import weakref

import pytest
from conftest import ROOT

import nilometer
from nilometer.optimize import GarbageCollector, ObjectLeaks

KEPT_BY_MODULE = []


class Record:
    def __init__(self, size=0):
        self.payload = bytes(size)


class Trainer:
    def __init__(self):
        self.history = []


@pytest.fixture
def leaks():
    made = ObjectLeaks(every_steps=10)
    made.time_share = float("inf")  # every sample that is due is taken
    yield made
    made.stop()
    KEPT_BY_MODULE.clear()


def train(leaks, work, steps=120):
    for step in range(steps):
        work(step)
        leaks.step()
    return leaks.report()


def named(report, name):
    return [one for one in report.growing if one.name.split(".")[-1] == name]


def test_objects_that_accumulate_are_found_with_their_holder_and_rate(leaks):
    report = train(leaks, lambda step: KEPT_BY_MODULE.append(Record(1000)))
    found = named(report, "Record")[0]
    assert found.count_per_step == pytest.approx(1.0)
    assert found.bytes_per_step == pytest.approx(1080, rel=0.15)
    assert found.holder == "test_object_leaks.py: KEPT_BY_MODULE (list)"
    assert report.is_established and report.samples == 12 and report.steps == 120
    assert "Record: +1 a step" in str(report)


def test_a_variable_of_a_running_function_is_a_holder(leaks):
    kept = {}
    report = train(leaks, lambda step: kept.__setitem__(step, Record()))
    assert named(report, "Record")[0].holder in (
        "test_object_leaks.py test_a_variable_of_a_running_function_is_a_holder(): kept (dict)",
        # The closure of the function that keeps them is as near.
        "test_object_leaks.py <lambda>(): kept (dict)",
    )


def test_an_attribute_is_a_holder(leaks):
    trainer = Trainer()
    report = train(leaks, lambda step: trainer.history.append(Record()))
    assert named(report, "Record")[0].holder.endswith("trainer.history (list)")


def test_entries_that_the_collector_does_not_track_are_found_by_their_container(leaks):
    report = train(leaks, lambda step: KEPT_BY_MODULE.append("x" * 10_000 + str(step)), steps=300)
    found = named(report, "list entries")[0]
    assert found.entry_type == "str" and found.holder == "test_object_leaks.py: KEPT_BY_MODULE (list)"
    assert found.count_per_step == pytest.approx(1.0) and found.bytes_per_step == pytest.approx(10_050, rel=0.01)


def test_a_cache_that_fills_and_stops_is_not_reported(leaks):
    cache = {}
    report = train(leaks, lambda step: cache.setdefault(min(step, 60), Record()), steps=200)
    assert report.is_established and not named(report, "Record")


def test_a_cache_that_fills_ever_more_slowly_is_not_reported(leaks):
    cache = {}
    report = train(leaks, lambda step: cache.setdefault(int(12 * math.log(step + 1)), Record()), steps=120)
    assert len(cache) > 30 and not named(report, "Record")


def test_objects_that_come_and_go_are_not_reported(leaks):
    ring = collections.deque(maxlen=50)
    report = train(leaks, lambda step: ring.append([Record() for _ in range(1 + step % 7)]), steps=300)
    assert not named(report, "Record")


def test_what_we_keep_is_not_growth(leaks):
    report = train(leaks, lambda step: None, steps=300)
    assert report.growing == [] and str(report) == "nothing accumulates in 300 steps"


def test_what_we_keep_of_many_long_lists_is_not_growth(leaks):
    # Each is long, and none grows.
    report = train(leaks, lambda step: KEPT_BY_MODULE.append(list(range(100))), steps=200)
    assert {one.name for one in report.growing} == {"list", "list entries"}


def test_a_few_samples_establish_nothing(leaks):
    report = train(leaks, lambda step: KEPT_BY_MODULE.append(Record()), steps=40)
    assert not report.is_established and report.growing == []
    assert str(report) == "4 samples in 40 steps are too few to tell growth"


def test_growth_is_found_beside_a_collector_that_freezes(leaks):
    with GarbageCollector() as collector:

        def work(step):
            KEPT_BY_MODULE.append(Record())
            collector.step()
            if step % 100 == 99:
                collector._full_ration.reset()
                collector.boundary()

        report = train(leaks, work, steps=350)
    found = named(report, "Record")[0]
    assert found.count_per_step == pytest.approx(1.0, abs=0.05) and found.holder == "test_object_leaks.py: KEPT_BY_MODULE (list)"


def test_allocation_lines_are_traced_when_asked_for():
    assert not tracemalloc.is_tracing()
    with ObjectLeaks(every_steps=10, trace_lines=True) as leaks:
        leaks.time_share = float("inf")
        report = train(leaks, lambda step: KEPT_BY_MODULE.append(Record(5000)))
        assert tracemalloc.is_tracing()
    KEPT_BY_MODULE.clear()
    assert not tracemalloc.is_tracing()
    line = Record.__init__.__code__.co_firstlineno + 1
    assert report.lines[0].place.endswith(f"test_object_leaks.py:{line}")
    assert report.lines[0].bytes_per_step == pytest.approx(5033, rel=0.05)
    assert named(report, "Record")[0].line is not None


def test_tracing_that_the_program_began_goes_on():
    tracemalloc.start()
    try:
        with ObjectLeaks(trace_lines=True) as leaks:
            leaks.step()
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()


def test_a_report_keeps_nothing_alive(leaks):
    def one_training():
        record = Record()
        train(leaks, lambda step: KEPT_BY_MODULE.append(Record()))
        watched = weakref.ref(record)
        del record
        # The variables of this function were looked at; no copy of them remains.
        return watched() is None

    assert one_training()
    newest = weakref.ref(KEPT_BY_MODULE[-1])
    KEPT_BY_MODULE.clear()
    assert newest() is None


def test_the_program_is_looked_at_and_not_changed(leaks):
    class Touchy:
        """Whoever asks it anything breaks."""

        def __getattribute__(self, name):
            raise RuntimeError("asked for " + name)

        def __len__(self):
            raise RuntimeError("asked for its length")

        def __eq__(self, other):
            raise RuntimeError("compared")

        __hash__ = None

    broken = weakref.proxy(Record())
    variables = dict(locals())
    report = train(leaks, lambda step: KEPT_BY_MODULE.append([Touchy(), broken]))
    assert named(report, "list")
    assert set(variables) <= set(locals())


def test_watched_objects_are_not_kept_alive(leaks):
    first, second = Record(), Record()
    leaks.watch(first, "model")
    leaks.watch(second, "model")
    assert leaks.alive() == {"model": 2}
    del first
    assert leaks.alive() == {"model": 1}
    del second
    assert leaks.alive() == {}
    with pytest.raises(TypeError, match="'settings' cannot be watched: objects of type dict have no weak references"):
        leaks.watch({}, "settings")


def test_cleanup_calls_what_was_registered_and_nothing_else(leaks, monkeypatch):
    cache = [Record(1 << 20)]
    others = [Record()]
    leaks.on_cleanup(cache.clear)
    leaks.on_cleanup(lambda: 1 / 0)
    monkeypatch.delenv("NILO_STRICT", raising=False)
    with pytest.warns(nilometer.NilometerWarning, match="cleanup: .* failed: ZeroDivisionError"):
        done = leaks.cleanup()
    assert done["called"] == 1 and cache == [] and len(others) == 1
    with pytest.raises(ValueError, match="on_cleanup takes a function, not int"):
        leaks.on_cleanup(3)


def test_samples_are_further_apart_where_they_take_long():
    leaks = ObjectLeaks(every_steps=1)
    for _ in range(200):
        leaks.step()
    report = leaks.report()
    # Each takes milliseconds, and the next waits a hundred times as long; these steps take nothing.
    assert 1 <= report.samples < 50 and report.seconds > 0


def test_facts_are_those_that_the_rules_know(leaks):
    known = set(re.findall(r"pub (\w+): ", (ROOT / "crates/nilo-advice/src/facts/torch.rs").read_text()))
    train(leaks, lambda step: None)
    facts = leaks.facts()
    assert set(facts["torch"]) <= known
    assert "torch" in sys.modules or set(facts["torch"].values()) == {None}
    json.dumps(facts)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"top_n": 0}, "top_n must be at least 1, not 0"),
        ({"every_steps": -5}, "every_steps must be at least 1, not -5"),
        ({"every_steps": "often"}, "every_steps must be int, not str"),
        ({"trace_lines": 1}, "trace_lines must be bool, not int"),
    ],
)
def test_wrong_arguments_raise_at_once(arguments, said):
    with pytest.raises((TypeError, ValueError), match=said):
        ObjectLeaks(**arguments)


def test_uncollected_garbage_is_named_by_its_type_alone(leaks):
    """Cycles that only the collector frees accumulate too, and nobody holds them."""

    def leave_cycle(step):
        one = Record()
        one.me = one

    gc.collect()
    gc.disable()
    try:
        report = train(leaks, leave_cycle)
    finally:
        gc.enable()
        gc.collect()
    assert named(report, "Record")[0].holder is None


def test_the_share_of_time_is_a_share_whoever_looks_and_when():
    leaks = ObjectLeaks(every_steps=1)
    leaks.time_share = float("inf")
    assert 0 <= leaks.report().time_share <= 1, "before the first step"
    for _ in range(3):
        leaks.step()
        assert 0 < leaks.report().time_share <= 1
    # As if several threads had looked for longer than there was time.
    leaks._sampling_secs = 1e6
    assert leaks.report().time_share == 1
