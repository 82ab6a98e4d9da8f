"""The tokenizer: trained, encoding and decoding, saved and loaded."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._native import BpeCounts, BpeModel
from .._trouble import warn_once
from .bar import Bar, is_shown
from .counts import counts_for
from .options import OF_TEXTS, Options, Path, check_iterator, inputs_of, refuse, vocabulary_size

if TYPE_CHECKING:
    import tokenizers
    from typing_extensions import Self


class BPE:
    """A byte-level BPE tokenizer.

    >>> bpe = BPE().train_from_iterator(["low lower lowest"] * 10, vocab_size=260, special_tokens=["<|pad|>"])
    >>> bpe.merges
    [('l', 'o'), ('lo', 'w'), ('Ġ', 'low')]
    >>> ids = bpe.encode("low lower<|pad|>")
    >>> ids, bpe.decode(ids)
    ([258, 259, 69, 82, 0], 'low lower<|pad|>')

    Options of a training are those of `nilo bpe train`; they are explained at `nilometer.bpe.options.Options`.
    """

    def __init__(self) -> None:
        self._model: BpeModel | None = None
        self._totals: dict[str, int] = {}

    def train(
        self,
        input_path: Path | Sequence[Path],
        vocab_size: int,
        special_tokens: Sequence[str] = (),
        *,
        progress: bool | None = None,
        **options: Any,
    ) -> Self:
        """Learns from files, folders or patterns such as `data/*.txt.gz`.

        `progress` shows bars: True or False; if not given, in terminals and notebooks.
        """
        inputs = inputs_of(input_path)
        chosen = Options(special_tokens=special_tokens, **options)
        return self._train(lambda bar: BpeCounts.from_files(inputs, chosen, bar), vocab_size, chosen, progress)

    def train_from_iterator(
        self,
        iterator: Iterable[str | bytes | Sequence[str | bytes]],
        vocab_size: int,
        special_tokens: Sequence[str] = (),
        *,
        progress: bool | None = None,
        **options: Any,
    ) -> Self:
        """Learns from texts, each a document, or from lists of them. They are counted as they come and not kept."""
        check_iterator(iterator, options)
        chosen = Options(special_tokens=special_tokens, **options)
        return self._train(lambda bar: BpeCounts.from_iterator(iterator, chosen, bar), vocab_size, chosen, progress)

    def train_from_counts(
        self,
        counts: Path | Iterable[Path],
        vocab_size: int,
        special_tokens: Sequence[str] = (),
        *,
        progress: bool | None = None,
        **options: Any,
    ) -> Self:
        """Learns from files of `nilometer.bpe.count` or `nilo bpe count`; several add up.

        The result is that of training on all the texts together. How they fell apart is known from the counts.
        """
        refuse(options, OF_TEXTS, "for texts, and these are counted already")
        paths = inputs_of(counts)
        chosen = Options(special_tokens=special_tokens, **options)
        pattern = options.get("pattern")
        return self._train(
            lambda _: counts_for(paths, chosen.special_tokens, pattern), vocab_size, chosen, progress
        )

    def encode(self, text: str | bytes, *, special_tokens: bool = True, threads: int | None = None) -> list[int]:
        """The ids of a text. With `special_tokens=False` the texts of special tokens are text like any other."""
        return self._trained.encode(text, special_tokens, threads)

    def encode_batch(
        self, texts: Iterable[str | bytes], *, special_tokens: bool = True, threads: int | None = None
    ) -> list[list[int]]:
        """The ids of each text, on all cores or as many threads as given."""
        if isinstance(texts, (str, bytes)):
            raise TypeError("texts must be a list of str, not a single str")
        return self._trained.encode_batch(list(texts), special_tokens, threads)

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        """The text of ids; a character of which only a part is there becomes what `errors` says (see `bytes.decode`)."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The bytes of ids, whether they are UTF-8 or not."""
        numbers = [int(id) for id in ids]
        try:
            return self._trained.decode(numbers)
        except OverflowError:
            raise ValueError(f"ids must be integers from 0 to {self.vocab_size - 1}") from None

    def save(self, folder: Path) -> list[pathlib.Path]:
        """Writes `tokenizer.json`, `vocab.json` + `merges.txt` and ranks for tiktoken; gives their paths.

        The ranks are left out, with a warning, where they cannot hold the tokenizer, such as without a token for each byte.
        """
        paths, why_no_ranks = self._trained.save(folder)
        if why_no_ranks is not None:
            warn_once(f"save() did not write ranks.tiktoken: {why_no_ranks}")
        return paths

    @classmethod
    def load(cls, path: Path, *, pattern: str | None = None, special_tokens: Sequence[str] = ()) -> Self:
        """Reads a folder of `save`, a `tokenizer.json`, or a file of ranks.

        `pattern` is for what does not say it: ranks without a `ranks.json`, and a folder with only `vocab.json` and
        `merges.txt`, for which `special_tokens` are looked up too.
        """
        bpe = cls()
        bpe._model = _read(pathlib.Path(path), pattern, list(special_tokens))
        return bpe

    def to_hf(self) -> tokenizers.Tokenizer:
        """The same as a `tokenizers.Tokenizer` of Hugging Face, which must be installed."""
        model = self._trained
        try:
            import tokenizers
        except ImportError as error:
            raise ImportError("to_hf() needs Hugging Face's tokenizers: pip install tokenizers") from error
        return tokenizers.Tokenizer.from_str(model.tokenizer_json())

    @property
    def vocab_size(self) -> int:
        """How many ids there are."""
        return self._trained.vocab_size

    @property
    def vocab(self) -> dict[str, int]:
        """Tokens and their ids, written as Hugging Face does: a space is `Ġ`."""
        vocab: dict[str, int] = json.loads(self._trained.vocab_json())
        return vocab

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The merges in order, written as Hugging Face does."""
        lines = self._trained.merges_txt().split("\n")[1:-1]
        return [(left, right) for left, right in (line.split(" ") for line in lines)]

    @property
    def tokens(self) -> list[bytes | None]:
        """The bytes of each id."""
        return self._trained.tokens()

    @property
    def special_tokens(self) -> dict[str, int]:
        """Special tokens and their ids."""
        return self._trained.special_tokens()

    @property
    def totals(self) -> dict[str, int]:
        """What was counted for the training: `documents`, `text_bytes`, `words`, `distinct_words` and others."""
        return dict(self._totals)

    def __getstate__(self) -> dict[str, Any]:
        """For processes that load data: the tokenizer as text."""
        return {"tokenizer_json": None if self._model is None else self._model.tokenizer_json(), "totals": self._totals}

    def __setstate__(self, state: dict[str, Any]) -> None:
        BPE.__init__(self)
        self._totals = state["totals"]
        if state["tokenizer_json"] is not None:
            self._model = BpeModel.read_tokenizer_json(state["tokenizer_json"].encode())

    def __len__(self) -> int:
        return self.vocab_size

    def __repr__(self) -> str:
        state = "untrained" if self._model is None else f"vocab_size={self.vocab_size}"
        return f"<{type(self).__name__} {state}>"

    @property
    def _trained(self) -> BpeModel:
        if self._model is None:
            raise ValueError("this tokenizer is not trained: call train() or load() first")
        return self._model

    def _train(
        self, count: Callable[[Bar | None], BpeCounts], vocab_size: int, chosen: Options, progress: bool | None
    ) -> Self:
        BpeCounts.check(vocabulary_size(vocab_size), chosen)
        bar = Bar() if is_shown(progress, sys.stderr) else None
        try:
            if bar is not None:
                bar.expect("count")
            counts = count(bar)
            if bar is not None:
                bar.expect("merge")
            self._learn(counts, vocab_size, chosen, bar)
        finally:
            if bar is not None:
                bar.close()
        return self

    def _learn(self, counts: BpeCounts, vocab_size: int, chosen: Options, bar: Bar | None) -> None:
        self._model = counts.train(vocab_size, chosen, bar)
        self._totals = counts.totals()


def _read(path: pathlib.Path, pattern: str | None, special_tokens: list[str]) -> BpeModel:
    if path.is_dir():
        vocab, merges = path / "vocab.json", path / "merges.txt"
        if not (path / "tokenizer.json").exists() and vocab.exists() and merges.exists():
            return BpeModel.read_vocab_merges(vocab, merges, special_tokens, pattern or "gpt2")
        path = path / "tokenizer.json"
    if path.suffix == ".json" and path.exists():
        return BpeModel.read_tokenizer_json(path.read_bytes())
    if not path.exists():
        raise FileNotFoundError(
            f"no tokenizer found: {path}\n"
            "hint: pass a folder written by save(), a tokenizer.json, or a file of tiktoken ranks"
        )
    beside = path.with_suffix(".json")
    info: dict[str, Any] = json.loads(beside.read_bytes()) if beside.exists() else {}
    pattern = pattern or info.get("pat_str")
    if pattern is None:
        raise ValueError(
            "a file of tiktoken ranks does not say how text is split into words\nhint: pass the pattern, such as pattern='cl100k'"
        )
    return BpeModel.read_ranks(path, info.get("special_tokens", {}), pattern)
