"""Checkpoint plans on real models: the same bits, less memory, and the model as it was after undo."""

import copy
import pickle
import re

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from nilometer.optimize import TensorMeter, checkpoint_model, checkpoint_plans
from nilometer.optimize.byte_words import in_bytes
from nilometer.optimize.checkpoints.checkpointed_forward import put_on
from nilometer.optimize.measuring.trial import Trial, measure_step


# For eight blocks: three of them together, nested, alone, and one kept.
SEGMENTS = [(0, 2, [0, 1, 2]), (3, 5, [(3, 4, [3, 4]), 5]), (6, 6, [6]), 7]


class Block(nn.Module):
    """A residual block with dropout."""

    def __init__(self, width=32, hidden=128):
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.2), nn.Linear(hidden, width))

    def forward(self, x, scale=None):
        return x + self.inner(x) * (1.0 if scale is None else scale)


class Stack(nn.Module):
    """A model that calls its blocks in a loop of its own."""

    def __init__(self, blocks):
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def stack(count=8):
    return Stack([Block() for _ in range(count)])


def language_model(kind):
    torch.manual_seed(1)
    if kind == "gpt2":
        config = GPT2Config(vocab_size=128, n_positions=64, n_embd=32, n_layer=6, n_head=2, bos_token_id=1, eos_token_id=1)
        model = GPT2LMHeadModel(config)
    elif kind == "llama":
        config = LlamaConfig(
            vocab_size=128, hidden_size=32, intermediate_size=96, num_hidden_layers=6, num_attention_heads=2, attention_dropout=0.1
        )
        model = LlamaForCausalLM(config)
    else:
        config = BertConfig(vocab_size=128, hidden_size=32, intermediate_size=96, num_hidden_layers=6, num_attention_heads=2)
        model = BertForSequenceClassification(config)
    ids = torch.randint(2, 128, (4, 48))
    labels = ids if kind != "bert" else torch.randint(0, 2, (4,))
    return model.train(), {"input_ids": ids, "labels": labels}


def gradients(model, step):
    model.zero_grad(set_to_none=True)
    torch.manual_seed(5)
    loss = step(model)
    loss.backward()
    return [loss.detach(), *(parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None)]


def same(ours, theirs):
    return len(ours) == len(theirs) and all(map(torch.equal, ours, theirs))


def forwards(model):
    return {name: vars(module).get("forward") for name, module in model.named_modules()}


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_a_model_of_hugging_face_keeps_its_bits_and_loses_memory(kind):
    model, sample = language_model(kind)
    before = gradients(model, lambda model: model(**sample).loss)
    forwards_before, cache_before = forwards(model), getattr(model.config, "use_cache", None)
    outcome = checkpoint_model(model, sample)
    assert outcome.applied and outcome.identical, outcome.reason
    assert outcome.peak_after_bytes < outcome.peak_before_bytes
    assert outcome.saved_bytes == outcome.peak_before_bytes - outcome.peak_after_bytes > 0
    assert same(before, gradients(model, lambda model: model(**sample).loss))
    assert forwards(model) != forwards_before
    outcome.undo()
    assert forwards(model) == forwards_before
    assert getattr(model.config, "use_cache", None) == cache_before
    assert same(before, gradients(model, lambda model: model(**sample).loss))
    assert outcome.saved_bytes == 0 and str(outcome) == "no checkpoints: undone"


def test_nested_segments_keep_their_bits_and_save_more():
    model, x = stack(), torch.randn(64, 32)
    before = gradients(model, lambda model: model(x).square().mean())
    peaks = [measure_step(Trial(model, x), timed=False).peak_bytes]
    for units in (SEGMENTS, [(0, 6, [(0, 3, [(0, 1, [0, 1]), 2, 3]), (4, 5, [4, 5]), 6]), 7]):
        take_off = put_on(list(model.blocks), units, gives_tuple=False)
        assert same(before, gradients(model, lambda model: model(x).square().mean()))
        model.zero_grad(set_to_none=True)
        peaks.append(measure_step(Trial(model, x), timed=False).peak_bytes)
        take_off()
    assert peaks[0] > peaks[1] > peaks[2]


