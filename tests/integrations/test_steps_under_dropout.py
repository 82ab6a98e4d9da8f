"""Steps on models with dropout, under autocast, and steps that raise: results are compared fairly, and the model is as it was."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from transformers import GPT2Config, GPT2LMHeadModel

from nilometer import optimize
from nilometer.optimize.model.steps import AUTOCAST, CHECKPOINTS, CHUNKED_LOSS, SDPA, ModelStep, Tier
from nilometer.optimize.measuring.without_dropout import WithoutDropout

# What a step costs is not the question here.
apply_steps = functools.partial(optimize.apply_steps, keep_all=True)


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(functional.gelu(self.up(self.norm(x)))))


class Stack(nn.Module):
    def __init__(self, blocks, width=32):
        super().__init__()
        self.first = nn.Linear(8, width)
        self.blocks = nn.ModuleList(blocks)
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def encoder(layers=4):
    torch.manual_seed(2)
    blocks = [nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True, norm_first=True) for _ in range(layers)]
    return Stack(blocks), torch.randn(8, 24, 8)


def gpt2(**dropout):
    torch.manual_seed(1)
    rates = {"attn_pdrop": 0.1, "resid_pdrop": 0.1, "embd_pdrop": 0.1} | dropout
    config = GPT2Config(vocab_size=500, n_positions=64, n_embd=32, n_layer=3, n_head=2, bos_token_id=1, eos_token_id=1, **rates)
    config._attn_implementation = "eager"
    ids = torch.randint(0, 500, (4, 48))
    return GPT2LMHeadModel(config).train(), {"input_ids": ids, "labels": ids}


def look(model):
    """Everything about a model that a step could leave changed."""
    return [
        (
            name,
            {key: value for key, value in vars(module).items() if not key.startswith("_")},
            {key: list(value) for key, value in vars(module).items() if key.startswith("_") and isinstance(value, dict)},
        )
        for name, module in model.named_modules()
    ], [(name, tensor.dtype, tensor.data_ptr(), tensor.requires_grad) for name, tensor in model.state_dict(keep_vars=True).items()]


@pytest.mark.parametrize("make", [lambda: (Stack([Block() for _ in range(4)]), torch.randn(512, 8)), encoder])
def test_checkpoints_are_planned_under_the_autocast_of_the_model(make):
    model, x = make()
    before = look(model)
    outcomes = {outcome.name: outcome for outcome in apply_steps(model, x, tolerance=True)}
    assert outcomes[AUTOCAST.name].applied, outcomes[AUTOCAST.name].reason
    assert outcomes[CHECKPOINTS.name].applied, outcomes[CHECKPOINTS.name].reason
    model(x).sum().backward()
    model.zero_grad(set_to_none=True)
    for outcome in reversed(outcomes.values()):
        outcome.undo()
    assert look(model) == before


def test_fused_attention_is_compared_without_dropout():
    model, sample = gpt2()
    (outcome,) = apply_steps(model, sample, steps=[SDPA])
    assert "compared without dropout" in outcome.reason
    assert outcome.loss_error < 1e-5 and outcome.gradient_cosine > 0.99999


def other_kernel(trial):
    """The same function in less memory; dropout draws other numbers, as fused attention does on a GPU."""
    for block in trial.model.blocks:

        def forward(x, block=block):
            torch.rand(1)
            return checkpoint(type(block).forward, block, x, use_reentrant=False)

        block.forward = forward
    return lambda: [vars(block).pop("forward") for block in trial.model.blocks]


def test_a_kernel_that_draws_other_numbers_is_kept():
    model, x = Stack([Block() for _ in range(4)]), torch.randn(512, 8)
    (outcome,) = apply_steps(model, x, steps=[ModelStep("kernel", Tier.SAFE, other_kernel, redraws=True)])
    assert outcome.applied and outcome.reason == "compared without dropout" and outcome.loss_error == 0
    outcome.undo()
    (differing,) = apply_steps(model, x, steps=[ModelStep("kernel", Tier.SAFE, other_kernel)])
    assert not differing.applied and "the loss differs" in differing.reason


def test_autocast_and_chunks_are_kept_with_dropout():
    model, sample = gpt2()
    outcomes = apply_steps(model, sample, tolerance=True, steps=[CHUNKED_LOSS, AUTOCAST])
    assert [outcome.applied for outcome in outcomes] == [True, True], outcomes
    assert all(outcome.reason == "compared without dropout" for outcome in outcomes)
    assert outcomes[1].loss_error < 1e-3
    without = gpt2(attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0)[0]
    assert apply_steps(without, sample, tolerance=True, steps=[AUTOCAST])[0].reason == ""


def test_a_step_that_changes_the_results_is_seen_without_dropout():
    def scale(trial):
        model = trial.model
        head, model.head = model.head, nn.Sequential(model.head, nn.Flatten(0))
        head.weight.data.mul_(1.5)

        def undo():
            head.weight.data.div_(1.5)
            model.head = head

        return undo

    (outcome,) = apply_steps(encoder()[0], encoder()[1], steps=[ModelStep("scale", Tier.SAFE, scale, redraws=True)])
    assert not outcome.applied and "the loss differs" in outcome.reason and "compared without dropout" in outcome.reason


def recurrent(kind, packed=False):
    layer = kind(8, 16, num_layers=2, dropout=0.5, batch_first=True).train()
    x = torch.randn(3, 5, 8)
    return layer, nn.utils.rnn.pack_padded_sequence(x, [5, 4, 2], batch_first=True) if packed else x


@pytest.mark.parametrize(
    "make",
    [
        lambda: (nn.Dropout(0.5), torch.ones(100)),
        lambda: (nn.Dropout2d(0.5), torch.ones(2, 8, 4, 4)),
        lambda: (nn.AlphaDropout(0.5), torch.ones(100)),
        lambda: (nn.FeatureAlphaDropout(0.5), torch.ones(2, 8, 4)),
        lambda: (encoder(1)[0].blocks[0], torch.randn(2, 6, 32)),
        lambda: (nn.TransformerDecoderLayer(16, 2, 32, dropout=0.5), (torch.randn(5, 2, 16), torch.randn(5, 2, 16))),
        lambda: recurrent(nn.LSTM),
        lambda: recurrent(nn.GRU),
        lambda: recurrent(nn.RNN, packed=True),
        lambda: recurrent(nn.LSTM, packed=True),
    ],
)
def test_dropout_is_switched_off_wherever_it_is(make):
    module, given = make()
    inputs = given if isinstance(given, tuple) and not hasattr(given, "batch_sizes") else (given,)
    expected = module.eval()(*inputs)
    module.train()
    state = torch.get_rng_state()
    with WithoutDropout() as without:
        found = module(*inputs)
    assert without.found and torch.equal(torch.get_rng_state(), state)
    for ours, theirs in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(ours, theirs)
    with WithoutDropout() as without:
        nn.Linear(4, 4)(torch.ones(2, 4))
    assert not without.found


def broken(trial):
    """Changes all that can be changed, and gives up."""
    model = trial.model
    model.forward = lambda x: x
    model.blocks[0].register_forward_hook(lambda *_: None)
    model.blocks[1] = nn.Identity()
    model.head.bfloat16()
    model.first.weight.requires_grad_(False)
    model.first.note = "changed"
    model.eval()
    raise ValueError("gave up")


def test_a_step_that_raises_leaves_the_model_as_it_was():
    model, x = Stack([Block() for _ in range(4)]), torch.randn(64, 8)
    model.blocks[2].register_forward_hook(lambda *_: None)
    before = look(model)
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    outcomes = apply_steps(model, x, steps=[ModelStep("broken", Tier.SAFE, broken), CHECKPOINTS])
    assert outcomes[0].reason == "reverted: ValueError: gave up" and outcomes[1].applied, outcomes
    outcomes[1].undo()
    assert look(model) == before
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.state_dict().items())


def test_an_interrupted_program_has_its_model_back():
    def interrupt(_trial):
        raise KeyboardInterrupt

    model, x = Stack([Block() for _ in range(4)]), torch.randn(512, 8)
    before = look(model)
    with pytest.raises(KeyboardInterrupt):
        apply_steps(model, x, tolerance=True, steps=[AUTOCAST, CHECKPOINTS, ModelStep("interrupt", Tier.SAFE, interrupt)])
    assert look(model) == before


def test_a_budget_is_met_with_as_few_checkpoints_as_it_needs():
    model, x = Stack([Block() for _ in range(8)]), torch.randn(512, 8)
    (all_of_it,) = apply_steps(model, x, steps=[CHECKPOINTS])
    all_of_it.undo()
    plain, halved = all_of_it.peak_before_bytes, all_of_it.peak_after_bytes
    budget = plain - (plain - halved) // 3
    (some,) = apply_steps(model, x, steps=[CHECKPOINTS], budget_bytes=budget)
    assert some.applied and halved < some.peak_after_bytes <= budget
    some.undo()
    (none,) = apply_steps(model, x, steps=[CHECKPOINTS], budget_bytes=plain)
    assert not none.applied and "fits into the budget" in none.reason
    autocast, left_out = apply_steps(model, x, tolerance=True, steps=[AUTOCAST, CHECKPOINTS], budget_bytes=plain - 1000)
    assert autocast.applied and not left_out.applied and "fits into the budget" in left_out.reason
    with pytest.raises(ValueError, match="budget_bytes must be positive"):
        apply_steps(model, x, budget_bytes=0)


def test_the_examples_are_right():
    import doctest

    from nilometer.optimize.measuring import without_dropout

    found = doctest.testmod(without_dropout)
    assert found.attempted > 0 and found.failed == 0
