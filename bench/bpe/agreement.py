#!/usr/bin/env python3
"""Whether two trainers learnt the same: `agreement.py FOUND OURS` prints it in a few words.

OURS is a `merges.txt`; FOUND has merges or, where a library does not tell them, the tokens that they made, both in order.
Runs in a process of its own: what it holds in memory would show in every process that the bench starts later.
"""

import subprocess
import sys
from pathlib import Path


def agreement(found: Path, ours: Path) -> str:
    return subprocess.run([sys.executable, __file__, found, ours], capture_output=True, text=True, check=True).stdout.strip()


def compared(found: list[str], ours: list[str]) -> str:
    """Words for a table; `ours` are merges, `left right` each."""
    if not found:
        return "other units"
    wanted = ours if " " in found[0] else [token_of(merge) for merge in ours]
    if found == wanted:
        return "the same"
    tokens, our_tokens = ({token_of(merge) for merge in merges} for merges in (found, ours))
    if tokens == our_tokens:
        return "same tokens, other order"
    return f"all tokens but {len(our_tokens - tokens)}"


def token_of(merge: str) -> str:
    return merge.replace(" ", "")


def lines_of(path: str) -> list[str]:
    return [line for line in Path(path).read_text().splitlines() if not line.startswith("#version")]


if __name__ == "__main__":
    print(compared(lines_of(sys.argv[1]), lines_of(sys.argv[2])))
