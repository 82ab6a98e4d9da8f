"""One rank of a training by a library's own loop, as torchrun starts it: `recovery_rank.py LOOP ACCUMULATION MOST MINIMUM FOLDER [TIMES]`.

On the last rank memory runs out with more than MOST samples; 0 trains without recovery and without a limit.
With TIMES it runs out so many times after backward, where gradients are exchanged. Writes what it saw as JSON.
"""

import contextlib
import json
import math
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from full_memory import Full, Module, language_model_within, three_steps, two_epochs
from lightning.pytorch.strategies import DDPStrategy
from tight_memory import full_after_backward
from tiny import Sentences
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer

from nilometer.optimize import NoBatchFits, TensorMeter, recover_lightning, recover_trainer

RANK = int(os.environ["RANK"])


def memory_of_rank(most):
    """It is full on the last rank alone."""
    is_last = RANK == int(os.environ["WORLD_SIZE"]) - 1
    return Full(most if most and is_last else math.inf)


def by_trainer(accumulation, most, minimum, folder):
    full = memory_of_rank(most)
    model = language_model_within(full)
    trainer = Trainer(model=model, args=three_steps(folder / "trainer", accumulation), train_dataset=Sentences(128))
    return model, full, recover_trainer(trainer, minimum=minimum) if most else None, trainer.train


def by_lightning(accumulation, most, minimum, folder):
    module = Module(memory_of_rank(most))
    module.register_buffer("seen", torch.zeros(()))
    torch.manual_seed(9)
    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    trainer = two_epochs(accumulation, devices=int(os.environ["WORLD_SIZE"]), strategy=DDPStrategy(process_group_backend="gloo"))
    recovery = recover_lightning(module, minimum=minimum) if most else None
    return module, module.full, recovery, lambda: trainer.fit(module, DataLoader(dataset, batch_size=8))


def main():
    loop, accumulation, most, minimum, folder = sys.argv[1], *map(int, sys.argv[2:5]), pathlib.Path(sys.argv[5])
    torch.set_num_threads(1)
    model, full, recovery, train = {"trainer": by_trainer, "lightning": by_lightning}[loop](accumulation, most, minimum, folder)
    seen = {"error": ""}
    times = int(sys.argv[6]) if len(sys.argv) > 6 else 0
    meter = TensorMeter() if times and RANK == 1 else contextlib.nullcontext()
    if isinstance(meter, TensorMeter):
        full_after_backward(model, meter, times)
    try:
        with meter:
            train()
    except NoBatchFits as error:
        seen["error"] = str(error)
    seen["ranks"] = dist.get_world_size() if dist.is_initialized() else 1
    seen["sizes"] = full.sizes
    seen["ooms"], seen["micro_batch"] = (recovery.ooms, recovery.micro_batch) if recovery else (0, None)
    seen["weights"] = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    (folder / f"{RANK}.json").write_text(json.dumps(seen))
    # As PyTorch wants it: a process that ends with threads of its group still there may abort.
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
