"""What torch says about CUDA, asked without importing torch and without starting CUDA."""

from __future__ import annotations

import sys
from typing import Any


def torch_with_cuda() -> Any:
    """The torch module when the program has loaded it and CUDA can be used; None otherwise."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return None
    try:
        return torch if torch.cuda.is_available() else None
    except Exception:  # noqa: BLE001 - a broken driver is as good as none
        return None


def device_index(device: Any) -> int | None:
    """`0`, `"cuda:1"`, `torch.device("cuda")` as an index; None for the CPU and for other accelerators; raises TypeError for anything else."""
    if device is None:
        return None
    if isinstance(device, bool):
        raise TypeError("device must be an index, a name such as 'cuda:0' or a torch.device, not bool")
    if isinstance(device, int):
        if device < 0:
            raise ValueError(f"device must not be negative: {device}")
        return device
    text = str(device)
    kind, _, index = text.partition(":")
    if kind in ("cpu", "mps", "xpu", "xla", "hpu", "npu", "meta"):
        # Other accelerators are timed by the CPU's clock.
        return None
    if kind == "cuda" and (not index or index.isdigit()):
        return int(index or 0)
    raise TypeError(f"device must be an index, a name such as 'cuda:0' or a torch.device, not {text!r}")
