"""A training under a limit of a TensorMeter, on the CPU, as tests record it: `limit_program.py over|adaptive|find`."""

import sys

import torch

from nilometer.optimize import AdaptiveBatches, TensorMeter, find_batch_size

model = torch.nn.Linear(1000, 1000)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
weights = sum(parameter.nbytes for parameter in model.parameters())


def step(batch_size, _length):
    model(torch.ones(batch_size, 1000)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def over():
    with TensorMeter(limit_bytes=weights):
        for _ in range(3):
            torch.ones(weights)


def adaptive():
    meter = TensorMeter(limit_bytes=weights + weights // 2)
    meter.adopt(list(model.parameters()))
    with meter:
        AdaptiveBatches(model, optimizer, lambda model, x: model(x).sum(), micro_batch=2, meter=meter).step(torch.ones(4, 1000))


if __name__ == "__main__":
    {"over": over, "adaptive": adaptive, "find": lambda: find_batch_size(step, model, optimizer, budget_bytes=weights + weights // 2)}[sys.argv[1]]()