@pytest.mark.parametrize("samples", [16, 64, 512])
def test_foretold_peaks_are_those_of_a_step(samples):
    model, x = stack(), torch.randn(samples, 32)
    plans = checkpoint_plans(model, x)
    plain = measure_step(Trial(model, x), timed=False).peak_bytes
    assert plans[-1][0] == pytest.approx(plain, rel=0.02)
    leanest = checkpoint_model(model, x, budget_bytes=1000)
    assert plans[0][0] == pytest.approx(leanest.peak_after_bytes, rel=0.02)
    for budget, _ in plans[:-1:4]:
        outcome = checkpoint_model(model, x, budget_bytes=budget)
        assert outcome.predicted_peak_bytes == pytest.approx(outcome.peak_after_bytes, rel=0.02)
        outcome.undo()


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_foretold_peaks_of_language_models_are_near(kind):
    model, sample = language_model(kind)
    plans = checkpoint_plans(model, sample)
    assert plans[-1][0] == pytest.approx(measure_step(Trial(model, sample), timed=False).peak_bytes, rel=0.05)
    leanest = checkpoint_model(model, sample, budget_bytes=1000)
    assert plans[0][0] == pytest.approx(leanest.peak_after_bytes, rel=0.05)


def test_every_budget_of_the_curve_is_kept():
    model, x = stack(), torch.randn(64, 32)
    before = gradients(model, lambda model: model(x).square().mean())
    points = checkpoint_plans(model, x)
    assert len(points) > 4 and points == sorted(points)
    shapes = set()
    for budget, _ in points[:: max(1, len(points) // 6)]:
        outcome = checkpoint_model(model, x, budget_bytes=budget)
        if outcome.applied:
            assert outcome.peak_after_bytes <= budget
            assert same(before, gradients(model, lambda model: model(x).square().mean()))
            shapes |= {unit[1] - unit[0] for unit in outcome.units if isinstance(unit, tuple)}
            outcome.undo()
        else:
            assert outcome.peak_before_bytes <= budget, outcome.reason
    assert max(shapes) > 0, "no plan had a segment of several blocks"


def test_the_reported_peak_is_that_of_a_step():
    model, x = stack(), torch.randn(64, 32)
    outcome = checkpoint_model(model, x)
    meter = TensorMeter()
    meter.adopt(list(model.parameters()), x)
    with meter:
        model(x).square().mean().backward()
    assert meter.peak == outcome.peak_after_bytes


def test_nothing_of_the_trial_stays_behind():
    model, x = stack(), torch.randn(64, 32)
    model(x).sum().backward()
    gradients_before = [parameter.grad for parameter in model.parameters()]
    values_before = [parameter.grad.clone() for parameter in model.parameters()]
    state = torch.get_rng_state()
    checkpoint_model(model, x)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is earlier for parameter, earlier in zip(model.parameters(), gradients_before, strict=True))
    assert all(map(torch.equal, gradients_before, values_before))


def test_a_checkpointed_model_is_copied_pickled_and_evaluated():
    model, x = stack(), torch.randn(64, 32)
    outcome = checkpoint_model(model, x)
    before = gradients(model, lambda model: model(x).square().mean())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert same(before, gradients(other, lambda model: model(x).square().mean()))
    model.eval()
    with torch.no_grad():
        with_plan = model(x)
        outcome.undo()
        assert torch.equal(with_plan, model(x))


def test_a_hook_on_a_block_sees_its_own_output():
    model, x = stack(), torch.randn(64, 32)
    take_off = put_on(list(model.blocks), SEGMENTS, gives_tuple=False)
    seen = []
    handles = [block.register_forward_hook(lambda _module, _args, output: seen.append(output.detach())) for block in model.blocks]
    model.eval()
    expected = model(x)
    with_plan, seen[:] = list(seen), []
    for handle in handles:
        handle.remove()
    take_off()
    hidden = model.first(x)
    for block, output in zip(model.blocks, with_plan, strict=True):
        hidden = block(hidden)
        assert torch.equal(hidden, output)
    assert torch.equal(model.head(hidden), expected)


def test_hidden_states_are_those_of_each_block():
    model, sample = language_model("llama")
    model.eval()
    expected = model(**sample, output_hidden_states=True).hidden_states
    outcome = checkpoint_model(model, sample)
    states = model(**sample, output_hidden_states=True).hidden_states
    assert outcome.applied and len(states) == len(expected)
    assert all(map(torch.equal, states, expected))


def test_generation_uses_its_cache_as_before():
    model, sample = language_model("gpt2")
    prompt = sample["input_ids"][:, :8]
    model.eval()
    expected = model.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0)
    model.train()
    assert checkpoint_model(model, sample).applied
    model.eval()
    assert torch.equal(model.generate(prompt, max_new_tokens=4, do_sample=False, pad_token_id=0), expected)


