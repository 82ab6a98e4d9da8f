"""A training that runs out of memory three times and goes on, as tests record it: `batch_program.py adaptive|trainer|lightning`."""

import sys

import torch
from full_memory import Full, Module, language_model_within, three_steps, two_epochs
from tiny import Sentences
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer

from nilometer.optimize import AdaptiveBatches, find_batch_size, recover_lightning, recover_trainer


def adaptive():
    model = torch.nn.Linear(16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    full = Full(1000)

    def loss_sum(model, batch):
        loss = model(batch).square().sum()
        full(len(batch))
        return loss

    def step(batch_size, _length):
        loss_sum(model, torch.ones(batch_size, 16)).backward()
        optimizer.step()
        optimizer.zero_grad()

    found = find_batch_size(step, model, optimizer, budget_bytes=1_000_000, maximum=64)
    # Something else took the memory since.
    full.most = 8
    batches = AdaptiveBatches(model, optimizer, loss_sum, micro_batch=found.batch_size)
    for _ in range(4):
        done = batches.step(torch.ones(64, 16))
    assert (done.micro_batch, batches.ooms) == (8, 3)


def trainer():
    full = Full(1)
    trainer = Trainer(model=language_model_within(full), args=three_steps("trainer", 2), train_dataset=Sentences(64))
    recover_trainer(trainer)
    trainer.train()


def lightning():
    module = Module(Full(1))
    recover_lightning(module)
    two_epochs(2).fit(module, DataLoader(TensorDataset(torch.randn(40, 8), torch.randn(40, 1)), batch_size=10))


if __name__ == "__main__":
    {"adaptive": adaptive, "trainer": trainer, "lightning": lightning}[sys.argv[1]]()
