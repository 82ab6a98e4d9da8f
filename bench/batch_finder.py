#!/usr/bin/env python3
"""Measures searches for the largest batch against the true maximum, on the CPU, in the same run.

    python3 bench/batch_finder.py                                     tables on the terminal, some minutes
    python3 bench/batch_finder.py --markdown docs/benchmarks/batch-size.md

Memory is the bytes of tensors, which `TensorMeter` counts and limits: the truth is what fits when every size is tried.
What an allocator rounds and fragments is left out; on a GPU, tests/gpu/test_batch_size.py compares with the CUDA allocator.
The Python that runs it needs nilometer, torch, transformers, accelerate and lightning.
"""

import functools
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

import accelerate
import lightning
import torch
from frame import Program
from lightning.pytorch.tuner import Tuner
from page import Table
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from nilometer.optimize import TensorMeter, find_batch_size

# The goals: the share of the true maximum, the probes, and the errors.
LEAST_SHARE, MOST_PROBES, MOST_OOMS = 0.95, 5, 0
# So many sizes behind one that failed have to fail too.
FAILURES = 3
START_OF_LIGHTNING = 2
START_OF_ACCELERATE = 512
MIB = 1 << 20


def mlp():
    model = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 64))
    return model, lambda size: model(torch.ones(size, 64)).square().mean()


def of_hugging_face(model, vocabulary, length):
    def loss(size):
        ids = (torch.arange(length) % vocabulary).repeat(size, 1)
        return model(input_ids=ids, labels=ids).loss

    return model, loss


def gpt2():
    config = GPT2Config(vocab_size=512, n_positions=64, n_embd=64, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1)
    return of_hugging_face(GPT2LMHeadModel(config), 512, 32)


def llama():
    config = LlamaConfig(vocab_size=512, hidden_size=64, intermediate_size=172, num_hidden_layers=2, num_attention_heads=4)
    return of_hugging_face(LlamaForCausalLM(config), 512, 48)


MODELS = {"MLP": (mlp, (8, 20)), "GPT-2": (gpt2, (24, 64)), "Llama": (llama, (24, 64))}


@dataclass
class Training:
    """A model and its optimizer, warmed up so that its state is there, under a limit; every step is counted."""

    make: Callable
    budget_bytes: int
    sizes: list[int] = field(default_factory=list)
    ooms: int = 0

    def __post_init__(self):
        torch.manual_seed(1)
        self.model, self.loss = self.make()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self._run(1)

    def _run(self, size):
        self.loss(size).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def step(self, size, _length=1):
        """One step, limited by whoever calls it."""
        self.sizes.append(size)
        try:
            self._run(size)
        except torch.OutOfMemoryError:
            self.ooms += 1
            raise

    def limited_step(self, size):
        """One step within the limit; an error says what the CUDA allocator says, by which the rivals know it."""
        meter = TensorMeter(limit_bytes=self.budget_bytes)
        meter.adopt(list(self.model.parameters()), list(self.model.buffers()), list(self.optimizer.state.values()))
        ran_out = False
        try:
            with meter:
                self.step(size)
        except torch.OutOfMemoryError:
            ran_out = True
        if ran_out:
            self.optimizer.zero_grad()
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more than the limit")

    def fits(self, size):
        try:
            self.limited_step(size)
        except torch.OutOfMemoryError:
            return False
        return True


def true_maximum(make, budget_bytes):
    """Every size from 1 on."""
    training, largest, size = Training(make, budget_bytes), 0, 1
    while size <= largest + FAILURES:
        if training.fits(size):
            largest = size
        size += 1
    return largest


def ours(training):
    found = find_batch_size(training.step, training.model, training.optimizer, budget_bytes=training.budget_bytes)
    return found.batch_size, found.probes


def doubling_then_bisection(training):
    low, high = 0, 1
    while training.fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if training.fits(middle) else (low, middle)
    return low, len(training.sizes)