class WithBatchNorm(Block):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(32)

    def forward(self, x):
        return self.norm(super().forward(x))


class InPlace(Block):
    def forward(self, x):
        x.add_(1.0)
        return super().forward(x)


class Counting(Block):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


class OwnGenerator(Block):
    def __init__(self):
        super().__init__()
        self.generator = torch.Generator()


class Buffered(Block):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(32))

    def forward(self, x):
        self.mean.lerp_(x.detach().mean(0), 0.1)
        return super().forward(x)


class Drifting(Block):
    """Draws from a generator that nobody restores: recomputation sees another mask."""

    generator = torch.Generator().manual_seed(3)

    def forward(self, x):
        return super().forward(x) * torch.rand(x.shape, generator=Drifting.generator)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (WithBatchNorm, "batch normalization"),
        (InPlace, "changes its input in place"),
        (Counting, "changes its own calls"),
        (OwnGenerator, "random generator of its own"),
        (Buffered, "changes its own mean"),
    ],
)
def test_blocks_that_cannot_run_twice_are_refused(kind, reason):
    model = Stack([kind() for _ in range(4)])
    before = forwards(model)
    attributes = [dict(vars(module)) for module in model.modules()]
    values = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    outcome = checkpoint_model(model, torch.randn(16, 32))
    assert not outcome.applied and reason in outcome.reason
    assert forwards(model) == before
    assert [vars(module) for module in model.modules()] == attributes
    assert all(torch.equal(tensor, values[name]) for name, tensor in model.state_dict().items())


def test_what_a_trial_changes_in_a_module_is_put_back():
    class Remembering(Block):
        def __init__(self):
            super().__init__()
            self.k, self.seen = 0, []
            self.register_buffer("mean", torch.zeros(32))

        def forward(self, x):
            self.k += 1
            self.seen.append(self.k)
            self.newest = self.k
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
            return super().forward(x)

    model = Stack([Remembering() for _ in range(4)])
    lists, means = [block.seen for block in model.blocks], [block.mean for block in model.blocks]
    assert not checkpoint_model(model, torch.randn(16, 32)).applied
    for block, seen, mean in zip(model.blocks, lists, means, strict=True):
        assert block.k == 0 and block.seen is seen and seen == [] and not hasattr(block, "newest")
        assert block.mean is mean and not mean.any()


def test_what_verification_finds_is_taken_back():
    model = Stack([Drifting() for _ in range(4)])
    outcome = checkpoint_model(model, torch.randn(256, 32))
    assert not outcome.applied and "reverted" in outcome.reason
    assert not any(forwards(model).values())


class Noisy(Block):
    """Differs from run to run by rounding, as kernels do that add up in any order."""

    generator = torch.Generator().manual_seed(3)

    def forward(self, x):
        return super().forward(x) * (1 + 1e-6 * torch.rand(x.shape, generator=Noisy.generator))


def test_a_model_that_differs_from_itself_by_rounding_may_do_so_with_checkpoints():
    model = Stack([Noisy() for _ in range(4)])
    outcome = checkpoint_model(model, torch.randn(256, 32))
    assert outcome.applied and not outcome.identical, outcome.reason
    assert "as near as two runs of the model itself" in str(outcome)


def test_what_is_checkpointed_already_is_refused():
    model, sample = language_model("gpt2")
    model.gradient_checkpointing_enable()
    assert "checkpointed already" in checkpoint_model(model, sample).reason
    model.gradient_checkpointing_disable()
    assert checkpoint_model(model, sample).applied
    assert "checkpointed already" in checkpoint_model(model, sample).reason


def test_a_model_without_blocks_or_with_shared_ones_is_refused():
    assert "no ModuleList" in checkpoint_model(nn.Linear(4, 4), torch.randn(2, 4)).reason
    block = Block()
    assert "no ModuleList" in checkpoint_model(Stack([block] * 4), torch.randn(2, 32)).reason


