"""One rank of a training by a library's own loop, as torchrun starts it: `recovery_rank.py LOOP ACCUMULATION MOST MINIMUM FOLDER`.

On the last rank memory runs out with more than MOST samples; 0 trains without recovery and without a limit. Writes what it saw as JSON.
"""

import json
import os
import pathlib
import sys

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from tiny import Sentences, language_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainingArguments

from nilometer.optimize import NoBatchFits, recover_lightning, recover_trainer

RANK = int(os.environ["RANK"])


class Full:
    """Raises as a full GPU does, on the last rank, after the forward pass."""

    def __init__(self, most):
        self.most = most if RANK == int(os.environ["WORLD_SIZE"]) - 1 else 0
        self.sizes = []

    def __call__(self, rows):
        self.sizes.append(rows)
        if self.most and rows > self.most:
            raise torch.OutOfMemoryError(f"out of memory with {rows} samples")


def by_trainer(accumulation, most, minimum, folder):
    model = language_model()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    full = Full(most)
    model.register_forward_hook(lambda _module, _args, kwargs, _output: full(len(kwargs["input_ids"])), with_kwargs=True)
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=8,
        gradient_accumulation_steps=accumulation,
        max_steps=3,
        learning_rate=0.1,
        optim="sgd",
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
        use_cpu=True,
    )
    trainer = Trainer(model=model, args=arguments, train_dataset=Sentences(128))
    return model, full, recover_trainer(trainer, minimum=minimum) if most else None, trainer.train


class Module(lightning.LightningModule):
    def __init__(self, full):
        super().__init__()
        torch.manual_seed(2)
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        self.register_buffer("seen", torch.zeros(()))
        self.full = full

    def training_step(self, batch, batch_idx):
        inputs, target = batch
        loss = nn.functional.mse_loss(self.net(inputs), target)
        self.full(len(inputs))
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def by_lightning(accumulation, most, minimum, folder):
    module = Module(Full(most))
    torch.manual_seed(9)
    dataset = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        devices=int(os.environ["WORLD_SIZE"]),
        strategy=DDPStrategy(process_group_backend="gloo"),
        accumulate_grad_batches=accumulation,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    recovery = recover_lightning(module, minimum=minimum) if most else None
    return module, module.full, recovery, lambda: trainer.fit(module, DataLoader(dataset, batch_size=8))


def main():
    loop, accumulation, most, minimum, folder = sys.argv[1], *map(int, sys.argv[2:5]), pathlib.Path(sys.argv[5])
    torch.set_num_threads(1)
    model, full, recovery, train = {"trainer": by_trainer, "lightning": by_lightning}[loop](accumulation, most, minimum, folder)
    seen = {"error": ""}
    try:
        train()
    except NoBatchFits as error:
        seen["error"] = str(error)
    seen["ranks"] = dist.get_world_size() if dist.is_initialized() else 1
    seen["sizes"] = full.sizes
    seen["ooms"], seen["micro_batch"] = (recovery.ooms, recovery.micro_batch) if recovery else (0, None)
    seen["weights"] = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    (folder / f"{RANK}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
