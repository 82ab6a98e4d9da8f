"""Batch sizes for real trainers: the global batch stays, the micro-batch is the largest that fits."""

import lightning
import pytest
import torch
from tiny import Sentences, language_model
from torch import nn
from transformers import Trainer, TrainingArguments

from nilometer.optimize import TensorMeter, fit_lightning_batch, fit_trainer_batch


def trainer(tmp_path, **options):
    settings = {"per_device_train_batch_size": 32, "max_steps": 2, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    arguments = TrainingArguments(output_dir=str(tmp_path), save_strategy="no", **(settings | options))
    return Trainer(model=language_model(), args=arguments, train_dataset=Sentences(200, length=32))


def step_peak(model, size):
    ids = torch.randint(3, 100, (size, 32))
    optimizer = torch.optim.AdamW(model.parameters())
    meter = TensorMeter()
    meter.adopt(list(model.parameters()))
    with meter:
        for _ in range(2):
            model(input_ids=ids, labels=ids).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return meter.peak


def test_a_trainer_gets_the_largest_batch_and_keeps_its_global_one(tmp_path):
    training = trainer(tmp_path)
    weights = {name: tensor.clone() for name, tensor in training.model.state_dict().items()}
    budget = step_peak(language_model(), 11)
    found = fit_trainer_batch(training, budget_bytes=budget)
    assert 9 <= found.batch_size <= 11 and found.ooms == 0
    arguments = training.args
    assert (arguments.per_device_train_batch_size, arguments.gradient_accumulation_steps) == (8, 4)
    assert training.optimizer is None
    assert all(torch.equal(tensor, weights[name]) for name, tensor in training.model.state_dict().items())
    sizes = []
    training.model.register_forward_pre_hook(
        lambda _model, _args, kwargs: sizes.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    training.train()
    assert sizes == [8] * 8 and training.state.global_step == 2


def test_a_global_batch_can_be_asked_for(tmp_path):
    training = trainer(tmp_path)
    fit_trainer_batch(training, budget_bytes=1 << 30, global_batch=64)
    assert (training.args.per_device_train_batch_size, training.args.gradient_accumulation_steps) == (64, 1)
    with pytest.raises(ValueError, match="cannot be divided"):
        fit_trainer_batch(training, budget_bytes=1 << 30, global_batch=0)


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 512), nn.ReLU(), nn.Linear(512, 1))
        self.sizes = []

    def training_step(self, batch, _number):
        self.sizes.append(len(batch))
        return self.layers(batch).square().mean()

    def configure_optimizers(self):
        return {"optimizer": torch.optim.SGD(self.parameters(), lr=0.01)}


def test_a_lightning_training_runs_with_what_was_found(tmp_path):
    torch.manual_seed(1)
    module, data = Module(), [torch.randn(32) for _ in range(256)]
    weights = [parameter.detach().clone() for parameter in module.parameters()]
    size, accumulated = fit_lightning_batch(module, data, budget_bytes=700_000, global_batch=128)
    assert size * accumulated == 128 and accumulated > 1
    assert all(map(torch.equal, module.parameters(), weights))
    module.sizes.clear()
    loader = torch.utils.data.DataLoader(data, batch_size=size)
    lightning.Trainer(
        max_epochs=1,
        accumulate_grad_batches=accumulated,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    ).fit(module, loader)
    assert module.sizes == [size] * (256 // size)
