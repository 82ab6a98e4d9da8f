"""The memory of training or running a model, from the model alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from .._native import byte_range
from .._trouble import require, require_type
from .answers import Estimate, Range
from .fake_copy import fake_batch, fake_model
from .gpus import Gpu
from .generating import generated
from .inputs import made_batch
from .tracing import Trace, TraceSession, tracing

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# The allocator has found its segments by then.
_STEPS = 3

_Optimizer = Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]
_OPTIMIZERS: dict[str, _Optimizer] = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters),
    "adamw-fused": lambda parameters: torch.optim.AdamW(parameters, fused=True),
    "adamw-for-loop": lambda parameters: torch.optim.AdamW(parameters, foreach=False),
    "adam": lambda parameters: torch.optim.Adam(parameters),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "sgd-momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters),
}


def estimate_module(
    model: torch.nn.Module | Callable[[], torch.nn.Module],
    batch: Any = None,
    *,
    batch_size: int = 1,
    seq_len: int | None = None,
    train: bool = True,
    new_tokens: int = 0,
    optimizer: str | _Optimizer = "adamw",
    dtype: str | torch.dtype | None = None,
    autocast: str | torch.dtype | None = None,
    checkpointing: bool = False,
    loss: Callable[[torch.nn.Module, Any], torch.Tensor] | None = None,
    gpu: str | Gpu = "H100",
    expandable_segments: bool = False,
) -> Estimate:
    """Runs a few steps of a model inside a trace: see `nilometer.fit.estimate`."""
    require_type(batch_size, int, "batch_size")
    require(batch_size >= 1, f"batch_size must be at least 1, not {batch_size}")
    require(seq_len is None or seq_len >= 1, f"seq_len must be at least 1, not {seq_len}")
    require_type(new_tokens, int, "new_tokens")
    require(new_tokens >= 0, f"new_tokens must be 0 or more, not {new_tokens}")
    require(not (train and new_tokens), "new_tokens is for train=False: a training generates nothing")
    make_optimizer = optimizer if callable(optimizer) else _OPTIMIZERS.get(optimizer)
    require(make_optimizer is not None, f"no optimizer {optimizer!r} is known; known are {', '.join(_OPTIMIZERS)}, or pass a function that makes one")
    if not isinstance(model, torch.nn.Module):
        require(callable(model), f"model must be a module or a function that makes one, not {type(model).__name__}")
        with torch.device("meta"):
            model = model()
        require_type(model, torch.nn.Module, "what model() returns")
    made = made_batch(model, batch_size, seq_len, train) if batch is None else batch
    weights, cast = _dtype(dtype, "dtype"), _dtype(autocast, "autocast")
    with tracing(gpu, expandable_segments) as session:
        session.run(lambda: _steps(session, model, made, train, new_tokens, make_optimizer, weights, cast, checkpointing, loss))
    result = session.result()
    return _answer(result, sum(parameter.numel() for parameter in model.parameters()))


def _steps(
    session: TraceSession,
    model: torch.nn.Module,
    batch: Any,
    train: bool,
    new_tokens: int,
    make_optimizer: Any,
    dtype: torch.dtype | None,
    autocast: torch.dtype | None,
    checkpointing: bool,
    loss: Any,
) -> None:
    model = fake_model(model, dtype, session.tape).train(train)
    cast = torch.autocast("cuda", autocast) if autocast is not None else contextlib.nullcontext()
    if checkpointing:
        turn_on = getattr(model, "gradient_checkpointing_enable", None)
        require(turn_on is not None, f"{type(model).__name__} has no checkpointing to turn on: put torch.utils.checkpoint into its forward")
        turn_on()
    if not train:
        for _ in range(_STEPS if not new_tokens else 1):
            with torch.no_grad(), cast:
                step_batch = fake_batch(batch, session.tape)
                if new_tokens:
                    generated(model, step_batch, new_tokens)
                else:
                    called(model, step_batch)
        return
    if getattr(getattr(model, "config", None), "use_cache", None):
        model.config.use_cache = False
    optimizer = make_optimizer([parameter for parameter in model.parameters() if parameter.requires_grad])
    # As in `for batch in loader`, the batch before stands until the next one is there.
    for _ in range(_STEPS):
        step_batch = fake_batch(batch, session.tape)
        with cast:
            value = loss(model, step_batch) if loss is not None else default_loss(called(model, step_batch))
        value.backward()
        optimizer.step()
        optimizer.zero_grad()


def called(model: torch.nn.Module, batch: Any) -> Any:
    if isinstance(batch, dict):
        return model(**batch)
    return model(*batch) if isinstance(batch, (tuple, list)) else model(batch)


def default_loss(output: Any) -> torch.Tensor:
    found = getattr(output, "loss", None)
    if isinstance(found, torch.Tensor):
        return found
    scores = next((value for value in [output, getattr(output, "logits", None)] if isinstance(value, torch.Tensor)), None)
    require(scores is not None, f"{type(output).__name__}, which the model returns, has no loss: pass loss=")
    return scores.float().mean()


def _dtype(given: str | torch.dtype | None, name: str) -> torch.dtype | None:
    if given is None or isinstance(given, torch.dtype):
        return given
    require(given in _DTYPES, f"{name} must be one of {', '.join(_DTYPES)}, not {given!r}")
    return _DTYPES[given]


def _answer(result: Trace, parameters: int) -> Estimate:
    allocated, reserved, context = result.peak_allocated_bytes, result.peak_reserved_bytes, result.gpu.context_bytes
    process = reserved + context
    parts = result.parts | {"unused by the allocator": reserved - allocated, "CUDA context": context}
    return Estimate(
        allocated=Range(*byte_range(allocated, True)),
        reserved=Range(*byte_range(reserved, False)),
        process=Range(*byte_range(process, False)),
        parts=parts,
        phase=result.phase,
        gpu=result.gpu,
        parameters=parameters,
        assumptions=result.assumptions,
    )
