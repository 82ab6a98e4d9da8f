"""Tensors that accumulate between steps are found by shape, with their holder; those that keep their graph are said as such."""

import json

import pytest
import torch

import nilometer
from nilometer import _native
from nilometer.optimize import GarbageCollector, ObjectLeaks
from nilometer.optimize.live_facts import recommendations

HISTORY = []


@pytest.fixture
def leaks():
    made = ObjectLeaks(every_steps=5)
    made.time_share = float("inf")
    yield made
    HISTORY.clear()


@pytest.fixture
def model():
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))


def train(model, leaks, keep, steps=60):
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        loss = model(torch.randn(8, 16)).square().mean()
        keep(loss)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        leaks.step()
    return leaks.report()


def test_losses_that_keep_their_graph(leaks, model):
    report = train(model, leaks, HISTORY.append)
    found = report.growing[0]
    assert found.has_graph and found.name == "tensor scalar float32 cpu" and found.count_per_step == pytest.approx(1.0)
    assert found.holder == "test_tensor_leaks.py: HISTORY (list)"
    assert found.advice == "loss tensors keep their graph: use .item() or .detach()"
    assert report.graph_tensors_per_step == pytest.approx(1.0)
    assert leaks.facts()["torch"]["graph_tensors_per_step"] == pytest.approx(1.0)


@pytest.mark.parametrize("entry", [lambda loss: loss, lambda loss: {"loss": loss, "size": 8}, lambda loss: (8, loss)], ids=["tensor", "dict", "tuple"])
def test_losses_are_found_before_all_objects_were_counted(leaks, model, entry):
    """A short training beside large libraries has no time for counts."""
    leaks._counting.part = 0.0
    report = train(model, leaks, lambda loss: HISTORY.append(entry(loss)))
    assert report.counts == 0 and report.growing[0].has_graph and "HISTORY" in report.growing[0].holder
    assert report.growing[0].count_per_step == report.graph_tensors_per_step == pytest.approx(1.0)
    assert report.retained_bytes_per_step == pytest.approx(4.0)
    assert "detach-losses" in {one["rule"] for one in recommendations(leaks.facts())}


def test_tensors_in_two_lists_are_counted_once(leaks, model):
    leaks._counting.part = 0.0
    others = []
    report = train(model, leaks, lambda loss: (HISTORY.append(loss), others.append(loss)))
    assert report.graph_tensors_per_step == pytest.approx(1.0)


def test_what_a_graph_keeps_is_measured_until_a_backward_pass_gives_it_back(leaks, model):
    def evaluate(loss):
        HISTORY.append(loss)

    for _ in range(60):
        evaluate(model(torch.randn(1000, 16)).square().mean())
        leaks.step()
    report = leaks.report()
    # Inputs, what ReLU gives and what is squared: 1000 rows of 16, 16 and 1.
    assert 1000 * (16 + 16 + 1) * 4 <= report.graph_bytes_per_step < 1000 * (16 + 16 + 16 + 2) * 4
    assert "for a backward pass" in str(report)
    said = [one for one in recommendations(leaks.facts()) if one["rule"] == "detach-losses"]
    assert any("their graphs keep" in evidence for evidence in said[0]["evidence"])
    HISTORY.clear()
    after = ObjectLeaks(every_steps=5)
    after.time_share = float("inf")
    trained = train(model, after, HISTORY.append)
    assert trained.graph_tensors_per_step > 0 and not trained.graph_bytes_per_step
    said = [one for one in recommendations(after.facts()) if one["rule"] == "detach-losses"]
    assert "what their graphs keep comes on top and is not known" in said[0]["evidence"]


def test_a_sum_of_losses_that_keeps_all_their_graphs(leaks, model):
    total = [0.0]

    def keep(loss):
        total[0] = total[0] + loss

    # One tensor only, whose graph becomes longer.
    report = train(model, leaks, keep)
    assert report.graph_nodes_per_step > 1 and report.graph_tensors_per_step == 0
    assert "add up loss.item() instead of loss" in str(report)
    assert leaks.facts()["torch"]["graph_tensors_per_step"] == 1.0


@pytest.mark.parametrize("keep", [lambda loss: HISTORY.append(loss.item()), lambda loss: None])
def test_a_loop_that_keeps_numbers_accumulates_no_tensors(leaks, model, keep):
    report = train(model, leaks, keep)
    assert report.is_established
    assert not [one for one in report.growing if one.is_tensor]
    assert report.retained_bytes_per_step == report.graph_tensors_per_step == report.graph_nodes_per_step == 0
    assert leaks.facts() == {"torch": {"retained_bytes_per_step": None, "graph_tensors_per_step": None, "graph_bytes_per_step": None}}


def test_outputs_that_accumulate_are_counted_in_bytes(leaks, model):
    outputs = {}

    def keep(loss):
        outputs[len(outputs)] = torch.zeros(1000, 25)

    report = train(model, leaks, keep)
    found = next(one for one in report.growing if one.is_tensor)
    assert found.name == "tensor 1000×25 float32 cpu" and not found.has_graph and found.advice is None
    assert found.bytes_per_step == report.retained_bytes_per_step == pytest.approx(100_000)
    assert found.holder.endswith("outputs (dict)")


def test_views_of_one_storage_count_it_once(leaks, model):
    whole = torch.zeros(100_000)
    report = train(model, leaks, lambda loss: HISTORY.append(whole[:10]))
    found = next(one for one in report.growing if one.is_tensor)
    assert found.count_per_step == pytest.approx(1.0) and found.bytes_per_step == 0


def test_facts_go_into_the_run(leaks, model, recorded):
    nilometer.init(memory=False)
    train(model, leaks, HISTORY.append)
    facts = leaks.facts()
    json.loads(_native.recommendations(json.dumps({"torch": {key: value for key, value in facts["torch"].items() if value is not None}})))
    recorded()


def test_an_emergency_without_a_gpu_gives_back_no_gpu_memory(model):
    with GarbageCollector() as collector:
        model(torch.randn(8, 16)).sum().backward()
        collector.step()
        assert collector.emergency()["cuda_bytes"] == 0
    assert not torch.cuda.is_initialized()


def test_an_emergency_empties_the_cache_of_a_gpu_in_use(monkeypatch):
    """The calls alone, on a machine without a GPU."""
    reserved = {0: 3 << 20, 1: 5 << 20}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "memory_reserved", reserved.__getitem__)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: reserved.update({0: 1 << 20, 1: 0}))
    assert GarbageCollector().emergency()["cuda_bytes"] == 7 << 20
