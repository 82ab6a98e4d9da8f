"""What users hand over, as arrays and devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from typing import Any

    from ._specs import ArraySpec


def row(value: Any, spec: ArraySpec) -> np.ndarray:
    """An array of the column's dtype; a copy only where it has to be."""
    return np.ascontiguousarray(to_numpy(value), dtype=spec.dtype)


def to_numpy(value: Any) -> Any:
    """Tensors as arrays, everything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


def device_of(device: Any) -> Any:
    """A device of PyTorch, or None for numpy."""
    if device is None:
        return None
    import torch

    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)
