"""How much memory a model will take: a known one by its name, any other by a trace."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._native import fit_known_model
from .._trouble import NilometerError, require
from .answers import Estimate, Range
from .gpus import Gpu, find_gpu

if TYPE_CHECKING:
    import torch


class FitError(NilometerError, ValueError):
    """A model that is not known by name, or settings that do not go together."""


def estimate(
    model: str | os.PathLike[str] | torch.nn.Module | Callable[[], torch.nn.Module],
    batch: Any = None,
    *,
    batch_size: int = 1,
    seq_len: int | None = None,
    train: bool = True,
    new_tokens: int = 0,
    optimizer: str | Callable[..., torch.optim.Optimizer] = "adamw",
    dtype: str | torch.dtype | None = None,
    autocast: str | torch.dtype | None = None,
    checkpointing: bool = False,
    loss: Callable[[torch.nn.Module, Any], torch.Tensor] | None = None,
    gpu: str | Gpu = "H100",
    expandable_segments: bool = False,
) -> Estimate:
    """What a training (or `train=False`: a forward pass without gradients) of a model will take on a GPU. None is needed, and nothing is computed.

    A model is left as it is. Make it with `torch.device("meta")`, or pass a function that makes it, so that its weights take no memory here either.

    Args:
        model: A module, or a function that makes one: it is traced, which needs PyTorch. Or the name of a known model, or the path of a Hugging Face
            config.json or of a folder with one: that takes milliseconds and needs nothing (`nilo fit --list` lists the names).
        batch: What the model is called with: a dictionary is passed as keywords, a tuple as arguments. Only the shapes of its tensors matter.
            Models of Hugging Face get one of `batch_size` and `seq_len`.
        new_tokens: With `train=False`: how many tokens a model of Hugging Face generates after the batch, with its cache of keys and values.
        optimizer: adamw, adamw-fused, adamw-for-loop, adam, sgd, sgd-momentum, adafactor, or a function from parameters to an optimizer.
        dtype: Of the weights: fp32, bf16, fp16; as they are (known models: as published) if it is not given.
        autocast: bf16 or fp16 for a forward pass under `torch.autocast`.
        checkpointing: Turns on the checkpointing of a model of Hugging Face.
        loss: From the model and the batch to the loss. Otherwise it is `.loss` of what the model returns, or else the mean of that.
        gpu: A name of `nilometer.fit.gpus.GPUS`.

    >>> estimate("llama-3.2-1b", batch_size=4, seq_len=2048, dtype="bf16", gpu="A100 40GB").fits()
    True
    """
    if not isinstance(model, (str, os.PathLike)):
        from .estimating import estimate_module

        return estimate_module(
            model,
            batch,
            batch_size=batch_size,
            seq_len=seq_len,
            train=train,
            new_tokens=new_tokens,
            optimizer=optimizer,
            dtype=dtype,
            autocast=autocast,
            checkpointing=checkpointing,
            loss=loss,
            gpu=gpu,
            expandable_segments=expandable_segments,
        )
    require(batch is None and loss is None, "batch and loss are for models that are traced: pass the module, or a function that makes it")
    require(isinstance(optimizer, str), "a known model takes its optimizer by name")
    told = fit(
        model,
        gpus=[gpu],
        batch_size=batch_size,
        seq_len=seq_len,
        train=train,
        new_tokens=new_tokens,
        optimizer=optimizer,
        dtype=_name(dtype),
        autocast=_name(autocast),
        checkpointing=int(checkpointing),
        expandable_segments=expandable_segments,
    )
    return Estimate(
        allocated=Range(**told["allocated_bytes"]),
        reserved=Range(**told["reserved_bytes"]),
        process=Range(**told["process_bytes"]),
        parts={part["name"]: part["bytes"] for part in told["parts"]},
        phase=told["phase"],
        gpu=_gpu(gpu),
        parameters=told["model"]["parameters"],
        assumptions=told["notes"],
    )


def fit(model: str | os.PathLike[str], *, gpus: Sequence[str | Gpu] = ("H100",), max_batch: bool = False, ways: bool = False, **settings: Any) -> dict[str, Any]:
    """What `nilo fit MODEL --format json` answers: the estimate by parts, whether it fits, and on request the largest batch and ways to make it fit.

    Args:
        model: The name of a known model, or the path of a config.json, a folder with one, or a checkpoint.
        gpus: The first one is taken for the estimate.
        max_batch: Looks for the largest batch that fits each GPU.
        ways: Looks for ways to make it fit the first GPU.
        settings: train, new_tokens, batch_size, seq_len, dtype, autocast, optimizer, checkpointing (1 for all blocks, N for every N-th), accumulation,
            attention, loss_chunks, lora_rank, lora_everywhere, lora_dtype, quantize_bits, ranks, sharding, tensor_parallel, pipeline_parallel,
            offload_optimizer, expandable_segments.

    >>> fit("llama-3.2-1b", gpus=["T4"], max_batch=True, batch_size=1, seq_len=512)["gpus"][0]["verdict"]
    'fits'
    """
    found = [_gpu(gpu) for gpu in gpus]
    rows = [(gpu.name, gpu.memory_bytes, gpu.capability) for gpu in found]
    given = {name: value for name, value in settings.items() if value is not None}
    try:
        answer: dict[str, Any] = json.loads(fit_known_model(os.fspath(model), json.dumps(given), rows, max_batch, ways))
    except ValueError as error:
        raise FitError(str(error)) from None
    except TypeError as error:
        raise FitError(f"settings must be texts, numbers and truth values: {error}") from None
    return answer


def _gpu(gpu: str | Gpu) -> Gpu:
    return gpu if isinstance(gpu, Gpu) else find_gpu(gpu)


def _name(dtype: Any) -> str | None:
    """`torch.bfloat16` by its name."""
    return None if dtype is None else str(dtype).removeprefix("torch.")
