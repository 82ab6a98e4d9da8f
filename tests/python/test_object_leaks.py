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
from nilometer.optimize.objects import object_leaks

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
    assert str(report) == "4 samples in 40 steps: too few to tell growth"


def test_growth_is_found_beside_a_collector_that_freezes(leaks):
    with GarbageCollector() as collector:

        def work(step):
            KEPT_BY_MODULE.append(Record())
            collector.step()
            if step % 100 == 99:
                collector._full_throttle.reset()
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


class Clock:
    """Time that passes only where it is said to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def taking(self, function, seconds):
        def timed(*arguments):
            self.now += seconds
            return function(*arguments)

        return timed


@pytest.fixture
def clock(monkeypatch):
    """Looks at the program take 2 ms, counts of all objects 250 ms, as beside torch and transformers."""
    made = Clock()
    monkeypatch.setattr(object_leaks, "perf_counter", made)
    # Before the first count, by the blocks that Python has allocated.
    monkeypatch.setattr(object_leaks, "_COUNT_SECS_PER_BLOCK", 0.3 / sys.getallocatedblocks())
    monkeypatch.setattr(object_leaks, "look_at_program", made.taking(object_leaks.look_at_program, 0.002))
    monkeypatch.setattr(object_leaks, "take_sample", made.taking(object_leaks.take_sample, 0.25))
    return made


@pytest.mark.parametrize("make", [bytearray, bytes, dict, Record], ids=lambda make: make.__name__)
def test_a_list_that_grows_at_every_step_is_found_within_a_hundred_steps(clock, make):
    leaks, kept = ObjectLeaks(), []
    for _ in range(100):
        kept.append(make())
        clock.now += 0.01
        leaks.step()
    report = leaks.report()
    [found] = named(report, "list entries")
    assert found.holder.endswith("within_a_hundred_steps(): kept (list)") and found.entry_type == make.__name__
    assert found.count_per_step == pytest.approx(1.0)
    assert report.counts == 0 and not report.is_counted, "all objects were not counted in that time"


def test_containers_that_the_collector_does_not_list_are_found(leaks):
    frozen, numbers = [], {}
    gc.collect()
    gc.freeze()
    try:

        def work(step):
            frozen.append(bytes(100))
            numbers[step] = 0.5

        report = train(leaks, work)
    finally:
        gc.unfreeze()
    assert not gc.is_tracked(numbers)
    assert any(one.holder.endswith("frozen (list)") for one in named(report, "list entries"))
    assert any(one.holder.endswith("numbers (dict)") for one in named(report, "dict entries"))


def test_looking_keeps_to_its_share_of_the_loop_at_every_moment(clock):
    leaks, begun = ObjectLeaks(), clock.now
    while clock.now < begun + 300:
        clock.now += 0.01
        leaks.step()
        seconds = clock.now - begun
        spent = 0.002 * leaks._samples + 0.25 * leaks._counts
        assert spent <= 0.05 * min(seconds, 20) + 0.01 * max(seconds - 20, 0)
    assert leaks._samples >= 20 and leaks._counts >= 5, "and uses it"
    clock.now += 50
    before = leaks.report()
    assert before.seconds == pytest.approx(0.002 * leaks._samples + 0.25 * leaks._counts)
    assert before.time_share == pytest.approx(before.seconds / (clock.now - begun), rel=0.01)


def test_a_report_takes_no_time_of_the_loop(clock, monkeypatch):
    leaks, begun = ObjectLeaks(), clock.now
    monkeypatch.setattr(object_leaks, "find_holders", clock.taking(object_leaks.find_holders, 7.0))
    for _ in range(2000):
        clock.now += 0.01
        leaks.step()
    loop = clock.now - begun
    reports = [leaks.report() for _ in range(3)]
    assert reports[0] == reports[2] and reports[0].seconds == reports[2].seconds
    assert reports[2].time_share == pytest.approx(reports[2].seconds / loop, rel=1e-3)


def test_too_few_samples_are_never_called_nothing(clock):
    leaks = ObjectLeaks()
    said = set()
    for step in range(3000):
        clock.now += 0.01
        leaks.step()
        if step % 50 == 0:
            report = leaks.report()
            said.add(re.sub(r"\d+", "N", str(report)))
            assert ("nothing accumulates" in str(report)) == (report.samples > 4 and report.counts > 4)
    assert said == {
        "N samples in N steps: too few to tell growth",
        "no container of the program grows in N steps; N counts of all objects are too few to tell more",
    }


def test_growth_that_was_seen_is_not_forgotten_by_a_cleanup(leaks):
    train(leaks, lambda step: KEPT_BY_MODULE.append(bytes(100)))
    leaks.cleanup()
    assert named(leaks.report(), "list entries")


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="locals() is a copy of its own from Python 3.13 on")
def test_variables_that_the_program_took_by_locals_stay(leaks):
    mine = locals()
    train(leaks, lambda step: None)
    assert mine["leaks"] is leaks


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
    leaks._looking.spend(1e6)
    assert leaks.report().time_share == 1
