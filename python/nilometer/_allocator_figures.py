"""What PyTorch's CUDA allocator counts, read from its own counters: neither the driver nor the GPU is asked."""

from __future__ import annotations

from typing import Any, NamedTuple


class AllocatorFigures(NamedTuple):
    """The counters of one device, in bytes; None where this PyTorch does not count it."""

    allocated: int
    reserved: int
    peak_allocated: int
    peak_reserved: int
    inactive_split: int | None
    """Free pieces of segments that are partly in use: the allocator cannot give them back."""
    ever_allocated: int | None
    """All that was ever allocated, freed or not."""
    alloc_retries: int | None
    ooms: int | None

    @property
    def unallocated(self) -> int:
        """What the allocator keeps without a tensor in it."""
        return max(self.reserved - self.allocated, 0)

    @property
    def fragmentation(self) -> float | None:
        """The share of the reserved memory that lies in free pieces of segments in use: 0.0 is none."""
        if self.inactive_split is None:
            return None
        return self.inactive_split / self.reserved if self.reserved else 0.0


NOTHING = AllocatorFigures(0, 0, 0, 0, 0, 0, 0, 0)


def read_allocator(torch: Any, device: int) -> AllocatorFigures:
    """One look at all counters: each of torch's own functions would gather all of them too. Zeros before CUDA was started."""
    stats = torch.cuda.memory_stats_as_nested_dict(device)
    if not stats:
        return NOTHING
    allocated, reserved = stats["allocated_bytes"]["all"], stats["reserved_bytes"]["all"]
    inactive_split = stats.get("inactive_split_bytes")
    return AllocatorFigures(
        allocated["current"],
        reserved["current"],
        allocated["peak"],
        reserved["peak"],
        None if inactive_split is None else inactive_split["all"]["current"],
        allocated.get("allocated"),
        stats.get("num_alloc_retries"),
        stats.get("num_ooms"),
    )
