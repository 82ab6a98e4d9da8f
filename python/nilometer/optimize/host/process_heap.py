"""Memory of this process as the kernel and the C library count it: resident bytes, the C heap, and giving back what it does not use."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

from ... import _native


def rss_bytes() -> int:
    """Resident memory of this process; 0 where the system does not tell."""
    return _native.current_rss()


@dataclass(frozen=True)
class Heap:
    """The C heap by `mallinfo2`."""

    live_bytes: int
    """In use, blocks with a mapping of their own included."""
    free_bytes: int
    """Held without being used. What `malloc_trim` gave back is still counted here by glibc."""


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


@functools.cache
def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None)
    except OSError:
        return None


def heap() -> Heap | None:
    """The C heap now; None where the C library does not tell (glibc before 2.33, musl)."""
    function = getattr(_libc(), "mallinfo2", None)
    if function is None:
        return None
    function.restype = _Mallinfo2
    info = function()
    return Heap(int(info.uordblks + info.hblkhd), int(info.fordblks))


def unused_bytes() -> int | None:
    """What `malloc_trim` could give back, at most: free in the heap, and resident beyond what is in use."""
    now = heap()
    return None if now is None else max(0, min(now.free_bytes, rss_bytes() - now.live_bytes))


def trim() -> int:
    """Calls `malloc_trim(0)`; gives the bytes by which resident memory fell, 0 where the C library cannot."""
    function = getattr(_libc(), "malloc_trim", None)
    if function is None:
        return 0
    before = rss_bytes()
    function(0)
    return max(0, before - rss_bytes())