def by_accelerate(training):
    """What `auto_find_batch_size` of Hugging Face's Trainer calls."""

    @accelerate.utils.find_executable_batch_size(starting_batch_size=START_OF_ACCELERATE)
    def run(batch_size):
        training.limited_step(batch_size)
        return batch_size

    return run(), len(training.sizes)


class Limited(lightning.LightningModule):
    """Its steps are those of the training."""

    def __init__(self, training):
        super().__init__()
        self.unused = nn.Linear(1, 1)
        self._training, self.batch_size = training, START_OF_LIGHTNING

    def training_step(self, batch, _index):
        self._training.limited_step(len(batch[0]))
        # Its own optimizer step is what Lightning counts.
        return self.unused(batch[0][:1]).sum()

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.zeros(8192, 1)), batch_size=self.batch_size)

    def configure_optimizers(self):
        return torch.optim.SGD(self.unused.parameters(), lr=0.1)


def by_lightning(mode):
    def search(training):
        with tempfile.TemporaryDirectory() as folder:
            trainer = lightning.Trainer(
                default_root_dir=folder, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False, max_epochs=1
            )
            found = Tuner(trainer).scale_batch_size(Limited(training), mode=mode, init_val=START_OF_LIGHTNING, steps_per_trial=1)
        return found, len(training.sizes)

    return search


SEARCHES = {
    "`find_batch_size`": ours,
    "doubling, then bisection": doubling_then_bisection,
    "accelerate `find_executable_batch_size`": by_accelerate,
    "Lightning `power`": by_lightning("power"),
    "Lightning `binsearch`": by_lightning("binsearch"),
}


def verdict(is_reached):
    return "reached" if is_reached else "missed"


def measured(name):
    make, budgets = MODELS[name]
    table = Table(
        f"{name}, AdamW",
        {
            "search": "",
            "limit, MiB": "of tensor bytes: weights, gradients, optimizer state, activations.",
            "true maximum": f"every size from 1 on was tried, and the {FAILURES} behind the largest failed.",
            "found": "",
            "of it": "",
            "probes": "steps that were run in the search; `find_batch_size` has a first step for warming up besides, which is not counted.",
            "out of memory": "of these.",
            "seconds": "of the whole search, which copies weights aside where it does.",
            f"≥ {LEAST_SHARE:.0%}, ≤ {MOST_PROBES} probes, no error": "the goal of `find_batch_size`.",
        },
    )
    for mib in budgets:
        truth = true_maximum(make, mib * MIB)
        for title, search in SEARCHES.items():
            training = Training(make, mib * MIB)
            begun = time.perf_counter()
            found, probes = search(training)
            secs = time.perf_counter() - begun
            is_reached = LEAST_SHARE * truth <= found <= truth and probes <= MOST_PROBES and training.ooms <= MOST_OOMS
            row = [title, str(mib), str(truth), str(found), f"{found / truth:.1%}", str(probes), str(training.ooms), f"{secs:.1f}"]
            table.rows.append([*row, verdict(is_reached)])
    of_ours = [row for row in table.rows if row[0] == "`find_batch_size`"]
    table.notes.append(f"The goal was reached in {sum(row[-1] == 'reached' for row in of_ours)} of {len(of_ours)} searches of `find_batch_size`.")
    return table


def versions():
    names = ("torch", "transformers", "accelerate", "lightning")
    return ["Versions: " + ", ".join(f"{name} {version(name)}" for name in names) + "."]


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    program = Program(
        "bench/batch_finder.py",
        "The largest batch: found and true",
        [
            "No GPU: memory is the bytes of tensors, counted and limited by `TensorMeter`, without what an allocator rounds.",
            f"Lightning begins with {START_OF_LIGHTNING} samples, one step for each size; accelerate's search goes down from {START_OF_ACCELERATE}, to 0.9 of the size that failed.",
            "accelerate's search is what `auto_find_batch_size` of Hugging Face's Trainer runs; it never looks above its beginning.",
        ],
        {name: functools.partial(measured, name) for name in MODELS},
    )
    parser = program.parser(__doc__.splitlines()[0])
    arguments = parser.parse_args()
    program.measure(arguments, (), versions)


if __name__ == "__main__":
    main()
