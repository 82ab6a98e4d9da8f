"""Counting apart from learning: shards are counted where they lie, and files of counts add up."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._native import BpeCounts
from .._trouble import warn_once
from .bar import Bar, is_shown
from .options import OF_LEARNING, Options, Path, check_iterator, inputs_of, refuse


def count(
    input_path: Path | Iterable[Path],
    output: Path,
    special_tokens: Sequence[str] = (),
    *,
    resume: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> dict[str, int]:
    """Counts the words of files, folders or patterns into a file for `BPE.train_from_counts`, as `nilo bpe count` does.

    Options are those of `BPE.train` that are not about learning. Gives the sums: `documents`, `words` and others.
    With `resume=True` a counting that is interrupted leaves what it has in `output`, and the same call goes on from it.

    >>> import pathlib
    >>> from nilometer.bpe import BPE
    >>> _ = pathlib.Path("a.txt").write_text("low lower ")
    >>> _ = pathlib.Path("b.txt").write_text("lowest low")
    >>> count("a.txt", "a.counts")["words"], count("b.txt", "b.counts")["words"]
    (3, 2)
    >>> BPE().train_from_counts(["a.counts", "b.counts"], vocab_size=258).merges
    [('l', 'o'), ('lo', 'w')]
    """
    inputs = inputs_of(input_path)
    chosen = _chosen(special_tokens, options)
    state = output if resume else None
    return _count(lambda bar: BpeCounts.from_files(inputs, chosen, bar, state), output, progress)


def count_from_iterator(
    iterator: Iterable[str | bytes | Sequence[str | bytes]],
    output: Path,
    special_tokens: Sequence[str] = (),
    *,
    progress: bool | None = None,
    **options: Any,
) -> dict[str, int]:
    """Counts the words of texts, each a document, or of lists of them, as they come.

    >>> count_from_iterator(["low lower", "lowest low"], "texts.counts")["documents"]
    2
    """
    check_iterator(iterator, options)
    chosen = _chosen(special_tokens, options)
    return _count(lambda bar: BpeCounts.from_iterator(iterator, chosen, bar), output, progress)


def merge_counts(counts: Path | Iterable[Path], output: Path) -> dict[str, int]:
    """Writes one file of counts that stands for several, and gives the sums.

    >>> for name, text in [("a.counts", "low lower"), ("b.counts", "low lowest")]:
    ...     _ = count_from_iterator([text], name)
    >>> merge_counts(["a.counts", "b.counts"], "all.counts")["distinct_words"]
    3
    """
    merged = open_counts(inputs_of(counts))
    merged.write(pathlib.Path(output))
    return merged.totals()


def open_counts(paths: Sequence[str]) -> BpeCounts:
    """Opens files of counts that were made by the same rules."""
    if not paths:
        raise ValueError("no files of counts given")
    return BpeCounts.open(paths)


def counts_for(paths: Sequence[str], special_tokens: Sequence[str], pattern: str | None) -> BpeCounts:
    """Opens files of counts for a training; raises if they were made with another pattern than is asked for."""
    counts = open_counts(paths)
    if pattern is not None and pattern != counts.pattern:
        raise ValueError(
            f"these counts were made with the pattern {counts.pattern}, not {pattern}\n"
            "hint: leave pattern out, or count again"
        )
    for token in counts.cut_out:
        if token not in special_tokens:
            warn_once(f"{token!r} was a special token when the texts were counted, but is not one here")
    for token in special_tokens:
        if token not in counts.cut_out:
            warn_once(f"{token!r} was not a special token when the texts were counted: it is learned as ordinary text")
    return counts


def _chosen(special_tokens: Sequence[str], options: dict[str, Any]) -> Options:
    refuse(options, OF_LEARNING, "for learning: it changes nothing in the counts")
    return Options(special_tokens=special_tokens, **options)


def _count(work: Callable[[Bar | None], BpeCounts], output: Path, progress: bool | None) -> dict[str, int]:
    # Said before hours of counting.
    BpeCounts.check_output(output)
    bar = Bar() if is_shown(progress, sys.stderr) else None
    try:
        if bar is not None:
            bar.expect("count")
        counts = work(bar)
    finally:
        if bar is not None:
            bar.close()
    counts.write(output)
    return counts.totals()
