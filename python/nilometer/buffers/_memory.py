"""What a buffer may take of the memory that there is."""

from __future__ import annotations

import os

from .. import _native
from .._trouble import warn_once, whole_number

_GIB = 1 << 30
# Beyond this share of the memory limit a buffer is likely to end the job.
_LARGEST_SHARE = 0.8


def budget(max_bytes: int | str | None) -> int | None:
    """Bytes; "auto" is half of the limit in force."""
    if max_bytes == "auto":
        limit = _native.memory_limit()
        return None if limit is None else limit[0] // 2
    if max_bytes is None:
        return None
    return whole_number(max_bytes, "max_bytes", least=1, expected='a positive number of bytes or "auto"')


def folder_path(spill_dir: str | os.PathLike[str] | None) -> str | None:
    """As the native half takes it."""
    return None if spill_dir is None else os.fsdecode(spill_dir)


def warn_of_drops(store: _native.ReplayStore, buffer_size: int) -> None:
    """Says that the oldest transitions leave because the memory budget is too small."""
    _dropped, failure = store.dropped()
    cause = f" ({failure})" if failure else ""
    warn_once(
        f"a replay buffer drops its oldest transitions: max_bytes holds {len(store):,} of {buffer_size:,}{cause}. "
        "Raise max_bytes, or set spill_dir to a folder with room"
    )


def check_projection(transitions: int, projected_bytes: int, when: str) -> None:
    """Warns of a buffer that will not fit. The limit is that of the cgroup, not what the machine has free."""
    limit = _native.memory_limit()
    if limit is None or projected_bytes <= _LARGEST_SHARE * limit[0]:
        return
    warn_once(
        f"a full replay buffer of {transitions:,} transitions takes {projected_bytes / _GIB:.1f} GiB {when}; "
        f"the memory limit is {limit[0] / _GIB:.1f} GiB ({limit[1]}). Set max_bytes, or spill_dir as well"
    )
