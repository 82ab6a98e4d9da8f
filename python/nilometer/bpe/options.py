"""The options of a training: what `nilo bpe train` takes, under the same names; the native half reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Options:
    """Only `special_tokens` to `seen_bytes_only` change the result; the others are means.

    `lines` makes each line a document, as Hugging Face's `train(files)` does; otherwise a file is one, unless a
    `separator` parts it or `jsonl` names the field that holds the text of each line.
    Special tokens are cut out of the text unless `keep_special_tokens`, which trains on them as Hugging Face does.
    `memory_budget` is in bytes or such as `"2GiB"`; words beyond it go to files in `temp_dir`.
    """

    special_tokens: Sequence[str] = ()
    keep_special_tokens: bool = False
    pattern: str = "gpt2"
    lines: bool = False
    separator: str | None = None
    jsonl: str | None = None
    tie_break: str = "hf"
    min_frequency: int = 0
    max_token_length: int | None = None
    seen_bytes_only: bool = False
    memory_budget: int | str | None = None
    threads: int | None = None
    temp_dir: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.special_tokens, (str, bytes)):
            raise TypeError("special_tokens must be a list of str, not a single str")
        object.__setattr__(self, "special_tokens", list(self.special_tokens))
        for name in ("min_frequency", "max_token_length", "threads"):
            value = getattr(self, name)
            if value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{name} must be int, not {type(value).__name__}")
            least = 1 if name == "threads" else 0
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        if sum((self.lines, self.separator is not None, self.jsonl is not None)) > 1:
            raise ValueError("lines, separator and jsonl are mutually exclusive: each says what a document is")


# What says how files hold documents, and what only learning asks for.
OF_FILES = ("lines", "separator", "jsonl")
OF_TEXTS = (*OF_FILES, "keep_special_tokens")
OF_LEARNING = ("tie_break", "min_frequency", "max_token_length", "seen_bytes_only")


def refuse(options: Mapping[str, Any], names: Iterable[str], reason: str) -> None:
    """Raises if an option is given that would have no effect."""
    for name in names:
        if options.get(name):
            raise ValueError(f"{name} is {reason}")


def check_iterator(iterator: Any, options: Mapping[str, Any]) -> None:
    """Raises if an iterator is a single text, or options are given that are for files."""
    if isinstance(iterator, (str, bytes)):
        raise TypeError("iterator must yield str, not be a single str: put it into a list")
    refuse(options, OF_FILES, "for files: each text of an iterator is a document")


def inputs_of(input_path: Path | Iterable[Path]) -> list[str]:
    """One path or many, each a file, a folder or a pattern."""
    if isinstance(input_path, (str, os.PathLike)):
        return [os.fspath(input_path)]
    return [os.fspath(path) for path in input_path]


def vocabulary_size(vocab_size: int) -> int:
    if not isinstance(vocab_size, int) or isinstance(vocab_size, bool):
        raise TypeError(f"vocab_size must be int, not {type(vocab_size).__name__}")
    if vocab_size < 1:
        raise ValueError(f"vocab_size must be at least 1, not {vocab_size}")
    return vocab_size
