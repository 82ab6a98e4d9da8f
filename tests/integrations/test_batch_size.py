"""The largest batch by prediction: judged against the true largest one, found by trying every size."""

import itertools

import pytest
import torch
from torch import nn

from nilometer.optimize import NoBatchFits, TensorMeter, find_batch_size
from nilometer.optimize.batches.memory_fit import fit_memory
from nilometer.optimize.batches.sample_inputs import resized
from nilometer.optimize.measuring.step_parts import StepParts


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


def mlp():
    model = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 64))
    return model, lambda size: model(torch.ones(size, 64)).square().mean()


def wide_to_narrow():
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))
    return model, lambda size: model(torch.ones(size, 512)).square().mean()


def large_vocabulary():
    # The gradient of the head is larger than all else until the logits are.
    tokens, head = nn.Embedding(5000, 32), nn.Linear(32, 5000)
    loss = lambda size: nn.functional.cross_entropy(head(tokens(torch.zeros(size, dtype=torch.long))), torch.zeros(size, dtype=torch.long))  # noqa: E731
    return nn.ModuleList([tokens, head]), loss


def recurrent():
    # One kernel for a batch of one row, another one for more.
    model = nn.LSTM(16, 64, batch_first=True)
    return model, lambda size: model(torch.ones(size, 20, 16))[0].square().mean()


@pytest.mark.parametrize(
    ("make", "times"),
    [*itertools.product([mlp, wide_to_narrow, large_vocabulary], [1.1, 3, 10]), (recurrent, 3), (recurrent, 10)],
    ids=lambda value: value.__name__ if callable(value) else f"{value} times a step of one sample",
)
def test_what_small_steps_peak_in_does_not_mislead(make, times):
    # Small steps peak in the optimizer or in a gradient, large ones in activations: each part of a step has a line of its own.
    model, loss = make()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(size, _length):
        loss(size).backward()
        optimizer.step()
        optimizer.zero_grad()

    step(1, 1)
    meter = TensorMeter()
    meter.adopt(list(model.parameters()), list(optimizer.state.values()))
    with meter:
        step(1, 1)
    found = find_batch_size(step, model, optimizer, budget_bytes=int(times * meter.peak))
    true = true_maximum(step, model, optimizer, found.budget_bytes, 1)
    assert found.ooms == 0 and found.probes <= 5
    assert 0.95 * true <= found.batch_size <= true


def test_the_fit_is_of_what_ends_the_growth_also_where_no_step_showed_it():
    model, loss = mlp()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(size, _length):
        loss(size).backward()
        optimizer.step()
        optimizer.zero_grad()

    # Every step of up to 8 samples peaks in the optimizer.
    found = find_batch_size(step, model, optimizer, budget_bytes=20 << 20, maximum=8)
    step(1, 1)
    assert found.batch_size == 8
    assert 0.9 <= found.largest(1, margin=0) / true_maximum(step, model, optimizer, 20 << 20, 1) <= 1


def test_a_model_whose_parts_are_not_seen_is_searched_by_doubling():
    trained, loss = mlp()
    optimizer = torch.optim.AdamW(trained.parameters())

    def step(size, _length):
        loss(size).backward()
        optimizer.step()
        optimizer.zero_grad()

    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterList([parameter.detach() for parameter in trained.parameters()])

    model = Other().requires_grad_(False)
    step(1, 1)
    optimizer.register_step_pre_hook = optimizer.register_step_post_hook = None
    found = find_batch_size(step, model, optimizer, budget_bytes=8 << 20)
    true = true_maximum(step, model, optimizer, 8 << 20, 1)
    assert 0.95 * true <= found.batch_size <= true


def test_a_first_step_that_fits_without_the_state_that_it_makes_is_no_fit():
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(size, _length):
        model(torch.ones(size, 64)).repeat(1, 64).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    peaks = []
    for _ in range(2):
        meter = TensorMeter()
        meter.adopt(list(model.parameters()), list(optimizer.state.values()))
        with meter:
            step(8, 1)
        peaks.append(meter.peak)
    assert peaks[0] < peaks[1]
    optimizer.state.clear()
    with pytest.raises(NoBatchFits, match="a batch of 8 does not fit"):
        find_batch_size(step, model, optimizer, budget_bytes=sum(peaks) // 2, minimum=8)


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")
@pytest.mark.parametrize(
    "changed",
    [torch.jit.script, lambda model: torch.jit.trace(model, torch.ones(2, 512)), lambda model: torch.compile(model, backend="aot_eager")],
    ids=["scripted", "traced", "compiled"],
)
def test_models_that_do_not_call_hooks_of_modules_are_searched_too(changed, monkeypatch):
    model = changed(wide_to_narrow()[0])
    optimizer = torch.optim.AdamW(model.parameters())

    def step(size, _length):
        model(torch.ones(size, 512)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    found = find_batch_size(step, model, optimizer, budget_bytes=20 << 20)
    assert found.ooms <= 1  # fewer parts may promise too much, once
    monkeypatch.setattr(torch, "OutOfMemoryError", RuntimeError)  # TorchScript hands no other on
    true = true_maximum(step, model, optimizer, 20 << 20, 1)
    assert 0.95 * true <= found.batch_size <= true


@pytest.mark.parametrize("inplace", [False, True])
def test_parts_of_a_step_change_nothing_and_leave_no_hook(inplace):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=inplace), nn.Linear(8, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0)
    gradients = []

    def step():
        loss = model(torch.ones(2, 4)).square().sum()
        loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
        optimizer.step()
        optimizer.zero_grad()
        return loss

    with TensorMeter() as alone:
        loss = step()
    optimizer.state.clear()
    del loss
    kept, gradients = gradients[0], []
    meter = TensorMeter()
    with meter, StepParts(meter, model, optimizer) as parts:
        loss = step()
    assert all(map(torch.equal, kept, gradients[0]))
    # Three modules forward and backward, four parameters, before and in the optimizer's step, and what comes behind.
    assert len(parts.peaks) == 3 + 3 + 4 + 2 + 1
    assert max(parts.peaks) == alone.peak
    with StepParts(TensorMeter(), model, None) as parts:
        output = model(torch.ones(2, 4))
    assert len(parts.peaks) == 3 + 1
    output.sum().backward()
    assert len(parts.peaks) == 3 + 1
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks


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
    with pytest.raises(NoBatchFits, match="a batch of 1 does not fit into 58.6 KiB: .*out of memory"):
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
    with pytest.raises(ValueError, match="budget_bytes is required"):
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
