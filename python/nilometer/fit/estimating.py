"""The memory of training or running a model, from the model alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from .._trouble import require, require_type
from .fake_copy import fake_batch, fake_model
from .gpus import Gpu, find_gpu
from .generating import generated
from .inputs import made_batch
from .tracing import Trace, TraceSession, tracing

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# The allocator has found its segments by then.
_STEPS = 3
# Against 21 measured cases (docs/benchmarks/fit.md) allocated memory was within 1 %, reserved memory within 5 %.
_ALLOCATED_SPREAD = 0.01
_RESERVED_SPREAD = 0.05

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


@dataclass(frozen=True)
class Range:
    """Bytes: what is expected, and between which figures the true one should be."""

    low: int
    expected: int
    high: int


@dataclass(frozen=True)
class Estimate:
    """What a model will take on a GPU.

    Args:
        allocated: The most that PyTorch's tensors take (`torch.cuda.max_memory_allocated()`).
        reserved: The most that PyTorch takes from the driver (`torch.cuda.max_memory_reserved()`).
        process: What the driver (`nvidia-smi`) tells of the process: reserved memory, CUDA's context and loaded kernels.
        parts: Bytes by what they are for; they add up to what is expected of the process.
        phase: In which phase the peak falls.
        gpu: For which GPU.
        parameters: How many the model has.
        assumptions: What was assumed where the model asks for values of tensors.
    """

    allocated: Range
    reserved: Range
    process: Range
    parts: dict[str, int]
    phase: str
    gpu: Gpu
    parameters: int
    assumptions: list[str] = field(default_factory=list)

    def fits(self, gpu: str | Gpu | None = None) -> bool | None:
        """Whether it fits a GPU: None where that lies between the lowest and the highest figure."""
        limit = self.gpu if gpu is None else gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
        if self.process.high <= limit.memory_bytes:
            return True
        return False if self.process.low > limit.memory_bytes else None

    def __str__(self) -> str:
        answer = {True: "fits", False: "does not fit", None: "may not fit"}[self.fits()]
        lines = [
            f"{self.parameters:,} parameters on {self.gpu.name} ({_size(self.gpu.memory_bytes)}): {answer}",
            f"  {'process (nvidia-smi)':24}{_size(self.process.expected):>14}   {_size(self.process.low)} to {_size(self.process.high)}",
            f"  {'reserved by PyTorch':24}{_size(self.reserved.expected):>14}",
            f"  {'allocated by tensors':24}{_size(self.allocated.expected):>14}   peak in {self.phase}",
            "Parts:",
            *(f"  {name:24}{_size(size):>14}" for name, size in self.parts.items() if size),
        ]
        return "\n".join([*lines, *(f"assumed: {line}" for line in self.assumptions)])


def estimate(
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
    """What a training (or `train=False`: a forward pass without gradients) of a model will take on a GPU. None is needed, and nothing is computed.

    The model is left as it is. Make it with `torch.device("meta")`, or pass a function that makes it, so that its weights take no memory here either.

    Args:
        model: A module, or a function that makes one.
        batch: What the model is called with: a dictionary is passed as keywords, a tuple as arguments. Only the shapes of its tensors matter.
            Models of Hugging Face get one of `batch_size` and `seq_len`.
        new_tokens: With `train=False`: how many tokens a model of Hugging Face generates after the batch, with its cache of keys and values.
        optimizer: adamw, adamw-fused, adamw-for-loop, adam, sgd, sgd-momentum, adafactor, or a function from parameters to an optimizer.
        dtype: Of the weights: fp32, bf16, fp16; as they are if it is not given.
        autocast: bf16 or fp16 for a forward pass under `torch.autocast`.
        checkpointing: Turns on the checkpointing of a model of Hugging Face.
        loss: From the model and the batch to the loss. Otherwise it is `.loss` of what the model returns, or else the mean of that.
        gpu: A name of `nilometer.fit.gpus.GPUS`.

    >>> tower = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.GELU(), torch.nn.Linear(4096, 1024))
    >>> estimate(tower, torch.empty(512, 1024), optimizer="sgd", gpu="T4").fits()
    True
    """
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
        allocated=_spread(allocated, _ALLOCATED_SPREAD),
        reserved=_spread(reserved, _RESERVED_SPREAD),
        process=_spread(process, _RESERVED_SPREAD),
        parts=parts,
        phase=result.phase,
        gpu=result.gpu,
        parameters=parameters,
        assumptions=result.assumptions,
    )


def _spread(expected: int, share: float) -> Range:
    return Range(int(expected * (1 - share)), expected, int(expected * (1 + share)))


def _size(size: int) -> str:
    return f"{size / (1 << 30):,.2f} GiB" if abs(size) >= 1 << 30 else f"{size / (1 << 20):,.2f} MiB"
