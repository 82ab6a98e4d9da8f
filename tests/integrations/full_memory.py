"""Tiny trainings by the loops of Hugging Face and Lightning, in which memory runs out with more than so many samples."""

import lightning
import torch
from tiny import language_model
from torch import nn
from transformers import TrainingArguments


class Full:
    """Raises as a full GPU does for more than so many samples, after the forward pass."""

    def __init__(self, most):
        self.most = most
        self.sizes = []

    def __call__(self, rows):
        self.sizes.append(rows)
        if rows > self.most:
            raise torch.OutOfMemoryError(f"out of memory with {rows} samples")


def language_model_within(full):
    """Without dropout: the same weights come of a whole batch and of its parts."""
    model = language_model()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    model.register_forward_hook(lambda _module, _args, kwargs, _output: full(len(kwargs["input_ids"])), with_kwargs=True)
    return model


def three_steps(folder, accumulation):
    """The arguments of a Trainer."""
    return TrainingArguments(
        output_dir=str(folder),
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


class Module(lightning.LightningModule):
    def __init__(self, full=None, as_dict=False):
        super().__init__()
        torch.manual_seed(8)
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
        self.full, self.as_dict = full, as_dict

    def training_step(self, batch, batch_idx):
        inputs, target = batch
        loss = nn.functional.mse_loss(self.net(inputs), target)
        if self.full is not None:
            self.full(len(inputs))
        self.log("loss", loss)
        return {"loss": loss} if self.as_dict else loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def two_epochs(accumulation, **more):
    """A Trainer of Lightning."""
    return lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        accumulate_grad_batches=accumulation,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **more,
    )
