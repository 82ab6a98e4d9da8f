"""What of a GPU's memory is not a program's tensors: it depends on the device, not on the model."""

from __future__ import annotations

from dataclasses import dataclass

from .._native import known_gpu, known_gpus
from .._trouble import NilometerError


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU.

    Args:
        name: As people call it.
        memory_bytes: What programs can have, all together.
        capability: Major and minor compute capability.
        workspace_bytes: What cuBLAS allocates for each thread that multiplies matrices, 32 MiB from compute capability 9.0 on.
        context_bytes: What a process takes besides what PyTorch reserves: CUDA's context and loaded kernels.
    """

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    workspace_bytes: int = 32 << 20
    context_bytes: int = 742 << 20


GPUS = [Gpu(*row) for row in known_gpus()]


class UnknownGpuError(NilometerError, ValueError):
    """A name that means no GPU, or several."""


def find_gpu(name: str) -> Gpu:
    """A GPU by its name, without regard to case, spaces and maker.

    >>> find_gpu("rtx4090").name, find_gpu("NVIDIA H200").memory_bytes >> 30
    ('RTX 4090', 139)
    """
    try:
        return Gpu(*known_gpu(name))
    except ValueError as error:
        raise UnknownGpuError(str(error)) from None
