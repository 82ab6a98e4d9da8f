"""What ObjectLeaks calls growth: what slows down, is emptied again, or fills up to a bound is not."""

import collections
import functools
import gc
import random

import pytest

from nilometer.optimize import ObjectLeaks


class Record:
    pass


@pytest.fixture
def leaks():
    made = ObjectLeaks(every_steps=10)
    made.time_share = float("inf")  # every sample that is due is taken
    # The objects of the test runner are not of the program, and looking at them takes most of the time.
    gc.collect()
    gc.freeze()
    yield made
    gc.unfreeze()


def reports(leaks, work, steps, first=0, every=10):
    """Steps after which something was reported, of every tenth (or as said) from the first on."""
    said = {}
    for step in range(1, steps + 1):
        work(step)
        leaks.step()
        if step % every == 0 and step >= first:
            said[step] = [one for one in leaks.report().growing if "Record" in (one.name.split(".")[-1], one.entry_type)]
    return [step for step, growing in said.items() if growing]


def test_a_cache_that_fills_by_chance_slows_down_and_is_not_reported(leaks):
    cache, chance = {}, random.Random(7)
    leaks.every_steps = 50
    said = reports(leaks, lambda step: cache.__setitem__(chance.randrange(600), Record()), steps=2400, first=300, every=50)
    # Of 43 samples; chance may hide it once in a while.
    assert len(said) <= 4, said


@pytest.mark.parametrize("share", [0.4, 0.7, 1.0])
def test_growth_by_chance_that_goes_on_is_reported(leaks, share):
    kept, chance = [], random.Random(7)
    said = reports(leaks, lambda step: chance.random() < share and kept.append(Record()), steps=400, first=100)
    assert len(said) >= 25, said


def test_what_a_beginning_makes_more_does_not_hide_a_leak(leaks):
    kept = []
    said = reports(leaks, lambda step: kept.extend(Record() for _ in range(20 if step <= 60 else 1)), steps=300, first=200)
    assert len(said) == 11


@pytest.mark.parametrize("empty", [list.clear, lambda _: None], ids=["emptied", "a new one"])
def test_a_list_of_an_epoch_is_not_reported_once_it_was_emptied(leaks, empty):
    history = []

    def work(step):
        nonlocal history
        history.append(Record())
        if step % 100 == 0:
            empty(history)
            history = [] if history else history

    assert reports(leaks, work, steps=650, first=100) == []


def test_a_list_that_becomes_longer_than_before_it_was_emptied_is_reported(leaks):
    history = []

    def work(step):
        history.append(Record())
        if step == 100:
            history.clear()

    said = reports(leaks, work, steps=300, first=100)
    assert said and min(said) >= 230 and said[-1] == 300


class Replay:
    def __init__(self, capacity):
        self.capacity = capacity
        self.entries = []


def test_what_fills_up_to_a_known_bound_is_not_reported(leaks):
    recent, replay = collections.deque(maxlen=10_000), Replay(10_000)

    @functools.lru_cache(maxsize=10_000)
    def cached(step):
        return Record()

    def work(step):
        recent.append({"record": Record()})
        replay.entries.append(Record())
        cached(step)

    assert reports(leaks, work, steps=150) == []


def test_without_a_bound_or_beyond_it_the_same_are_reported(leaks):
    replay = Replay(50)
    assert reports(leaks, lambda step: replay.entries.append(Record()), steps=150)[-1] == 150

    @functools.lru_cache(maxsize=None)
    def cached(step):
        return Record()

    others = ObjectLeaks(every_steps=10)
    others.time_share = float("inf")
    assert reports(others, cached, steps=150)[-1] == 150


def test_a_list_within_a_bounded_container_is_a_list_of_its_own(leaks):
    workers = collections.deque([[]], maxlen=4)
    assert reports(leaks, lambda step: workers[0].append(Record()), steps=150)[-1] == 150
