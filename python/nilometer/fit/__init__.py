"""How much GPU memory a training or an inference will take, without a GPU and before it runs.

    from nilometer.fit import estimate

    print(estimate("llama-3.1-8b", batch_size=8, seq_len=2048, gpu="H100"))

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    print(estimate(model, batch_size=8, seq_len=2048, dtype="bf16"))

`estimate` runs a few steps of the model on tensors without data, notes each allocation that PyTorch would make on a GPU,
and sends these through a model of PyTorch's caching allocator. Models that are known by name need no PyTorch for that; any other is traced.
`fit` answers what `nilo fit` does. `trace` estimates any function of yours.
Nothing here imports torch until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .answers import Estimate as Estimate
    from .estimates import FitError as FitError
    from .estimates import estimate as estimate
    from .estimates import fit as fit
    from .gpus import Gpu as Gpu
    from .gpus import find_gpu as find_gpu
    from .tracing import Trace as Trace
    from .tracing import TraceError as TraceError
    from .tracing import trace as trace

_HOMES = {
    "Estimate": "answers",
    "FitError": "estimates",
    "estimate": "estimates",
    "fit": "estimates",
    "Gpu": "gpus",
    "find_gpu": "gpus",
    "Trace": "tracing",
    "TraceError": "tracing",
    "trace": "tracing",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
