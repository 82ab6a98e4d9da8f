"""This process and the helpers that a tracker started, as /proc tells of them."""

import os
from pathlib import Path


def helpers(pid: int | None = None) -> list[int]:
    """Every process below this one."""
    found = []
    for children in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        for child in map(int, read(children).split()):
            found += [child, *helpers(child)]
    return found


def memory_bytes() -> tuple[int, int]:
    """Resident memory of this process and its helpers, and the anonymous part of it."""
    lines = [line for pid in [os.getpid(), *helpers()] for line in read(Path(f"/proc/{pid}/status")).splitlines()]
    return total_bytes(lines, "VmRSS:"), total_bytes(lines, "RssAnon:")


def total_bytes(lines: list[str], key: str) -> int:
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(key))


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # it has ended
