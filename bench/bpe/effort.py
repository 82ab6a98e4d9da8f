"""How thorough a run of the BPE benchmarks is, and where its parts lie."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Budget:
    """Trainings on one text with bounds on their memory."""

    text: str
    mebibytes: tuple[int | None, ...] = (None,)  # without a figure it is a quarter of the text's size
    times: int = 1  # how often the text is given
    rare_word_lines: int | None = None  # after how many lines a word is put that occurs once


@dataclass(frozen=True)
class Effort:
    repeats: int
    vocabulary_size: int
    training_texts: tuple[str, ...]
    training_text_of_encoding: str
    unseen_from: str  # the text whose end is encoded
    unseen_bytes: int
    budgets: tuple["Budget", ...]
    scanned_texts: tuple[str, ...]

    def texts(self) -> list[str]:
        """Every text that is needed, as `corpora.py` calls them; two are for encoding and for the slow pre-tokenizers."""
        names = {
            *self.training_texts, self.training_text_of_encoding, self.unseen_from, *self.scanned_texts, "ml", "small",
            *(budget.text for budget in self.budgets),
        }
        return sorted({"small" if name.startswith("small-") else name for name in names})


QUICK = Effort(
    repeats=2, vocabulary_size=8_000,
    training_texts=("small-en", "small-ml"),
    training_text_of_encoding="small-en", unseen_from="code100", unseen_bytes=3_000_000,
    budgets=(Budget("en100", mebibytes=(32,), times=2),),
    scanned_texts=("small-en", "small-ml"),
)
NORMAL = Effort(
    repeats=3, vocabulary_size=32_000,
    training_texts=("en100", "code100", "ml", "mix1g"),
    training_text_of_encoding="en100", unseen_from="mix1g", unseen_bytes=20_000_000,
    budgets=(
        Budget("mix1g", mebibytes=(None, 56)), Budget("mix1g", rare_word_lines=8),
        Budget("ml"), Budget("ml", times=4),
    ),
    scanned_texts=("en100", "ml"),
)


@dataclass(frozen=True)
class Settings:
    effort: Effort
    nilo: Path
    examples: Path  # folder of the built examples of nilo-tokenizer
    texts: Path
    all_rivals: bool  # also those that are slow or learn something else
    huggingface_everywhere: bool  # also on the large texts, where it takes many minutes

    def text(self, name: str) -> Path:
        return self.texts / f"{name}.txt"


TITLES = {
    "en100": "100 MB of RFCs",
    "code100": "100 MB of kernel sources",
    "ml": "200 MB in many languages",
    "mix1g": "1 GB of RFCs and kernel sources",
    "small-en": "5 MB of RFCs",
    "small-ml": "5 MB in many languages",
}
