"""Bytes as people read them: 222.9 MiB."""

from __future__ import annotations


def in_bytes(number: float) -> str:
    """A number of bytes in the unit that fits.

    >>> in_bytes(512), in_bytes(233683976), in_bytes(8 << 30)
    ('512 B', '222.9 MiB', '8.0 GiB')
    """
    if abs(number) < 1024:
        return f"{number:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        # Not 1024.0 of one unit where it is 1.0 of the next.
        if abs(number) < 1023.95:
            return f"{number:.1f} {unit}"
    return f"{number / 1024:.1f} TiB"
