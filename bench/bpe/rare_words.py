#!/usr/bin/env python3
"""A text with far more distinct words: `rare_words.py TEXT LINES OUTPUT` puts a word that occurs once after every so many lines.

Collections of web pages are like this: most of their distinct words are names, numbers and misspellings that occur once.
"""

import os
import random
import sys
from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyz"
BLOCK_BYTES = 1 << 24


def main() -> None:
    text, lines_apart, output = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    temporary = output.with_suffix(".partial")
    choice = random.Random(11)
    number = 0
    with text.open("rb") as source, temporary.open("wb") as target:
        while lines := source.readlines(BLOCK_BYTES):
            for at in range(0, len(lines), lines_apart):
                number += 1
                lines[at] = lines[at][:-1] + b" " + word(number, choice) + b"\n"
            target.writelines(lines)
    os.replace(temporary, output)


def word(number: int, choice: random.Random) -> bytes:
    """No two numbers have the same word: the first letters are the number, the others make it as long as words are."""
    letters = []
    while number:
        number, digit = divmod(number, len(LETTERS))
        letters.append(LETTERS[digit])
    letters.append("A")
    letters += choice.choices(LETTERS, k=choice.randrange(1, 6))
    return "".join(letters).encode()


if __name__ == "__main__":
    main()
