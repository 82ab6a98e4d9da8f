#!/usr/bin/env python3
"""Documents that a vocabulary was not learnt from: `unseen.py TEXT LEARNT_FROM MOST_BYTES OUTPUT`.

Whole documents from the end of TEXT that LEARNT_FROM does not contain, joined by `<|endoftext|>`.
Runs in a process of its own: what it holds in memory would show in every process that the bench starts later.
"""

import hashlib
import os
import sys
from pathlib import Path

SEPARATOR = b"<|endoftext|>"
# Long documents make a text of a given size hard to cut; they are left out.
LONGEST_DOCUMENT_BYTES = 500_000


def main() -> None:
    text, learnt_from, most_bytes, output = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    known = {digest(document) for document in learnt_from.read_bytes().split(SEPARATOR)}
    with text.open("rb") as file:
        # Some of the documents are known, so the end is taken four times over.
        file.seek(max(0, text.stat().st_size - 4 * most_bytes))
        documents = file.read().split(SEPARATOR)[1:]
    chosen, total = [], 0
    for document in reversed(documents):
        if not document.strip() or len(document) > LONGEST_DOCUMENT_BYTES or digest(document) in known:
            continue
        total += len(document) + len(SEPARATOR)
        if total > most_bytes:
            break
        chosen.append(document)
    temporary = output.with_suffix(".partial")
    temporary.write_bytes(SEPARATOR.join(chosen))
    os.replace(temporary, output)


def digest(document: bytes) -> bytes:
    return hashlib.blake2b(document, digest_size=16).digest()


if __name__ == "__main__":
    main()
