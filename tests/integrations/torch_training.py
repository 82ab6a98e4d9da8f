"""A small model and its training."""

import torch


def small_model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Dropout(0.2), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def batches(count, size=4):
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(size, 6, generator=generator), torch.randn(size, 2, generator=generator)) for _ in range(count)]


def train(model, optimizer, data, accumulate=1):
    for index, (x, y) in enumerate(data):
        torch.nn.functional.mse_loss(model(x), y).backward()
        if (index + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()


def adam(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)
