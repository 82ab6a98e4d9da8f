"""Several vocabulary sizes on one corpus, which is counted once."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .._native import BpeCounts
from .memory_log import MemoryLog
from .options import Options, Path, inputs_of, vocabulary_size
from .tokenizer import BPE


class VocabularyResult(NamedTuple):
    """One size, its tokenizer, and the memory of its merging."""

    vocab_size: int
    bpe: BPE
    stats: dict[str, float]


def compare_vocab_sizes(
    input_path: Path | Sequence[Path],
    vocab_sizes: Iterable[int],
    special_tokens: Sequence[str] = (),
    *,
    monitor_interval: float = 0.1,
    **options: Any,
) -> list[VocabularyResult]:
    """Trains a tokenizer for each size; the words are counted once and kept in a temporary file meanwhile.

    >>> _ = pathlib.Path("training.txt").write_text("the cat sat on the mat " * 100)
    >>> for size, bpe, stats in compare_vocab_sizes("training.txt", [257, 260]):
    ...     print(size, bpe.vocab_size, len(bpe.merges), stats["peak_memory_mb"] > 0)
    257 257 1 True
    260 260 4 True
    """
    chosen = Options(special_tokens=special_tokens, **options)
    sizes = [vocabulary_size(size) for size in vocab_sizes]
    for size in sizes:
        BpeCounts.check(size, chosen)
    results = []
    with tempfile.TemporaryDirectory(prefix="nilo-", dir=chosen.temp_dir) as folder:
        file = pathlib.Path(folder) / "counts"
        BpeCounts.from_files(inputs_of(input_path), chosen).write(file)
        for size in sizes:
            bpe = BPE()
            with MemoryLog(monitor_interval) as log:
                bpe._learn(BpeCounts.open([file]), size, chosen, None)
            results.append(VocabularyResult(size, bpe, log.statistics()))
    return results
