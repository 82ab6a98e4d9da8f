"""What a library has learnt, as lines that can be compared: bytes are spelt as GPT-2 does, a space as `Ġ`."""

from collections.abc import Iterable, Iterator

from documents import SEPARATOR


def spelling() -> list[str]:
    """The character of each byte: printable ones stand for themselves, the others for the characters from 256 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    characters, others = [], 0
    for byte in range(256):
        characters.append(chr(byte if byte in printable else 256 + others))
        others += byte not in printable
    return characters


CHARACTERS = spelling()


def spelt(token: bytes) -> str:
    return "".join(CHARACTERS[byte] for byte in token)


def merges(pairs: Iterable[tuple[bytes, bytes]]) -> Iterator[str]:
    return spelt_merges((spelt(left), spelt(right)) for left, right in pairs)


def spelt_merges(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    return (f"{left} {right}" for left, right in pairs)


def tokens(ranks: dict[bytes, int]) -> Iterator[str]:
    """The tokens that merges made, in order, of a library that does not tell its merges."""
    made = (token for token in sorted(ranks, key=ranks.get) if len(token) > 1 and token != SEPARATOR.encode())
    return (spelt(token) for token in made)


def write(folder: str, lines: Iterable[str]) -> None:
    with open(f"{folder}/learned.txt", "w") as file:
        file.writelines(f"{line}\n" for line in lines)
