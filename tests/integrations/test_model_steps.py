"""Steps that save memory: measured, checked, and taken back when they do not help."""

import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import nilometer
from nilometer.optimize import Tier, apply_steps, chunked_cross_entropy
from nilometer.optimize.byte_words import in_bytes
from nilometer.optimize.measuring.trial import Trial, measure_step
from nilometer.optimize.model.optimization import optimization_row
from nilometer.optimize.model.steps import AUTOCAST, CHECKPOINTS, CHUNKED_LOSS, SDPA, ZERO_GRAD, ModelStep


def llama(attention="sdpa", vocabulary=2000):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=3,
        num_attention_heads=4,
        attn_implementation=attention,
    )
    ids = torch.randint(0, vocabulary, (4, 96))
    return LlamaForCausalLM(config).train(), {"input_ids": ids, "labels": ids}


def one(model, sample, step, keep_all=True, **options):
    (outcome,) = apply_steps(model, sample, steps=[step], keep_all=keep_all, **options)[:1]
    return outcome


def loss_and_gradients(model, sample):
    model.zero_grad(set_to_none=True)
    loss = model(**sample).loss
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_chunked_cross_entropy_is_the_whole_one():
    head = nn.Linear(16, 300)
    hidden = torch.randn(4, 31, 16, requires_grad=True)
    labels = torch.randint(0, 300, (4, 31))
    labels[:, :5] = -100
    whole = functional.cross_entropy(head(hidden).flatten(0, 1), labels.flatten())
    expected = torch.autograd.grad(whole, [hidden, head.weight, head.bias])
    ours = chunked_cross_entropy(hidden, head, labels, chunks=7)
    torch.testing.assert_close(ours, whole, rtol=1e-6, atol=1e-7)
    for gradient, other in zip(torch.autograd.grad(ours, [hidden, head.weight, head.bias]), expected, strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-5, atol=1e-8)
    half = chunked_cross_entropy(hidden, head, labels, denominator=2.0 * (labels != -100).sum())
    torch.testing.assert_close(half, whole / 2)
    with pytest.raises(ValueError, match="do not fit labels"):
        chunked_cross_entropy(hidden, head, labels[:, 1:])


@pytest.mark.parametrize("rows", [(0,), (2, 0)])
def test_chunked_cross_entropy_of_nothing_is_that_of_torch(rows):
    head = nn.Linear(8, 10)
    hidden, labels = torch.randn(*rows, 8, requires_grad=True), torch.zeros(rows, dtype=torch.long)
    mean = chunked_cross_entropy(hidden, head, labels)
    assert bool(mean.isnan()) and bool(functional.cross_entropy(head(hidden).flatten(0, -2), labels.flatten()).isnan())
    assert float(chunked_cross_entropy(hidden, head, labels, denominator=3).detach()) == 0.0
    mean.backward()
    assert hidden.grad.shape == hidden.shape


def test_chunked_loss_lowers_the_peak_of_a_language_model():
    model, sample = llama(vocabulary=4000)
    loss, gradients = loss_and_gradients(model, sample)
    outcome = one(model, sample, CHUNKED_LOSS, tolerance=True)
    assert outcome.applied, outcome.reason
    assert outcome.peak_after_bytes < 0.75 * outcome.peak_before_bytes
    assert outcome.loss_error < 1e-6 and outcome.gradient_cosine > 0.999999
    chunked_loss, chunked_gradients = loss_and_gradients(model, sample)
    torch.testing.assert_close(chunked_loss, loss)
    for ours, theirs in zip(chunked_gradients, gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)
    assert model(**sample).logits is None
    with torch.no_grad():
        assert model(**sample).logits.shape == (4, 96, 4000)
    weighted = model(**sample, num_items_in_batch=1000).loss
    outcome.undo()
    torch.testing.assert_close(weighted, model(**sample, num_items_in_batch=1000).loss)
    assert model(**sample).logits is not None
    assert "forward" not in vars(model) and "forward" not in vars(model.lm_head)
    assert all(map(torch.equal, loss_and_gradients(model, sample)[1], gradients))


