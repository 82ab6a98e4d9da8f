"""The largest batch by prediction: judged against the true largest one, found by trying every size."""

import pytest
import torch
from torch import nn

from nilometer.optimize import NoBatchFits, TensorMeter, find_batch_size
from nilometer.optimize.batches.memory_fit import fit_memory
from nilometer.optimize.batches.sample_inputs import resized


class Attention(nn.Module):
    """A small transformer block that stores its table of all pairs of tokens."""

    def __init__(self, width=32):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return x + self.out((q @ k.transpose(1, 2)).softmax(-1) @ v)


def trainer(model, optimizer, width=32):
    calls = []

    def step(batch_size, length):
        calls.append((batch_size, length))
        model(torch.randn(batch_size, length, width)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    step.calls = calls
    return step


def true_maximum(step, model, optimizer, budget, length):
    """By bisection over real steps under the limit."""

    def fits(size):
        optimizer.zero_grad()
        meter = TensorMeter(limit_bytes=budget)
        meter.adopt(list(model.parameters()), list(optimizer.state.values()))
        try:
            with meter:
                step(size, length)
        except torch.OutOfMemoryError:
            return False
        return True

    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@pytest.mark.parametrize("optimizer_class", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("budget", [3_000_000, 20_000_000])
def test_the_size_is_within_five_percent_of_the_true_maximum(optimizer_class, budget):
    model = nn.Sequential(*[Attention() for _ in range(3)])
    optimizer = optimizer_class(model.parameters(), lr=1e-3)
    step = trainer(model, optimizer)
    found = find_batch_size(step, model, optimizer, length=48, budget_bytes=budget)
    assert found.ooms == 0 and found.probes <= 5
    assert len(step.calls) == found.probes + 1  # and a step to warm up
    assert found.peak_bytes <= budget
    step(1, 48)
    true = true_maximum(step, model, optimizer, budget, 48)
    assert 0.95 * true - 1 <= found.batch_size <= true


def test_the_fit_knows_lengths():
    model = nn.Sequential(*[Attention() for _ in range(3)])
    optimizer = torch.optim.AdamW(model.parameters())
    step = trainer(model, optimizer)
    found = find_batch_size(step, model, optimizer, length=64, budget_bytes=20_000_000)
    for length in (16, 48, 96):
        predicted = found.largest(length)
        step(1, length)
        true = true_maximum(step, model, optimizer, 20_000_000, length)
        assert 0.9 * true - 1 <= predicted <= true, length
    assert found.token_budget(64) == 64 * found.largest(64)


def test_model_optimizer_and_random_state_are_as_before():
    model = nn.Sequential(Attention(), nn.Flatten(0, 1), nn.BatchNorm1d(32))
    optimizer = torch.optim.AdamW(model.parameters())
    step = trainer(model, optimizer)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random_state = torch.get_rng_state()
    find_batch_size(step, model, optimizer, length=8, budget_bytes=3_000_000)
    assert not optimizer.state
    assert torch.equal(torch.get_rng_state(), random_state)
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())
    step(4, 8)
    kept = [value.clone() for entry in optimizer.state.values() for value in entry.values()]
    find_batch_size(step, model, optimizer, length=8, budget_bytes=3_000_000)
    now = [value for entry in optimizer.state.values() for value in entry.values()]
    assert kept and all(map(torch.equal, now, kept))


def test_steps_that_peak_in_the_optimizer_do_not_mislead():
    # Wide weights, tiny activations: small steps peak in the optimizer, and the batch shows only above some size.
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
    optimizer = torch.optim.AdamW(model.parameters())

    def step(batch_size, _length):
        model(torch.randn(batch_size, 512)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    budget = 14_000_000
    found = find_batch_size(step, model, optimizer, budget_bytes=budget)
    assert found.ooms == 0
    step(1, 1)
    true = true_maximum(step, model, optimizer, budget, 1)
    assert 0.95 * true <= found.batch_size <= true


def test_a_step_whose_memory_jumps_is_found_by_halving():
    model = nn.Linear(4, 4)

    def step(batch_size, _length):
        # Beyond 100 samples another algorithm takes ten times the memory, as convolutions do.
        held = torch.zeros(batch_size * (10_000 if batch_size > 100 else 1000))
        model(torch.randn(batch_size, 4)).sum().backward()
        model.zero_grad()
        del held

    found = find_batch_size(step, model, budget_bytes=2_000_000)
    assert found.ooms > 0 and 95 <= found.batch_size <= 100


def test_nothing_fits_is_said_with_the_reason():
    model = nn.Sequential(Attention())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = trainer(model, optimizer)
    with pytest.raises(NoBatchFits, match="a batch of 1 does not fit into 60000 bytes: .*out of memory"):
        find_batch_size(step, model, optimizer, length=64, budget_bytes=60_000)
    with pytest.raises(NoBatchFits, match="model and optimizer take"):
        find_batch_size(step, model, optimizer, length=64, budget_bytes=100)


def test_bounds_are_kept_and_wrong_ones_refused():
    model = nn.Sequential(Attention())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = trainer(model, optimizer)
    found = find_batch_size(step, model, optimizer, length=16, budget_bytes=50_000_000, maximum=24)
    assert found.batch_size == 24 and max(size for size, _ in step.calls) == 24
    with pytest.raises(ValueError, match="below minimum"):
        find_batch_size(step, model, optimizer, budget_bytes=1, minimum=4, maximum=2)
    assert find_batch_size(step, model, optimizer, length=16, budget_bytes=0.3 * 50_000_001, maximum=2).budget_bytes == 15_000_000
    for wrong in (0, -1.0, "8 GB", True, float("nan"), float("inf")):
        with pytest.raises((ValueError, TypeError), match="budget_bytes must be"):
            find_batch_size(step, model, optimizer, budget_bytes=wrong)
    for name in ("minimum", "maximum", "length"):
        for wrong in (0, 2.5, True, "8", float("nan")):
            with pytest.raises(ValueError, match=f"{name} is .*; it must be a whole number, 1 or more"):
                find_batch_size(step, model, optimizer, **({"budget_bytes": 1} | {name: wrong}))
    with pytest.raises(ValueError, match="step must be a function"):
        find_batch_size(None, model, optimizer, budget_bytes=1)
    with pytest.raises(ValueError, match="the sample is empty: it has no rows"):
        resized(torch.zeros(0, 3), 4)
    with pytest.raises(ValueError, match="budget_bytes is needed"):
        find_batch_size(step, model, optimizer)


def test_other_errors_of_a_step_pass():
    model = nn.Linear(2, 2)

    def step(batch_size, length):
        raise ValueError("broken step")

    with pytest.raises(ValueError, match="broken step"):
        find_batch_size(step, model, budget_bytes=1 << 20)


def test_a_fit_from_one_step_is_cautious():
    fit = fit_memory([(2, 10, 1000)])
    assert fit.peak(4, 10) == 2000 and fit.largest_batch(3000, 10) == 6
    with pytest.raises(ValueError, match="no steps"):
        fit_memory([])
