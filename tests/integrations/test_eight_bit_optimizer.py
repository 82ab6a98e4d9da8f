"""The 8-bit optimizer of bitsandbytes beside what is said of it: the predicted saving is the real one, and training with it is measured, split and put back like any other."""

import os

import pytest
import torch
from torch import nn

from nilometer.optimize import AdaptiveBatches, apply_steps, estimate_memory_requirements, find_batch_size
from nilometer.optimize.live_facts import recommendations
from nilometer.optimize.measuring.accounting import tensor_bytes
from nilometer.optimize.model.facts import facts_of_model

try:
    import bitsandbytes
except ImportError:
    if os.environ.get("CI"):
        raise
    pytest.skip("bitsandbytes is not installed: pip install -r tests/integrations/requirements.txt", allow_module_level=True)


def wide():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 8))


def made_a_step(model, optimizer):
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return optimizer


def test_the_saving_that_is_foretold_is_the_real_one():
    model, other = wide(), wide()
    plain = made_a_step(model, torch.optim.AdamW(model.parameters()))
    small = made_a_step(other, bitsandbytes.optim.AdamW8bit(other.parameters()))
    before, after = tensor_bytes(list(plain.state.values())), tensor_bytes(list(small.state.values()))
    advice = apply_steps(model, torch.randn(16, 64), optimizer=plain)[-1]
    assert advice.name == "8-bit optimizer" and not advice.applied and "bitsandbytes is installed" in advice.reason
    amount, unit = advice.reason.split("about ")[1].split(" of")[0].split()
    predicted = float(amount) * {"KiB": 2**10, "MiB": 2**20}[unit]
    assert predicted == pytest.approx(before - after, rel=0.05)
    needs = {name: estimate_memory_requirements(wide(), 16, optimizer=name) for name in ("adamw", "adamw8bit")}
    saved_mb = needs["adamw"]["optimizer_mb"] - needs["adamw8bit"]["optimizer_mb"]
    assert saved_mb * 2**20 == pytest.approx(before - after, rel=0.05)


def test_nobody_who_has_it_is_told_to_use_it():
    model = wide()
    optimizer = made_a_step(model, bitsandbytes.optim.AdamW8bit(model.parameters()))
    outcome = apply_steps(model, torch.randn(16, 64), optimizer=optimizer)[-1]
    assert outcome.reason == "the optimizer has no Adam state of large tensors"
    for kind, speaks in ((torch.optim.AdamW, True), (bitsandbytes.optim.AdamW8bit, False)):
        model = wide()
        facts = facts_of_model(model, made_a_step(model, kind(model.parameters())), peak_bytes=5_000_000)
        # As large a state, were it of 32 bits.
        facts["optimizer_state_bytes"] = 2_500_000
        assert ("use-8-bit-optimizer" in [one["rule"] for one in recommendations({"model": facts})]) == speaks


def test_its_state_is_as_before_after_the_search_for_a_batch():
    model = wide()
    optimizer = made_a_step(model, bitsandbytes.optim.AdamW8bit(model.parameters()))
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    states = {name: value.clone() for name, value in optimizer.state[model[2].weight].items() if isinstance(value, torch.Tensor)}

    def step(batch_size, _length):
        model(torch.randn(batch_size, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    found = find_batch_size(step, model, optimizer, budget_bytes=20_000_000)
    assert found.ooms == 0 and 0.9 < found.peak_bytes / found.budget_bytes <= 1
    assert all(map(torch.equal, model.parameters(), weights))
    assert {"state1", "state2"} <= states.keys() and states["state1"].dtype == torch.uint8
    assert all(torch.equal(optimizer.state[model[2].weight][name], value) for name, value in states.items())


@pytest.mark.parametrize("kind", ["AdamW8bit", "Lion8bit"])
def test_batches_that_run_out_are_run_again_with_it(kind):
    x = torch.randn(64, 64)
    trained = []
    for most in (64, 16):
        model = wide()

        def squares(model, part, most=most):
            loss = model(part).square().sum()
            if len(part) > most:
                raise torch.OutOfMemoryError(f"out of memory with {len(part)} samples")
            return loss

        batches = AdaptiveBatches(model, getattr(bitsandbytes.optim, kind)(model.parameters(), lr=0.001), squares, micro_batch=64)
        losses = [batches.step(x).loss for _ in range(5)]
        trained.append((losses, batches.ooms, batches.micro_batch))
    assert [row[1:] for row in trained] == [(0, 64), (2, 16)]
    # Steps that differ by rounding may fall on either side of one of 256 levels.
    assert trained[1][0] == pytest.approx(trained[0][0], rel=0.02) and trained[0][0][-1] < trained[0][0][0]