def test_sdpa_replaces_eager_attention():
    model, sample = llama("eager")
    outcome = one(model, sample, SDPA)
    assert outcome.applied and outcome.tier is Tier.SAFE, outcome.reason
    assert outcome.saved_bytes > 0 and model.config._attn_implementation == "sdpa"
    outcome.undo()
    assert model.config._attn_implementation == "eager"
    assert "sdpa already" in one(llama()[0], sample, SDPA).reason
    assert "chosen by name" in one(nn.Linear(4, 4), torch.randn(2, 4), SDPA).reason


def test_autocast_is_asked_for_and_undone():
    model, sample = llama()
    assert "tolerance=True" in one(model, sample, AUTOCAST).reason
    before = loss_and_gradients(model, sample)[1]
    outcome = one(model, sample, AUTOCAST, tolerance=True)
    assert outcome.applied, outcome.reason
    assert 0 < outcome.loss_error < 1e-2 and outcome.gradient_cosine > 0.99
    outcome.undo()
    assert all(map(torch.equal, loss_and_gradients(model, sample)[1], before))
    half = llama()[0].bfloat16()
    assert "not all in float32" in one(half, sample, AUTOCAST, tolerance=True).reason


def test_gradients_of_zeros_are_given_back():
    model, x = nn.Sequential(*[nn.Linear(64, 64) for _ in range(4)]), torch.randn(8, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert "no gradients of zeros" in one(model, x, ZERO_GRAD, optimizer=optimizer).reason
    model(x).sum().backward()
    optimizer.step()
    assert "no gradients of zeros" in one(model, x, ZERO_GRAD, optimizer=optimizer).reason
    optimizer.zero_grad(set_to_none=False)
    outcome = one(model, x, ZERO_GRAD, optimizer=optimizer)
    assert outcome.applied, outcome.reason
    assert outcome.saved_bytes > 0
    model(x).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert all(parameter.grad is None for parameter in model.parameters())
    outcome.undo()
    assert "zero_grad" not in vars(optimizer)
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_step_that_does_not_help_is_taken_back():
    undone = []
    idle = ModelStep("idle", Tier.SAFE, lambda trial: lambda: undone.append(trial))
    outcome = one(nn.Linear(4, 4), torch.randn(2, 4), idle)
    assert not outcome.applied and "the peak did not fall" in outcome.reason and len(undone) == 1


def test_a_step_that_changes_the_results_is_taken_back():
    def halve(trial):
        trial.model.inner, earlier = nn.Identity(), trial.model.inner
        return lambda: setattr(trial.model, "inner", earlier)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(32, 512), nn.GELU(), nn.Linear(512, 32))
            self.head = nn.Linear(32, 1)

        def forward(self, x):
            return self.head(self.inner(x))

    model = Model()
    inner = model.inner
    outcome = one(model, torch.randn(64, 32), ModelStep("halve", Tier.TOLERANCE, halve), tolerance=True)
    assert not outcome.applied and "reverted: the loss differs" in outcome.reason
    assert model.inner is inner


def test_a_step_that_breaks_the_model_is_taken_back():
    def breaks(trial):
        trial.model.forward = lambda x: 1 / 0
        return lambda: vars(trial.model).pop("forward")

    model = nn.Linear(4, 4)
    outcome = one(model, torch.randn(2, 4), ModelStep("breaks", Tier.SAFE, breaks))
    assert not outcome.applied and "ZeroDivisionError" in outcome.reason and outcome.measured == "failed"
    assert "forward" not in vars(model)


def test_steps_add_up_and_come_off_in_reverse():
    model, sample = llama("eager", vocabulary=4000)
    optimizer = torch.optim.AdamW(model.parameters())
    gradients = loss_and_gradients(model, sample)[1]
    model.zero_grad(set_to_none=True)
    outcomes = apply_steps(model, sample, optimizer=optimizer, tolerance=True, keep_all=True)
    applied = [outcome for outcome in outcomes if outcome.applied]
    assert {outcome.name for outcome in applied} >= {SDPA.name, CHUNKED_LOSS.name, CHECKPOINTS.name}
    assert applied[-1].peak_after_bytes < 0.6 * applied[0].peak_before_bytes
    for outcome in reversed(applied):
        outcome.undo()
    assert all(map(torch.equal, loss_and_gradients(model, sample)[1], gradients))


