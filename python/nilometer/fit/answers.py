"""What an estimate tells, however it was made."""

from __future__ import annotations

from dataclasses import dataclass, field

from .gpus import Gpu, find_gpu


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
            f"  {'process (nvidia-smi)':28}{_size(self.process.expected):>14}   {_size(self.process.low)} to {_size(self.process.high)}",
            f"  {'reserved by PyTorch':28}{_size(self.reserved.expected):>14}",
            f"  {'allocated by tensors':28}{_size(self.allocated.expected):>14}   peak in {self.phase}",
            "Parts:",
            *(f"  {name:28}{_size(size):>14}" for name, size in self.parts.items() if size),
        ]
        return "\n".join([*lines, *(f"note: {line}" for line in self.assumptions)])


def _size(size: int) -> str:
    return f"{size / (1 << 30):,.2f} GiB" if abs(size) >= 1 << 30 else f"{size / (1 << 20):,.2f} MiB"
