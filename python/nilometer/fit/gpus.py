"""What of a GPU's memory is not a program's tensors: it depends on the device, not on the model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .._trouble import require

_MIB = 1 << 20
# What cuBLAS allocates for each thread that multiplies matrices, through PyTorch's allocator: 32 MiB from compute capability 9.0 on.
_WORKSPACE_BYTES = 8_519_680
_WORKSPACE_90_BYTES = 32 * _MIB
# The driver's figure for a process less what PyTorch reserved, at the end of trainings and inferences on an H200 (driver 580, PyTorch 2.11).
# Other devices are taken to be alike: 300 to 700 MiB are reported.
_CONTEXT_BYTES = 742 * _MIB


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU.

    Args:
        name: As people call it.
        memory_bytes: What programs can have, all together.
        capability: Major and minor compute capability.
    """

    name: str
    memory_bytes: int
    capability: tuple[int, int]

    @property
    def workspace_bytes(self) -> int:
        """What cuBLAS allocates for each thread that multiplies matrices."""
        return _WORKSPACE_90_BYTES if self.capability >= (9, 0) else _WORKSPACE_BYTES

    @property
    def context_bytes(self) -> int:
        """What a process takes besides what PyTorch reserves: CUDA's context and loaded kernels."""
        return _CONTEXT_BYTES


# Memory as the driver tells it, where it was read (H200), otherwise the nominal one less 1.5 %, which the driver keeps.
def _gpu(name: str, gib: float, capability: tuple[int, int], memory_bytes: int | None = None) -> Gpu:
    return Gpu(name, memory_bytes or int(gib * 0.985 * (1 << 30)), capability)


GPUS = [
    _gpu("T4", 16, (7, 5)),
    _gpu("V100 16GB", 16, (7, 0)),
    _gpu("V100 32GB", 32, (7, 0)),
    _gpu("A10", 24, (8, 6)),
    _gpu("A10G", 24, (8, 6)),
    _gpu("RTX 3090", 24, (8, 6)),
    _gpu("RTX 4060 Ti 16GB", 16, (8, 9)),
    _gpu("RTX 4080", 16, (8, 9)),
    _gpu("RTX 4090", 24, (8, 9)),
    _gpu("RTX 5090", 32, (12, 0)),
    _gpu("RTX A6000", 48, (8, 6)),
    _gpu("L4", 24, (8, 9)),
    _gpu("L40S", 48, (8, 9)),
    _gpu("A100 40GB", 40, (8, 0)),
    _gpu("A100 80GB", 80, (8, 0)),
    _gpu("H100", 80, (9, 0)),
    _gpu("H200", 141, (9, 0), 150_109_880_320),
    _gpu("B200", 180, (10, 0)),
]


def find_gpu(name: str) -> Gpu:
    """A GPU by its name, without regard to case, spaces and maker.

    >>> find_gpu("rtx4090").name, find_gpu("NVIDIA H200").memory_bytes >> 30
    ('RTX 4090', 139)
    """
    wanted = _plain(name)
    exact = [gpu for gpu in GPUS if _plain(gpu.name) == wanted]
    found = exact or [gpu for gpu in GPUS if _plain(gpu.name).startswith(wanted)]
    require(bool(wanted) and bool(found), f"no GPU {name!r} is known; known are {', '.join(gpu.name for gpu in GPUS)}")
    require(len(found) == 1, f"{name!r} may be {' or '.join(gpu.name for gpu in found)}")
    return found[0]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.sub(r"nvidia|geforce|tesla", "", name.lower()))
