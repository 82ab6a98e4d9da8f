"""One rank of an optimized training: `training_rank.py RANK WORLD_SIZE FOLDER`. The last rank has little memory."""

import datetime
import json
import pathlib
import sys

import torch
import torch.distributed as dist
from test_training_optimizer import PLAIN, blocks, labelled
from torch import nn

from nilometer.optimize import TensorMeter, TrainingMemoryConfig, TrainingMemoryOptimizer

rank, world_size, folder = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3])
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size, timeout=datetime.timedelta(seconds=120))
model = blocks(count=2)
if rank:
    # Ranks begin with the weights of the first.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)


def peak_of(samples, times):
    """What a step of these micro-batches takes."""
    probe = TensorMeter()
    probe.adopt(list(model.parameters()), torch.empty(256, 65))
    with probe:
        for _ in range(times):
            nn.functional.cross_entropy(model(torch.randn(samples, 64)), torch.zeros(samples, dtype=torch.long)).backward()
    model.zero_grad()
    return probe.peak


meter = TensorMeter()
meter.adopt(list(model.parameters()))
if rank == world_size - 1:
    whole, half = peak_of(256, 1), peak_of(128, 2)
    assert half < 0.9 * whole
    meter.limit_bytes = (whole + half) // 2
config = TrainingMemoryConfig(initial_batch_size=256, min_batch_size=32, **PLAIN)
with TrainingMemoryOptimizer(config) as training:
    results = training.optimize_training_loop(
        model, labelled(1024), torch.optim.SGD(model.parameters(), lr=0.1), 1, nn.CrossEntropyLoss(), meter=meter
    )
torch.save(model.state_dict(), folder / f"rank{rank}.pt")
(folder / f"rank{rank}.json").write_text(json.dumps(results))
dist.destroy_process_group()
