"""How ObjectLeaks looks: cheaply, first, never more than its share of the time, and without setting off the garbage collector."""

import gc
import itertools
import sys
import types

import pytest
from nilometer.optimize import ObjectLeaks
from nilometer.optimize.objects import object_leaks
from nilometer.optimize.objects.object_samples import take_sample
from nilometer.optimize.objects.program_variables import is_of_program


class Clock:
    """Time that passes only where it is said to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(object_leaks, "perf_counter", made)
    return made


def looks_taking(monkeypatch, clock, seconds_of):
    look, numbers = object_leaks.look_at_program, itertools.count(1)

    def timed(step):
        clock.now += seconds_of(next(numbers))
        return look(step)

    monkeypatch.setattr(object_leaks, "look_at_program", timed)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_neither_a_look_nor_a_count_sets_off_a_collection(monkeypatch, is_enabled):
    within, begun = [], []
    for name in ("look_at_program", "take_sample"):

        def noted(*arguments, function=getattr(object_leaks, name)):
            within.append(name)
            some = [[] for _ in range(5_000)]
            try:
                return function(*arguments)
            finally:
                del some
                within.pop()

        monkeypatch.setattr(object_leaks, name, noted)

    def on_collection(phase, info):
        if phase == "start" and within:
            begun.append(within[-1])

    leaks = ObjectLeaks(every_steps=1)
    leaks.time_share = float("inf")
    (gc.enable if is_enabled else gc.disable)()
    gc.callbacks.append(on_collection)
    try:
        for _ in range(3):
            leaks.step()
        assert gc.isenabled() == is_enabled, "as the program had it"
    finally:
        gc.callbacks.remove(on_collection)
        gc.enable()
    assert leaks.report().counts == 3 and begun == []


@pytest.mark.parametrize("slow", [1, 2, 4])
def test_one_look_that_took_long_does_not_end_looking(monkeypatch, clock, slow):
    looks_taking(monkeypatch, clock, lambda number: 0.22 if number == slow else 0.002)
    # As beside torch: counts are long.
    monkeypatch.setattr(object_leaks, "_COUNT_SECS_PER_BLOCK", 0.25 / sys.getallocatedblocks())
    leaks, kept, begun = ObjectLeaks(), [], clock.now
    while clock.now < begun + 5:
        kept.append(bytes(10))
        clock.now += 0.01
        leaks.step()
    report = leaks.report()
    assert [one.name for one in report.growing] == ["list entries"], str(report)
    assert report.seconds <= 0.05 * (clock.now - begun)


def test_looks_go_on_beside_counts_that_take_all_their_time(monkeypatch, clock):
    looks_taking(monkeypatch, clock, lambda number: 0.01)
    # Whatever else is in this process.
    monkeypatch.setattr(object_leaks, "_COUNT_SECS_PER_BLOCK", 0.25 / sys.getallocatedblocks())
    count = object_leaks.take_sample

    def counting(*arguments):
        clock.now += 0.25
        return count(*arguments)

    monkeypatch.setattr(object_leaks, "take_sample", counting)
    leaks, begun, looked, longest = ObjectLeaks(), clock.now, 0, 0.0
    last = begun
    while clock.now < begun + 120:
        clock.now += 0.05
        leaks.step()
        if leaks._samples > looked:
            looked, longest, last = leaks._samples, max(longest, clock.now - last), clock.now
    assert leaks.report().counts >= 3
    assert longest <= 6, "every five seconds, with the step that it waits for"


def test_a_count_that_takes_longer_than_there_is_time_is_given_up(monkeypatch, clock):
    """It was expected to take a millisecond, and takes two seconds."""
    monkeypatch.setattr(object_leaks, "_COUNT_SECS_PER_BLOCK", 0.001 / sys.getallocatedblocks())
    looks_taking(monkeypatch, clock, lambda number: 0.001)
    begun_counts = []

    def counting(step, goes_on):
        begun_counts.append(clock.now)
        for part in range(1, 101):
            clock.now += 0.02
            if not goes_on(part / 100):
                return None
        return take_sample(step)

    monkeypatch.setattr(object_leaks, "take_sample", counting)
    leaks, begun = ObjectLeaks(every_steps=1), clock.now
    while clock.now < begun + 330:
        clock.now += 0.01
        leaks.step()
        seconds = clock.now - begun
        spent = leaks._looking.spent_secs + leaks._counting.spent_secs
        assert spent <= 0.05 * min(seconds, 20) + 0.01 * max(seconds - 20, 0) + 0.02
    assert leaks.report().counts == 1, "once there is time for a whole one"
    assert len(begun_counts) == 2, "it is not begun again before"


def test_a_count_that_takes_a_little_longer_than_expected_is_not_given_up(monkeypatch, clock):
    monkeypatch.setattr(object_leaks, "_COUNT_SECS_PER_BLOCK", 0.2 / sys.getallocatedblocks())
    looks_taking(monkeypatch, clock, lambda number: 0.001)

    def counting(step, goes_on):
        clock.now += 0.23
        return take_sample(step, goes_on)

    monkeypatch.setattr(object_leaks, "take_sample", counting)
    leaks, begun = ObjectLeaks(), clock.now
    while leaks._counting.spent_secs == 0:
        clock.now += 0.01
        leaks.step()
    assert leaks.report().counts == 1
    assert leaks._counting.spent_secs <= 0.75 * 0.05 * (clock.now - begun)


def test_a_count_says_how_much_of_it_is_done_and_can_be_given_up():
    parts = []
    assert take_sample(1, lambda part: parts.append(part) or True).counts
    assert parts == sorted(parts) and 0 < parts[0] <= parts[-1] <= 1
    assert take_sample(1, lambda part: False) is None


def test_a_count_keeps_nothing_alive():
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(20):
            take_sample(1, lambda part: True)
        assert len(gc.get_objects()) - before < 20
    finally:
        gc.enable()


class Layer:
    """As a module of torch: its parts lie in a dictionary of its own."""

    def __init__(self, depth):
        self._modules = {"inner": Layer(depth - 1)} if depth else {}
        self.hooks = [{} for _ in range(12)]
        self.outputs = []

    def innermost(self):
        return self._modules["inner"].innermost() if self._modules else self


def test_a_list_of_a_layer_deep_within_a_model_is_found():
    model, leaks = Layer(8), ObjectLeaks(every_steps=10)
    leaks.time_share = float("inf")
    for _ in range(100):
        model.innermost().outputs.append(bytes(10))
        leaks.step()
    assert [one.entry_type for one in leaks.report().growing if one.name == "list entries"] == ["bytes"]


def test_a_module_that_a_library_made_is_not_the_programs(monkeypatch):
    made = types.ModuleType("json.made_for_a_test")
    made.__file__ = "_made.py"  # as torch.ops has it
    monkeypatch.setitem(sys.modules, made.__name__, made)
    own = types.ModuleType("made_for_a_test")
    own.__file__ = "made.py"
    monkeypatch.setitem(sys.modules, own.__name__, own)
    assert not is_of_program(made.__name__) and is_of_program(own.__name__)


@pytest.mark.parametrize("folder", ["/opt/python/lib/python3.11/site-packages", "/usr/lib/python3/dist-packages"])
def test_a_package_of_another_environment_is_a_library(monkeypatch, folder):
    made = types.ModuleType("made_for_a_test_elsewhere")
    made.__file__ = f"{folder}/made_for_a_test_elsewhere/__init__.py"
    monkeypatch.setitem(sys.modules, made.__name__, made)
    assert not is_of_program(made.__name__)


class Trainer:
    def __init__(self):
        self.outputs = []


def test_growth_beyond_what_looks_meet_is_not_denied(monkeypatch):
    crowd = types.ModuleType("made_for_a_test_with_many_objects")
    crowd.__file__ = "crowd.py"
    vars(crowd).update({f"one{number}": [number] for number in range(11_000)})
    monkeypatch.setitem(sys.modules, crowd.__name__, crowd)
    trainer, leaks = Trainer(), ObjectLeaks(every_steps=10)
    leaks.time_share = float("inf")
    monkeypatch.setattr(object_leaks, "take_sample", lambda step, goes_on: None)
    for _ in range(100):
        trainer.outputs.append(bytes(10))
        leaks.step()
    report = leaks.report()
    assert report.is_established and not report.is_whole
    assert str(report) == (
        "no container of the program among the 10,000 objects nearest to its variables grows in 100 steps; 0 counts of all objects are too few to tell more"
    )
