"""Estimates of a step's memory against what steps really take."""

import pytest
import torch
from tiny import language_model
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, T5Config, T5ForConditionalGeneration

from nilometer.optimize import TensorMeter, estimate_memory_requirements


def mlp():
    return nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 8))


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(200, 48)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(48, 4, 96, batch_first=True, dropout=0.1), 3, enable_nested_tensor=False)
        self.head = nn.Linear(48, 200)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))


def trained_peak_mb(model, make_batch, loss):
    """The peak of the second step of a real training with AdamW, counted tensor by tensor."""
    optimizer = torch.optim.AdamW(model.parameters())
    meter = TensorMeter()
    meter.adopt(list(model.parameters()), list(model.buffers()))
    with meter:
        for _ in range(2):
            batch = make_batch()
            meter.reset_peak()
            loss(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            del batch
    return meter.peak / 2**20


CASES = {
    "small batch": (mlp, None, 96, lambda: torch.randn(96, 64), lambda model, x: model(x).square().mean()),
    "mlp": (mlp, None, 4000, lambda: torch.randn(4000, 64), lambda model, x: model(x).square().mean()),
    "encoder": (Tokens, 32, 24, lambda: torch.randint(0, 200, (24, 32)), lambda model, ids: model(ids).square().mean()),
    "language model": (
        language_model,
        48,
        20,
        lambda: torch.randint(0, 100, (20, 48)),
        lambda model, ids: model(input_ids=ids, labels=ids).loss,
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("probe_mb", [256.0, 0.1])
def test_an_estimate_is_within_five_percent_of_the_peak(name, probe_mb):
    make, seq_len, batch, make_batch, loss = CASES[name]
    torch.manual_seed(1)
    model = make()
    figures = estimate_memory_requirements(model, batch, seq_len, probe_mb=probe_mb)
    expected = ("measured", f"{batch} samples") if probe_mb > 100 else ("extrapolated", "with 2 and 4 samples")
    assert figures["method"] == expected[0] and expected[1] in figures["explanation"], figures
    assert figures["total_mb"] == pytest.approx(trained_peak_mb(model, make_batch, loss), rel=0.05)
    parts = [figures[f"{part}_mb"] for part in ("weights", "gradients", "optimizer")]
    at_last = max(figures["activations_mb"], figures["optimizer_step_mb"])
    assert figures["total_mb"] == pytest.approx(sum(parts) + at_last, abs=0.01) and all(part > 0 for part in parts)


def test_an_estimate_leaves_the_model_as_it_was():
    model = language_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    estimate_memory_requirements(model, 4, 16)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters()) and torch.equal(state, torch.get_rng_state())


def test_a_model_that_cannot_be_run_is_estimated_by_arithmetic_and_says_so():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1000))

        def forward(self, left, right):
            return left * self.weight + right

    figures = estimate_memory_requirements(Odd(), 8, 32)
    assert figures["method"] == "arithmetic" and "it does not declare what inputs it takes" in figures["explanation"]
    assert figures["activations_mb"] == 0 and figures["total_mb"] == pytest.approx(6 * figures["weights_mb"], rel=0.01)
    given = estimate_memory_requirements(Odd(), 8, sample=(torch.ones(1, 1000), torch.ones(1, 1000)))
    assert given["method"] == "measured" and given["activations_mb"] > 0


def test_optimizers_by_name_and_by_their_state():
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    with pytest.raises(ValueError, match="has no state yet"):
        estimate_memory_requirements(model, 2, optimizer=optimizer)
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    by_state = estimate_memory_requirements(model, 2, optimizer=optimizer)["optimizer_mb"]
    assert by_state == pytest.approx(estimate_memory_requirements(model, 2)["optimizer_mb"], rel=0.001)
    assert estimate_memory_requirements(model, 2, optimizer="sgd")["optimizer_mb"] == 0
    with pytest.raises(ValueError, match="optimizer must be one of adamw"):
        estimate_memory_requirements(model, 2, optimizer="adamax")


class Positions(nn.Module):
    """A model of nobody's library: tokens and a table of positions."""

    def __init__(self, longest):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 16), nn.Embedding(longest, 16)

    def forward(self, ids):
        return self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))


def test_a_length_beyond_the_positions_of_a_model_is_refused_with_the_longest_that_it_takes():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=2))
    with pytest.raises(ValueError, match=r"seq_len is 128, but the model takes at most 64 tokens \(max_position_embeddings"):
        estimate_memory_requirements(model, 2, 128)
    assert estimate_memory_requirements(model, 2, 64)["method"] == "measured"


def test_a_length_that_a_model_without_a_configuration_refuses_is_an_error_with_its_own_words():
    with pytest.raises(ValueError, match=r"does not run with seq_len=128 \(IndexError: index out of range.*pass a length that it accepts"):
        estimate_memory_requirements(Positions(64), 2, 128)
    assert estimate_memory_requirements(Positions(64), 2, 64)["method"] == "measured"


def test_computed_positions_may_be_longer_than_the_configuration_names():
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64)
    figures = [estimate_memory_requirements(LlamaForCausalLM(config), 2, length) for length in (64, 128)]
    assert [one["method"] for one in figures] == ["measured", "measured"]
    assert figures[1]["activations_mb"] > 1.8 * figures[0]["activations_mb"]


def test_a_declared_input_is_run_in_the_length_that_was_asked_for():
    """Encoders with decoders do not run on tokens alone; their dummy inputs have five tokens."""
    torch.manual_seed(1)
    config = T5Config(vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    figures = [estimate_memory_requirements(model, 2, length) for length in (32, 256)]
    assert [one["method"] for one in figures] == ["measured", "measured"]
    assert figures[1]["activations_mb"] > 6 * figures[0]["activations_mb"]


def test_a_sample_of_another_length_than_seq_len_is_refused():
    model = language_model()
    ids = torch.zeros(1, 5, dtype=torch.long)
    with pytest.raises(ValueError, match="seq_len is 32, but no tensor of the sample has that length"):
        estimate_memory_requirements(model, 2, 32, sample={"input_ids": ids})
    assert estimate_memory_requirements(model, 2, 5, sample={"input_ids": ids})["seq_len"] == 5


def test_a_model_that_takes_no_sequences_says_so_when_it_is_given_a_length():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 16)

        def forward(self, rows):
            assert rows.dim() == 2, "rows of features only"
            return self.layer(rows)

    with pytest.raises(ValueError, match=r"does not run with seq_len=32 \(AssertionError: rows of features only\), but without seq_len"):
        estimate_memory_requirements(Flat(), 2, 32)
    assert estimate_memory_requirements(Flat(), 2)["method"] == "measured"
