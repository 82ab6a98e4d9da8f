"""One rank of a distributed training, as tests start it: `rank_program.py SCENARIO RANK WORLD_SIZE FOLDER`. Writes what it saw as JSON."""

import datetime
import json
import pathlib
import sys

import torch
import torch.distributed as dist
from tight_memory import full_after_backward
from torch import nn

from nilometer.optimize import AdaptiveBatches, NoBatchFits, TensorMeter, find_batch_size

SAMPLES = 48


def make_model():
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 1), nn.Linear(1, 1))


def loss_sum(model, batch):
    # The last layer is used by no rank: it stays without a gradient.
    return model[:3](batch).square().sum()


def shares(world_size):
    """Every rank's samples, of different number."""
    x = torch.randn(SAMPLES * world_size, 16, generator=torch.Generator().manual_seed(5))
    sizes = [SAMPLES + (6 if rank % 2 else -6) for rank in range(world_size)]
    return torch.split(x[: sum(sizes)], sizes)


def peak_of(micro_batch, samples):
    """What a step of one rank alone takes."""
    model = make_model()
    meter = TensorMeter()
    meter.adopt(list(model.parameters()))
    with meter:
        (loss_sum(model, samples[:micro_batch])).backward()
        (loss_sum(model, samples[:micro_batch])).backward()
    return meter.peak


def train(rank, world_size, *, minimum=1, limit_of=24):
    model = make_model()
    samples = shares(world_size)[rank]
    meter = TensorMeter()
    meter.adopt(list(model.parameters()))
    if rank == world_size - 1:
        meter.limit_bytes = (peak_of(limit_of // 2, samples) + peak_of(limit_of, samples)) // 2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = {"sizes": [], "retries": [], "losses": []}
    with meter:
        batches = AdaptiveBatches(model, optimizer, loss_sum, micro_batch=SAMPLES, minimum=minimum, meter=meter, grow_after=50)
        try:
            for _ in range(3):
                done = batches.step(samples)
                seen["sizes"].append(done.micro_batch)
                seen["retries"].append(done.retries)
                seen["losses"].append(done.loss)
        except NoBatchFits as error:
            seen["error"] = str(error)
    seen["weights"] = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    return seen


def exchange(rank, world_size, *, times):
    """On the last rank backward fits, and so many times the memory that the exchange of gradients takes does not."""
    model = make_model()
    samples = shares(world_size)[rank]
    meter = TensorMeter()
    meter.adopt(list(model.parameters()))
    if rank == world_size - 1:
        full_after_backward(model, meter, times)
    seen = {"sizes": [], "retries": [], "losses": []}
    with meter:
        batches = AdaptiveBatches(model, torch.optim.SGD(model.parameters(), lr=0.01), loss_sum, micro_batch=2 * SAMPLES, meter=meter, grow_after=50)
        try:
            for _ in range(3):
                done = batches.step(samples)
                seen["sizes"].append(done.micro_batch)
                seen["retries"].append(done.retries)
                seen["losses"].append(done.loss)
        except NoBatchFits as error:
            seen["error"] = str(error)
    seen["weights"] = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    return seen


def first_update(rank, world_size):
    """On the last rank the optimizer's state does not fit."""
    model = make_model()
    meter = TensorMeter()
    meter.adopt(list(model.parameters()))
    optimizer = torch.optim.Adam(model.parameters())
    if rank == world_size - 1:
        # Enough for the few bytes that ranks exchange to agree, which count here too.
        half = sum(parameter.nbytes for parameter in model.parameters()) // 2
        optimizer.register_step_pre_hook(lambda *_: setattr(meter, "limit_bytes", meter.level + half))
    try:
        with meter:
            AdaptiveBatches(model, optimizer, loss_sum, micro_batch=SAMPLES, meter=meter).step(shares(world_size)[rank])
    except NoBatchFits as error:
        return {"error": str(error)}
    return {}


def find(rank, world_size, *, budgets):
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(batch_size, _length):
        loss_sum(model, torch.randn(batch_size, 16)).backward()
        optimizer.step()
        optimizer.zero_grad()

    try:
        found = find_batch_size(step, model, optimizer, budget_bytes=budgets[min(rank, 1)])
    except NoBatchFits as error:
        return {"error": str(error)}
    return {"batch_size": found.batch_size, "own": max(size for size, _, _ in found.points)}


SCENARIOS = {
    "train": train,
    "hopeless": lambda rank, world_size: train(rank, world_size, minimum=32),
    "exchange": lambda rank, world_size: exchange(rank, world_size, times=1),
    "hopeless-exchange": lambda rank, world_size: exchange(rank, world_size, times=1000),
    "exchange-optimizer": first_update,
    "find": lambda rank, world_size: find(rank, world_size, budgets=[4_000_000, 1_000_000]),
    "nothing-fits": lambda rank, world_size: find(rank, world_size, budgets=[4_000_000, 1000]),
}


def main():
    scenario, rank, world_size, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder / 'meeting'}",
        rank=rank,
        world_size=world_size,
        # Who waits longer than this has been left alone: the test fails instead of standing still.
        timeout=datetime.timedelta(seconds=30 if "exchange" in scenario else 120),
    )
    seen = SCENARIOS[scenario](rank, world_size)
    (folder / f"{rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