def test_blocks_that_are_called_twice_are_refused():
    class Twice(Stack):
        def forward(self, x):
            return super().forward(x) + super().forward(x)

    outcome = checkpoint_model(Twice([Block() for _ in range(3)]), torch.randn(16, 32))
    assert "called 2 times" in outcome.reason


def test_code_between_blocks_allows_only_segments_of_one():
    class Shifted(Stack):
        def forward(self, x):
            for number, block in enumerate(self.blocks):
                x = block(x, scale=1.0 + number) + 1.0
            return self.head(x)

    model, x = Shifted([Block() for _ in range(8)]), torch.randn(64, 32)
    before = gradients(model, lambda model: model(x).square().mean())
    outcome = checkpoint_model(model, x)
    assert outcome.applied, outcome.reason
    assert all(unit[0] == unit[1] for unit in outcome.units if isinstance(unit, tuple))
    assert same(before, gradients(model, lambda model: model(x).square().mean()))


def test_a_segment_that_is_called_otherwise_than_the_sample_says_so():
    class Switch(Stack):
        shift = 0.0

        def forward(self, x):
            for block in self.blocks:
                x = block(x) if not self.shift else block(x + self.shift)
            return self.head(x)

    model, x = Switch([Block() for _ in range(8)]), torch.randn(64, 32)
    put_on(list(model.blocks), SEGMENTS, gives_tuple=False)
    model.shift = 1.0
    with pytest.raises(RuntimeError, match="called with other arguments than the sample"):
        model(x)
    model.shift = 0.0
    model(x).sum().backward()


def test_budgets_too_small_are_refused_with_the_least():
    model, x = stack(), torch.randn(64, 32)
    least = checkpoint_model(model, x, budget_bytes=checkpoint_plans(model, x)[0][0])
    least.undo()
    outcome = checkpoint_model(model, x, budget_bytes=1000)
    assert not outcome.applied and "the budget of 1000 B is too small" in outcome.reason
    assert f"takes {in_bytes(outcome.peak_after_bytes)}" in outcome.reason
    assert outcome.peak_after_bytes <= least.peak_after_bytes
    assert not any(forwards(model).values())
    with pytest.raises(ValueError, match="budget_bytes must be positive"):
        checkpoint_model(model, x, budget_bytes=0)


def test_a_step_that_does_not_fit_by_itself_is_told():
    model, x = stack(), torch.randn(64, 32)
    model(x).sum().backward()
    kept = [parameter.grad for parameter in model.parameters()]
    with TensorMeter(limit_bytes=500_000):
        outcome = checkpoint_model(model, x)
    assert not outcome.applied and "pass a smaller sample" in outcome.reason
    assert not any(forwards(model).values())
    assert all(parameter.grad is gradient for parameter, gradient in zip(model.parameters(), kept, strict=True))


def test_a_budget_with_room_for_everything_changes_nothing():
    model, x = stack(), torch.randn(64, 32)
    outcome = checkpoint_model(model, x, budget_bytes=1 << 40)
    assert not outcome.applied and re.fullmatch(r"a step takes [\d.]+ [KM]iB, which fits into the budget of 1\.0 TiB", outcome.reason), outcome.reason


def test_a_step_is_measured_without_the_rest_of_the_program():
    model, x = stack(2), torch.randn(64, 32)
    optimizer = torch.optim.AdamW(model.parameters())
    alone = measure_step(Trial(model, x), timed=False).peak_bytes
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    held = measure_step(Trial(model, x, optimizer=optimizer), timed=False).peak_bytes
    state = sum(tensor.numel() * tensor.element_size() for entry in optimizer.state.values() for tensor in entry.values())
    assert held == alone + state


def test_blocks_that_keep_no_more_than_checkpoints_say_so_without_a_budget():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(16, 16) for _ in range(4)])

        def forward(self, hidden):
            for block in self.blocks:
                hidden = block(hidden).relu()
            return hidden

    outcome = checkpoint_model(Layers(), torch.randn(64, 16))
    assert not outcome.applied and outcome.reason == "no plan takes less: the blocks keep no more than their checkpoints would"