def test_an_eight_bit_optimizer_is_advice_with_evidence():
    model = nn.Sequential(nn.Linear(128, 128), nn.Linear(128, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.randn(2, 128)
    assert "no Adam state" in apply_steps(model, x, optimizer=optimizer, steps=[])[-1].reason
    model(x).sum().backward()
    optimizer.step()
    outcome = apply_steps(model, x, optimizer=optimizer, steps=[])[-1]
    assert outcome.tier is Tier.SEMANTIC and not outcome.applied
    saving = int((2 * 4 * 128 * 128 + 4) * (1 - 2.05 / 8))
    assert f"save about {in_bytes(saving)} of" in outcome.reason
    other = torch.optim.SGD(model.parameters(), momentum=0.9, lr=0.1)
    assert "no Adam state" in apply_steps(model, x, optimizer=other, steps=[])[-1].reason


def test_models_without_a_language_head_have_no_chunked_loss():
    assert "no lm_head" in one(nn.Linear(4, 4), torch.randn(2, 4), CHUNKED_LOSS, tolerance=True).reason
    config = GPT2Config(vocab_size=100, n_embd=16, n_layer=1, n_head=1, bos_token_id=1, eos_token_id=1)
    model = GPT2LMHeadModel(config)
    model.loss_function = lambda logits, labels, **_: functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    ids = torch.randint(0, 100, (2, 8))
    outcome = one(model, {"input_ids": ids, "labels": ids}, CHUNKED_LOSS, tolerance=True)
    assert "not that of a causal language model" in outcome.reason


def frees(mib):
    """A step that keeps less by so many MiB of what the model holds over a step."""

    def apply(trial):
        held = trial.model.held
        trial.model.held = held[: len(held) - (mib << 18)]
        return lambda: setattr(trial.model, "held", held)

    return ModelStep("frees", Tier.SAFE, apply)


class Holder(nn.Module):
    """A step makes a tensor as large as `held`, 40 MiB, beside a weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.held = torch.zeros(0).new_empty(40 << 18, device="meta")

    def forward(self, x):
        made = torch.zeros(self.held.shape)
        return (self.weight * x).sum() + made[0]


@pytest.fixture
def timed(monkeypatch):
    """Steps take the times that a test says, one a measurement."""
    times = []
    monkeypatch.setattr("nilometer.optimize.measuring.trial._timed", lambda trial: times.pop(0))
    return times


@pytest.mark.parametrize(
    ("mib", "after", "reason"),
    [
        (10, 1.2, ""),
        (10, 1.3, "not worth it: it saves 10.00 MiB (25.0%) of the peak, but takes 30% more time"),
        (3, 1.14, ""),
        (3, 1.16, "not worth it: it saves 3.00 MiB (7.5%) of the peak, but takes 16% more time"),
        (1, 0.5, "not worth it: it saves 1.00 MiB (2.5%) of the peak, which is less than 5%"),
        (1, 2.0, "not worth it: it saves 1.00 MiB (2.5%) of the peak, which is less than 5%, and takes 100% more time"),
    ],
)
def test_a_step_is_kept_where_its_saving_is_worth_its_time(timed, mib, after, reason):
    model = Holder()
    timed += [1.0, after]
    outcome = one(model, torch.ones(4), frees(mib), keep_all=False)
    assert (outcome.applied, outcome.reason) == (not reason, reason)
    assert len(model.held) == ((40 - mib) << 18 if outcome.applied else 40 << 18)
    assert outcome.peak_before_bytes - outcome.peak_after_bytes == mib << 20 and outcome.secs_after == after
    timed += [1.0, after]
    assert one(model, torch.ones(4), frees(mib)).applied, "it was asked for"


def test_kilobytes_are_not_worth_a_change(timed):
    timed += [1.0] * 8
    blocks = [nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 8)) for _ in range(8)]
    outcome = one(nn.Sequential(*blocks), torch.randn(64, 8), CHECKPOINTS, keep_all=False)
    assert not outcome.applied
    assert re.fullmatch(r"not worth it: it saves 0\.\d\d MiB \(\d+\.\d%\) of the peak, which is less than 1 MiB", outcome.reason)


def test_the_first_steps_of_a_model_are_not_timed(monkeypatch):
    """They load libraries and fill caches; times are taken when steps no longer get faster."""
    now = 0.0
    takes = iter([9.0, 3.0, 2.0])

    class Cold(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            nonlocal now
            now += next(takes, 1.0)
            return (self.weight * x).sum()

    monkeypatch.setattr("nilometer.optimize.measuring.trial.time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr("nilometer.optimize.measuring.trial.min", max, raising=False)
    assert measure_step(Trial(Cold(), torch.ones(4))).secs == 1.0, "the slowest of those that were timed"


def test_a_plan_that_did_not_lower_the_peak_was_tried_and_has_its_figures(recorded):
    nilometer.init(name="reverted")
    torch.manual_seed(1)
    # The peak is at the end of backward, with the gradient of the table, when nothing of the blocks is left.
    blocks = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)) for _ in range(4)]
    model = nn.Sequential(nn.Embedding(200_000, 8), nn.Sequential(*blocks))
    outcome = one(model, torch.arange(16)[None], CHECKPOINTS)
    row = optimization_row(outcome)
    assert row["reason"].startswith("reverted: the peak did not fall") and not row["applied"]
    assert row["measured"] == "peak of a step" and row["peak_before_mb"] == row["peak_after_mb"] > 1
    assert row["saved_mb"] == 0 and row["seconds_before"] > 0 and row["seconds_after"] > 0
    assert f"({in_bytes(outcome.peak_before_bytes)} -> {in_bytes(outcome.peak_after_bytes)})" in row["reason"]
    [told] = recorded().summary()["optimizations"]
    assert (told["name"], told["applied"], told["after_bytes"]) == ("checkpoint plan", False, outcome.peak_after_bytes)


def test_with_a_budget_a_step_is_kept_where_it_is_needed(timed):
    model = Holder()
    timed += [1.0, 5.0, 5.0, 5.1]
    needed, further = apply_steps(model, torch.ones(4), steps=[frees(1), frees(10)], budget_bytes=(39 << 20) + 1024)
    assert needed.applied and needed.saved_bytes == 1 << 20, "slow, and needed"
    assert not further.applied and further.reason.endswith("takes 2% more time, and the peak is within the budget already")


def test_what_was_refused_was_not_tried_and_has_no_figures(recorded):
    nilometer.init(name="refused")
    outcome = one(nn.Linear(4, 4), torch.randn(2, 4), SDPA)
    assert not outcome.has_figures and outcome.peak_before_bytes == outcome.secs_before == 0
    row = optimization_row(outcome)
    assert row["measured"] == "not tried" and "chosen by name" in row["reason"]
    assert {row[key] for key in ("saved_mb", "peak_before_mb", "peak_after_mb", "seconds_before", "seconds_after")} == {None}
    one(nn.Linear(4, 4), torch.randn(2, 4), ModelStep("idle", Tier.SAFE, lambda trial: lambda: None))
    assert [tried["name"] for tried in recorded().summary()["optimizations"]] == ["idle"]


@pytest.mark.parametrize("module", ["measuring.accounting", "checkpoints.checkpointing", "model.chunked_loss", "model.steps"])
def test_the_examples_are_right(module):
    import doctest
    import importlib

    found = doctest.testmod(importlib.import_module(f"nilometer.optimize.{module}"))
    assert found.attempted > 0 and found.failed == 0


def test_checkpoints_come_on_top_of_autocast_where_blocks_hand_on_half_precision():
    torch.manual_seed(6)
    blocks = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(6)]
    outcomes = apply_steps(nn.Sequential(*blocks), torch.randn(512, 64), tolerance=True, keep_all=True, steps=[AUTOCAST, CHECKPOINTS])
    assert [(outcome.name, outcome.applied) for outcome in outcomes] == [("bfloat16 autocast", True), ("checkpoint plan", True)], outcomes
    assert outcomes[1].peak_after_bytes < outcomes[0].peak_after_bytes < outcomes[0].peak_before_bytes


def test_a_loss_that_is_computed_from_the_output_is_computed_in_32_bits():
    seen = []

    def loss(output):
        seen.append(output.dtype)
        return output.square().mean()

    [outcome] = apply_steps(nn.Linear(64, 512), torch.randn(512, 64), loss=loss, tolerance=True, keep_all=True, steps=[AUTOCAST])
    assert set(seen) == {torch.float32} and outcome.loss_error < 1e-2
