"""Steps that survive running out of memory: the same samples, the same gradients, the sizes that were promised."""

import gc
import warnings
import weakref

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import nilometer
from nilometer import NilometerWarning
from nilometer.optimize import AdaptiveBatches, NoBatchFits, TensorMeter, TokenBudgetBatches, language_model_loss_sum
from nilometer.optimize.measuring.oom_recovery import attempt, is_out_of_memory, release


def mlp(dropout=0.0):
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Dropout(dropout), nn.Linear(256, 1))


def squares(model, batch):
    return model(batch).square().sum()


def batches(model, **options):
    settings = {"micro_batch": 64, "grow_after": 3, "retry_after": 8} | options
    return AdaptiveBatches(model, torch.optim.SGD(model.parameters(), lr=0.01), squares, **settings)


def limited(model, limit_bytes):
    meter = TensorMeter(limit_bytes=limit_bytes)
    meter.adopt(list(model.parameters()))
    return meter


def step_bytes(size, samples=64):
    """What a step in micro-batches of this size takes, measured."""
    model, x = mlp(), torch.randn(samples, 16)
    meter = limited(model, None)
    with meter:
        batches(model, micro_batch=size, maximum=size, meter=meter).step(x)
    return meter.peak


def hugging_face_model(kind):
    torch.manual_seed(3)
    if kind == "gpt2":
        config = GPT2Config(
            vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
        )
        return GPT2LMHeadModel(config)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**sizes))
    return BertForMaskedLM(BertConfig(**sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))


@pytest.mark.parametrize("lengths", ["full", "padded", "prompts"])
@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_micro_batches_have_the_loss_and_gradient_of_the_model_itself(kind, lengths):
    model = hugging_face_model(kind)
    ids = torch.randint(2, 64, (7, 16))
    labels = ids.clone()
    if lengths == "padded":
        for row, length in enumerate([3, 16, 7, 1, 11, 2, 9]):
            labels[row, length:] = -100
    elif lengths == "prompts":
        # No row has a first label: whether it would count cannot be seen in these.
        labels[:, :5] = -100
    batch = {"input_ids": ids, "labels": labels}
    loss = model(**batch).loss
    loss.backward()
    whole = [parameter.grad.clone() for parameter in model.parameters()]
    seen = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer.register_step_pre_hook(lambda *_: seen.append([parameter.grad.clone() for parameter in model.parameters()]))
    for size in (1, 2, 3, 7):
        done = AdaptiveBatches(model, optimizer, language_model_loss_sum, micro_batch=size).step(batch)
        assert done.loss == pytest.approx(loss.item(), rel=1e-6), size
        apart = sum((ours - theirs).square().sum() for ours, theirs in zip(seen[-1], whole, strict=True)).sqrt()
        norm = sum(gradient.square().sum() for gradient in whole).sqrt()
        assert float(apart / norm) < 1e-6, size


def test_a_model_is_asked_once_how_it_counts_and_stays_as_it_was():
    model = hugging_face_model("bert").train()
    model.bert.embeddings.dropout.p = 0.1
    batch = {"input_ids": torch.randint(2, 64, (4, 8)), "labels": torch.randint(2, 64, (4, 8))}
    calls = []
    model.register_forward_pre_hook(lambda *_: calls.append(1))
    state = torch.get_rng_state()
    assert [language_model_loss_sum.count(model, batch) for _ in range(3)] == [32, 32, 32]
    assert len(calls) == 1 and torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in model.modules())
    # A wrapper has another name, and the loss of what it wraps.
    assert language_model_loss_sum.count(torch.compile(hugging_face_model("llama"), backend="eager"), batch) == 28


