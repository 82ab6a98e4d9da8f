"""What a buffer may take of the memory that there is."""

from __future__ import annotations

from .. import _native
from .._trouble import warn_once

_GIB = 1 << 30
# Beyond this share of the memory limit a buffer is likely to end the job.
_LARGEST_SHARE = 0.8


def budget(max_bytes: int | str | None) -> int | None:
    """Bytes; "auto" is half of the limit in force."""
    if max_bytes == "auto":
        limit = _native.memory_limit()
        return None if limit is None else limit[0] // 2
    if isinstance(max_bytes, str):
        raise ValueError(f'max_bytes is {max_bytes!r}; it must be a number of bytes or "auto"')
    return max_bytes


def check_projection(transitions: int, projected_bytes: int, when: str) -> None:
    """Warns of a buffer that will not fit. The limit is that of the cgroup, not what the machine has free."""
    limit = _native.memory_limit()
    if limit is None or projected_bytes <= _LARGEST_SHARE * limit[0]:
        return
    warn_once(
        f"a full replay buffer of {transitions:,} transitions takes {projected_bytes / _GIB:.1f} GiB {when}; "
        f"the memory limit is {limit[0] / _GIB:.1f} GiB ({limit[1]}). Set max_bytes, or spill_dir as well"
    )
