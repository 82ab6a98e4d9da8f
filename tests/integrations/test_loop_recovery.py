"""Loops of Hugging Face and Lightning go on after running out of memory, with the weights that they would have had."""

import gc
import warnings

import lightning
import pytest
import torch
from full_memory import Full, Module, language_model_within, three_steps, two_epochs
from tiny import Sentences, language_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import nilometer
from nilometer.optimize import GarbageCollector, NoBatchFits, recover_lightning, recover_trainer
from nilometer.optimize.batches.loop_recovery import BatchRecovery
from nilometer.optimize.measuring.oom_recovery import release


def trained_by_trainer(folder, *, most=None, accumulation=1, **options):
    full = Full(most or 1000)
    model = language_model_within(full)
    trainer = Trainer(model=model, args=three_steps(folder, accumulation), train_dataset=Sentences(64), **options)
    recovery = recover_trainer(trainer) if most else None
    trainer.train()
    return model, recovery, full


def mean_loss(outputs, labels, num_items_in_batch=None):
    """Ignores the number of items: a mean of the part."""
    logits = outputs.logits[:, :-1]
    return nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1))


class MeanLossTrainer(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return mean_loss(model(input_ids=inputs["input_ids"]), inputs["labels"])


def close(ours, theirs):
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_trainer_goes_on_with_the_same_weights(tmp_path, accumulation, recorded):
    theirs, _, _ = trained_by_trainer(tmp_path, accumulation=accumulation)
    nilometer.init(name="recovered")
    ours, recovery, full = trained_by_trainer(tmp_path, most=3, accumulation=accumulation)
    assert (recovery.ooms, recovery.micro_batch) == (2, 2)
    # Two passes of one sample tell how the loss is normalized.
    assert full.sizes.count(1) == 2
    sizes = [size for size in full.sizes if size > 1]
    assert sizes[:3] == [8, 4, 2] and set(sizes[2:]) == {2}
    close(ours, theirs)
    run = recorded()
    assert [float(size) for size in run.series("batch/size").value] == [4, 2]
    assert any("8 -> 4" in str(mark) for mark in run.marks)


def test_losses_that_are_means_are_weighted(tmp_path, monkeypatch):
    import test_loop_recovery as here

    monkeypatch.setattr(here, "Trainer", MeanLossTrainer)
    theirs, _, _ = here.trained_by_trainer(tmp_path, accumulation=2)
    ours, recovery, _ = here.trained_by_trainer(tmp_path, most=3, accumulation=2)
    assert recovery.ooms == 2
    close(ours, theirs)


def test_a_loss_function_that_ignores_the_number_of_items_is_weighted(tmp_path):
    plain, _, _ = trained_by_trainer(tmp_path / "plain", compute_loss_func=mean_loss)
    ours, recovery, full = trained_by_trainer(tmp_path / "ours", most=3, compute_loss_func=mean_loss)
    assert recovery.ooms > 0 and max(full.sizes) == 8
    close(ours, plain)


class Classified(torch.utils.data.Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, number):
        ids = torch.arange(12).roll(number) + 1
        return {"input_ids": ids, "attention_mask": torch.ones(12, dtype=torch.long), "labels": torch.tensor(number % 3)}


def classified(folder, *, most=None):
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=3,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    full = Full(most or 1000)
    model.register_forward_hook(lambda _module, _args, kwargs, _output: full(len(kwargs["input_ids"])), with_kwargs=True)
    arguments = TrainingArguments(
        output_dir=str(folder), per_device_train_batch_size=8, max_steps=3, learning_rate=0.1, optim="sgd", report_to=[],
        disable_tqdm=True, save_strategy="no", use_cpu=True, logging_steps=1,
    )  # fmt: skip
    trainer = Trainer(model=model, args=arguments, train_dataset=Classified())
    recovery = recover_trainer(trainer) if most else None
    trainer.train()
    return model, [entry["loss"] for entry in trainer.state.log_history if "loss" in entry], recovery


def test_a_model_that_ignores_the_number_of_items_is_weighted(tmp_path):
    plain, losses, _ = classified(tmp_path / "plain")
    for most in (4, 3):
        ours, our_losses, recovery = classified(tmp_path / f"ours{most}", most=most)
        assert recovery.ooms > 0 and our_losses == pytest.approx(losses, rel=1e-4)
        close(ours, plain)


def test_memory_that_nothing_fits_into_ends_the_training(tmp_path):
    with pytest.raises(NoBatchFits, match="the minimum is 1"):
        trained_by_trainer(tmp_path, most=0.5)


def fitted(module, *, accumulation=1, prepare=None):
    torch.manual_seed(9)
    dataset = TensorDataset(torch.randn(40, 8), torch.randn(40, 1))
    trainer = two_epochs(accumulation)
    recovery = prepare(module) if prepare else None
    trainer.fit(module, DataLoader(dataset, batch_size=10))
    return recovery, trainer


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("as_dict", [False, True])
def test_lightning_goes_on_with_the_same_weights(accumulation, as_dict):
    theirs, ours = Module(), Module(Full(4), as_dict)
    fitted(theirs, accumulation=accumulation)
    recovery, trainer = fitted(ours, accumulation=accumulation, prepare=recover_lightning)
    assert (recovery.ooms, recovery.micro_batch) == (2, 2) and ours.full.sizes[:3] == [10, 5, 2]
    close(ours, theirs)
    assert "loss" in trainer.callback_metrics
    recovery.undo()
    assert "training_step" not in vars(ours) and "backward" not in vars(ours)


def test_sizes_grow_again_but_not_to_what_failed():
    model = nn.Linear(2, 1)
    recovery = BatchRecovery(grow_after=2)
    full = Full(5)

    def run_part(part, share):
        loss = model(part).square().mean() * share
        full(len(part))
        loss.backward()
        return loss.item()

    sizes = []
    for _ in range(12):
        recovery.run(model, torch.ones(8, 2), run_part)
        sizes.append(recovery.micro_batch)
    # Each try that fails comes nearer to what fits, and is not made again.
    assert sizes == [4, 7, 3, 6, 3, 5, 5, 5, 5, 5, 5, 5] and recovery.ooms == 3, (sizes, full.sizes)


def test_a_size_that_failed_long_ago_is_tried_again():
    model = nn.Linear(2, 1)
    recovery = BatchRecovery(grow_after=2, retry_after=6)
    full = Full(5)

    def run_part(part, share):
        full(len(part))
        loss = model(part).square().mean() * share
        loss.backward()
        return loss.item()

    sizes = []
    for number in range(24):
        if number == 8:
            full.most = 100
        # The last batch of an epoch is smaller.
        recovery.run(model, torch.ones(8 if number % 3 else 7, 2), run_part)
        sizes.append(recovery.micro_batch)
    assert recovery.ooms >= 2 and max(sizes[1:7]) < 8 and sizes[-1] == 8, sizes
    # There are no more samples in a batch.
    assert max(sizes) == 8


def test_gradients_that_were_there_are_added_to_and_survive_a_failure():
    model = nn.Linear(2, 1, bias=False)
    model.weight.grad = torch.tensor([[5.0, 7.0]])
    full = Full(2)

    def run_part(part, share):
        loss = model(part).sum() * share
        loss.backward()
        full(len(part))
        return loss.item()

    BatchRecovery().run(model, torch.ones(4, 2), run_part)
    assert torch.equal(model.weight.grad, torch.tensor([[7.0, 9.0]])), "half of 2 and half of 2, on top of what was there"
    full.most = 0
    with pytest.raises(NoBatchFits):
        BatchRecovery().run(model, torch.ones(4, 2), run_part)
    assert torch.equal(model.weight.grad, torch.tensor([[7.0, 9.0]]))


def test_batch_normalization_is_told_of_once_a_batch_is_split():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    full = Full(8)

    def run_part(part, share):
        full(len(part))
        loss = model(part).square().mean() * share
        loss.backward()
        return loss.item()

    recovery = BatchRecovery()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recovery.run(model, torch.randn(8, 2), run_part)
    full.most = 4
    with pytest.warns(nilometer.NilometerWarning, match="batch normalization depends on the size of micro-batches"):
        recovery.run(model, torch.randn(8, 2), run_part)


def test_what_cannot_be_recovered_is_refused():
    module = Module()
    module.automatic_optimization = False
    with pytest.raises(ValueError, match="uses manual optimization"):
        recover_lightning(module)
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match="minimum is .*; it must be a whole number, 1 or more"):
            recover_lightning(Module(), minimum=wrong)
    with pytest.raises(ValueError, match="the batch is empty: it has no samples"):
        BatchRecovery().run(nn.Linear(2, 1), torch.ones(0, 2), lambda part, share: 0.0)


def test_collections_of_the_recovery_are_not_the_programs():
    with GarbageCollector() as collector:
        release(nn.Linear(2, 2))
        assert collector.stats()["full_asked"] == 0
        gc.collect()
        assert collector.stats()["full_asked"] == 1


def test_what_is_no_loop_and_a_loop_that_recovers_already_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(TypeError, match="^trainer must be a Trainer of Hugging Face, not NoneType$"):
        recover_trainer(None)
    with pytest.raises(TypeError, match="^module must be a module of Lightning, not Linear$"):
        recover_lightning(nn.Linear(1, 1))
    trainer = Trainer(model=language_model(), args=TrainingArguments(output_dir=str(tmp_path), report_to=[], use_cpu=True), train_dataset=Sentences(8))
    for loop, recover in ((trainer, recover_trainer), (lightning.LightningModule(), recover_lightning)):
        before = loop.training_step
        first = recover(loop)
        with pytest.raises(ValueError, match="already recovers from running out of memory: call undo"):
            recover(loop)
        first.undo()
        assert loop.training_step == before
        recover(loop).undo()