def test_a_step_that_runs_out_is_run_again_in_halves():
    model, x = mlp(), torch.randn(64, 16)
    expected = mlp()
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.01)
    (squares(expected, x) / 64).backward()
    optimizer.step()
    meter = limited(model, (step_bytes(16) + step_bytes(32)) // 2)
    with meter:
        adaptive = batches(model, meter=meter)
        done = adaptive.step(x)
    assert (done.micro_batch, done.retries, adaptive.ooms) == (16, 2, 2)
    for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)
    assert done.loss == pytest.approx(float(squares(mlp(), x).detach()) / 64)


def test_the_random_state_of_the_retried_samples_is_the_same():
    x = torch.randn(64, 16)
    results = []
    for micro_batch, limit in ((16, None), (64, (step_bytes(16) + step_bytes(32)) // 2)):
        model = mlp(dropout=0.3)
        meter = limited(model, limit)
        torch.manual_seed(9)
        with meter:
            done = batches(model, micro_batch=micro_batch, meter=meter).step(x)
        assert done.micro_batch == 16
        results.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(map(torch.equal, *results))


def test_a_small_last_batch_is_halved_by_its_own_size():
    model = mlp()
    meter = limited(model, (step_bytes(64, 128) + step_bytes(128, 128)) // 2)
    with meter:
        done = batches(model, micro_batch=4096, meter=meter).step(torch.randn(128, 16))
    assert (done.micro_batch, done.retries) == (64, 1)


def test_the_size_grows_again_but_not_to_one_that_failed_lately():
    model, x = mlp(), torch.randn(64, 16)
    meter = limited(model, (step_bytes(24) + step_bytes(32)) // 2)
    sizes = []
    with meter:
        adaptive = batches(model, micro_batch=64, meter=meter, grow_after=2, retry_after=7)
        for number in range(12):
            if number == 5:
                meter.limit_bytes = 1 << 40
            sizes.append(adaptive.step(x).micro_batch)
    # 64 and 32 fail; 31 would fit in proportion only after the limit rose; 32 and more after seven steps.
    assert sizes[0] == 16 and adaptive.ooms == 2
    assert max(sizes[:7]) <= 31
    assert sizes[-1] in (62, 64)
    grown = [later for earlier, later in zip(sizes, sizes[1:], strict=False) if later > earlier]
    assert 31 in grown


def test_room_is_needed_to_grow():
    model, x = mlp(), torch.randn(64, 16)
    meter = limited(model, step_bytes(16) + 2000)
    with meter:
        adaptive = batches(model, micro_batch=16, meter=meter, grow_after=1)
        sizes = {adaptive.step(x).micro_batch for _ in range(6)}
    assert sizes == {16} and adaptive.ooms == 0


def test_no_size_avoids_it():
    model, x = mlp(), torch.randn(64, 16)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    meter = limited(model, step_bytes(4) - 1)
    with meter, pytest.raises(NoBatchFits, match="micro-batches of 4, and the minimum is 4"):
        batches(model, minimum=4, meter=meter).step(x)
    assert all(map(torch.equal, model.parameters(), before))
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_resumed_training_has_its_size():
    model, x = mlp(), torch.randn(64, 16)
    meter = limited(model, (step_bytes(16) + step_bytes(32)) // 2)
    with meter:
        adaptive = batches(model, meter=meter)
        adaptive.step(x)
        resumed = batches(model, meter=meter)
        resumed.load_state_dict(adaptive.state_dict())
        done = resumed.step(x)
    assert (done.micro_batch, done.retries, resumed.ooms) == (16, 0, 2)
    assert resumed.state_dict()["failed_size"] == 32
    small = batches(model, micro_batch=4, maximum=8)
    small.load_state_dict(adaptive.state_dict())
    assert small.micro_batch == 8


def test_batch_normalization_is_told_of_where_a_batch_is_split():
    def normalized():
        return nn.Sequential(nn.Linear(16, 4), nn.BatchNorm1d(4))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches(normalized(), micro_batch=8).step(torch.randn(8, 16))
        # It normalizes by what it has learned, however many samples there are.
        batches(normalized().eval(), micro_batch=4).step(torch.randn(8, 16))
    whole = batches(normalized(), micro_batch=4)
    with pytest.warns(NilometerWarning, match="batch normalization depends on the size of micro-batches") as told:
        whole.step(torch.randn(8, 16))
        whole.step(torch.randn(8, 16))
    assert len(told) == 1 and told[0].filename == __file__


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="below minimum"):
        batches(mlp(), micro_batch=1, minimum=2)
    for name in ("micro_batch", "minimum", "maximum", "grow_after", "retry_after"):
        for wrong in (2.5, 0, -1, True, "8", float("nan"), float("inf")):
            with pytest.raises(ValueError, match=f"{name} is .*; it must be a whole number, 1 or more"):
                batches(mlp(), **{name: wrong})
    assert batches(mlp(), micro_batch=4.0).micro_batch == 4
    for wrong in (0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="max_grad_norm must be positive"):
            batches(mlp(), max_grad_norm=wrong)
    with pytest.raises(ValueError, match="one first dimension"):
        batches(mlp()).step((torch.zeros(4, 16), torch.zeros(5)))
    with pytest.raises(ValueError, match="the batch is empty: it has no samples"):
        batches(mlp()).step(torch.zeros(0, 16))
    with pytest.raises(ValueError, match="the batch has no tensors"):
        batches(mlp()).step({"text": ["a"]})


def test_nothing_of_a_failed_step_is_held():
    held = []

    def step():
        tensor = torch.zeros(1000)
        held.append(weakref.ref(tensor))
        try:
            raise RuntimeError("CUDA error: out of memory")
        except RuntimeError as error:
            # A circle, as logging and retrying code makes them: the exception holds the frame, the frame the exception.
            kept = torch.OutOfMemoryError("again")
            raise kept from error

    gc.disable()
    try:
        tried = attempt(step)
        assert tried.oom == "again" and held[0]() is None
    finally:
        gc.enable()
    with pytest.raises(RuntimeError, match="shape"):
        attempt(lambda: (_ for _ in ()).throw(RuntimeError("shape mismatch")))
    model = nn.Linear(2, 2)
    model(torch.zeros(1, 2)).sum().backward()
    release(model, None)
    assert model.weight.grad is None


def test_errors_are_known_by_type_first():
    assert is_out_of_memory(torch.OutOfMemoryError("anything"))
    assert is_out_of_memory(RuntimeError("[enforce fail at alloc_cpu.cpp] . DefaultCPUAllocator: can't allocate memory"))
    assert is_out_of_memory(MemoryError())
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_token_batches_cover_every_sample_within_the_budget(world_size):
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(1, 200, (500,), generator=generator).tolist()
    ranks = [TokenBudgetBatches(lengths, max_tokens=1000, rank=rank, world_size=world_size, seed=3) for rank in range(world_size)]
    shares = [list(sampler) for sampler in ranks]
    assert len({len(share) for share in shares}) == 1 and len(shares[0]) == len(ranks[0])
    given = [index for share in shares for batch in share for index in batch]
    assert len(given) == len(set(given)) and len(given) >= 500 - 1000 * (world_size - 1)
    assert world_size > 1 or len(given) == 500
    for share in shares:
        for batch in share:
            assert max(lengths[index] for index in batch) * len(batch) <= 1000
    padded = sum(max(lengths[index] for index in batch) * len(batch) for share in shares for batch in share)
    assert sum(lengths[index] for index in given) > 0.9 * padded


def test_token_batches_differ_by_epoch_and_resume():
    lengths = list(range(1, 101))
    sampler = TokenBudgetBatches(lengths, max_tokens=300, max_batch=8)
    first = list(sampler)
    assert list(sampler) == first and max(map(len, first)) <= 8
    sampler.set_epoch(1)
    second = list(sampler)
    assert second != first
    stopped = iter(sampler)
    begun = [next(stopped) for _ in range(3)]
    resumed = TokenBudgetBatches(lengths, max_tokens=300, max_batch=8)
    resumed.load_state_dict(sampler.state_dict())
    assert begun + list(resumed) == second
    with pytest.raises(ValueError, match="a sample has 100 tokens"):
        TokenBudgetBatches(lengths, max_tokens=50)
    with pytest.raises(ValueError, match="rank 2 of 2"):
        TokenBudgetBatches(lengths, max_tokens=300, rank=2, world_size=2)
    with pytest.raises(ValueError, match="lengths is empty: there are no samples"):
        TokenBudgetBatches([], max_tokens=300)
    with pytest.raises(ValueError, match=r"max_tokens is 2.5; it must be a whole number, 1 or more"):
        TokenBudgetBatches([1], max_tokens=2.5)
    with pytest.raises(ValueError, match="4 ranks have 1 batches: some would have none"):
        TokenBudgetBatches([1, 2, 3], max_tokens=300, world_size=4)


def test_token_batches_drive_a_data_loader():
    lengths = [3, 9, 4, 8, 5]
    rows = [torch.ones(length) for length in lengths]
    loader = torch.utils.data.DataLoader(
        rows,
        batch_sampler=TokenBudgetBatches(lengths, max_tokens=18),
        collate_fn=lambda items: nn.utils.rnn.pad_sequence(items, batch_first=True),
    )
    shapes = [tuple(batch.shape) for batch in loader]
    assert len(loader) == len(shapes) and all(rows * longest <= 18 for rows, longest in shapes)


@pytest.mark.parametrize("module", ["batches.adaptive_batches", "batches.batch_growth", "batches.batch_size", "batches.memory_fit", "batches.micro_batches", "batches.token_batches", "measuring.oom_recovery"])
def test_the_examples_are_right(module):
    import doctest
    import importlib

    found = doctest.testmod(importlib.import_module(f"nilometer.optimize.{module}"))
    assert found.attempted > 0 and found.failed == 0


def test_sizes_are_in_the_run_without_moving_the_steps_of_the_program(recorded):
    model = mlp()
    nilometer.init(name="sizes")
    meter = limited(model, (step_bytes(16) + step_bytes(32)) // 2)
    with meter:
        adaptive = batches(model, meter=meter)
        for _ in range(3):
            nilometer.log({"loss": adaptive.step(torch.randn(64, 16)).loss})
    run = recorded()
    assert list(run.series("loss").step) == [0, 1, 2]
    assert list(run.series("batch/size").value) == [16] and list(run.series("batch/size").step) == [0]
    assert [str(mark) for mark in run.marks if "batch size 64 -> 32: out of memory with 64 samples" in str(mark)]


def test_sizes_of_a_program_that_logs_nothing_are_in_the_run_too(recorded):
    nilometer.init(name="silent")
    adaptive = batches(mlp(), maximum=64)
    for _ in range(12):
        adaptive.step(torch.randn(64, 16))
    assert list(recorded().series("batch/size").value) == [64]


def test_a_batch_that_is_no_mapping_and_a_state_of_something_else_are_refused_in_a_sentence():
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=20, n_positions=16))
    adaptive = AdaptiveBatches(model, torch.optim.SGD(model.parameters(), lr=0.1), language_model_loss_sum, micro_batch=4)
    with pytest.raises(TypeError, match='^a batch for a language model is a mapping such as .*, not Tensor$'):
        adaptive.step(torch.randint(0, 20, (4, 8)))
    for wrong in ({"x": 1}, None):
        with pytest.raises(ValueError, match="^this is not a state of AdaptiveBatches: it has no micro_batch, ooms, clean_steps, failed_size, steps_since_failure$"):
            adaptive.load_state_dict(wrong)
    adaptive.load_state_dict(adaptive.state_dict() | {"micro_batch": 2})
    assert adaptive.micro_batch == 2
