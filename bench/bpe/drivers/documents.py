"""The documents of a text, as the drivers hand them to a library."""

from collections.abc import Iterator

SEPARATOR = "<|endoftext|>"
BLOCK_BYTES = 1 << 20


def documents(path: str) -> Iterator[str]:
    """Each document without its separator; no more than one and a block of the file are in memory."""
    separator, rest = SEPARATOR.encode(), b""
    with open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            *whole, rest = (rest + block).split(separator)
            yield from (document.decode() for document in whole if document)
    if rest:
        yield rest.decode()
