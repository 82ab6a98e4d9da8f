"""What GarbageCollector tells the advice rules, and when they speak."""

import gc
import json
import re

from collector_settings import settings_as_before  # noqa: F401
from conftest import ROOT

import nilometer
from nilometer import _native
from nilometer.optimize import GarbageCollector
from nilometer.optimize.host import collector_pauses, garbage
from nilometer.optimize.live_facts import recommendations


def test_a_collector_that_was_in_use_is_not_recommended():
    collector = GarbageCollector()
    assert not collector.facts()["gc"]["managed"]
    with collector:
        collector._pauses.total_secs = collector._pauses.automatic_secs = collector._pauses.longest_automatic_secs = 1000.0
        for _ in range(20):
            collector.step()
    facts = collector.facts()
    assert facts["gc"]["managed"]
    assert recommendations({"gc": facts["gc"]}) == []
    named = recommendations({"gc": facts["gc"] | {"managed": False}})
    assert {one["rule"] for one in named} == {"schedule-collections", "raise-collection-thresholds"}


def test_one_that_leaves_collecting_to_python_is_told_to_take_over():
    with GarbageCollector(thresholds=(700, 10, 10)) as collector:
        collector._pauses.total_secs = collector._pauses.automatic_secs = collector._pauses.longest_automatic_secs = 1000.0
        for _ in range(20):
            collector.step()
    facts = collector.facts()["gc"]
    assert not facts["managed"] and facts["sets_thresholds"]
    named = recommendations({"gc": facts})
    assert {one["rule"] for one in named} == {"schedule-collections", "raise-collection-thresholds"}
    assert all("without thresholds=" in one["change"] for one in named), named


def test_an_emergency_is_no_reason_for_higher_thresholds(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(collector_pauses, "perf_counter", lambda: clock[0])

    def pass_time(phase, _):
        if phase == "start":
            clock[0] += 1

    with GarbageCollector(thresholds=(100_000_000, 10, 10), freeze=False) as collector:
        gc.callbacks.append(pass_time)
        try:
            collector.emergency()
        finally:
            gc.callbacks.remove(pass_time)
        facts = collector.facts()["gc"]
    assert facts["total_seconds"] == 1 and facts["automatic_seconds"] == 0
    assert recommendations({"gc": facts | {"wall_seconds": 10.0}}) == []
    assert [one["rule"] for one in recommendations({"gc": facts | {"wall_seconds": 10.0, "automatic_seconds": 1.0}})] == ["raise-collection-thresholds"]


def test_a_pause_that_the_program_asked_for_is_no_reason_for_a_schedule(run, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(collector_pauses, "perf_counter", lambda: clock[0])
    monkeypatch.setattr(garbage, "_TELL_SECS", 0.0)

    def pass_time(phase, _):
        clock[0] += 1000 * (phase == "start")

    with GarbageCollector(thresholds=(1_000_000, 10, 10), freeze=False) as collector:
        gc.callbacks.append(pass_time)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(pass_time)
        for _ in range(20):
            collector.step()
        stats, facts = collector.stats(), collector.facts()["gc"]
    assert (stats["asked"], stats["automatic"], stats["pause_max_seconds"]) == (1, 0, 1000.0)
    assert facts["longest_pause_seconds"] == 0.0 < facts["step_seconds"]
    assert "schedule-collections" not in {one["rule"] for one in recommendations({"gc": facts})}
    path = run.path
    run.finish(0)
    told = nilometer.read_run(path).summary()
    assert "schedule-collections" not in {one["rule"] for one in told.get("recommendations", [])}, "nor by the metric, which has every pause"


def test_facts_are_those_that_the_rules_know():
    known = {}
    for subject, file in (("gc", "collector"), ("host", "host")):
        source = (ROOT / f"crates/nilo-advice/src/facts/{file}.rs").read_text()
        known[subject] = set(re.findall(r"pub (\w+): ", source))
    with GarbageCollector() as collector:
        for _ in range(20):
            collector.step()
        gc.collect()
        facts = collector.facts()
    assert {subject: set(values) - known[subject] for subject, values in facts.items()} == {"gc": set(), "host": set()}
    assert facts["gc"]["managed"] and facts["gc"]["steps"] == 20 and facts["gc"]["full_collections_asked"] == 1
    assert 0 < facts["gc"]["step_seconds"] and facts["gc"]["longest_pause_seconds"] <= facts["gc"]["total_seconds"]
    assert collector.facts()["gc"]["managed"], "its figures are of the time in which it collected"
    json.loads(_native.recommendations(json.dumps(facts)))
