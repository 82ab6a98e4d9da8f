"""Training: time, CPU time and memory of ours and of the rivals, and whether they learn the same merges."""

import shutil
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import goals
from agreement import agreement
from effort import TITLES, Settings
from fresh import Took, command, driver, say
from page import Table, spread, times
from processes import BenchmarkFailed, scratch_folder

SEPARATOR = "<|endoftext|>"
LARGE_TEXTS = ("mix1g", "ml")


@dataclass(frozen=True)
class Trainer:
    """Someone who trains. `library` is the driver's name for it, nothing for our command."""

    name: str
    library: str | None
    is_ours: bool = False
    is_quick: bool = False  # quick enough to be repeated on the large texts
    is_left_out: Callable[[Settings, str], bool] = lambda settings, text: False

    def train(self, settings: Settings, text: str, folder: Path) -> Took:
        size = settings.effort.vocabulary_size
        if self.library:
            return driver("train", [self.library, settings.text(text), size], folder)
        return command(command_line(settings, [settings.text(text)], folder / "tokenizer"), folder)

    def repeats(self, settings: Settings, text: str) -> int:
        return settings.effort.repeats if self.is_quick or text not in LARGE_TEXTS else 1

    def learned(self, folder: Path) -> Path:
        return folder / ("learned.txt" if self.library else "tokenizer/merges.txt")


def command_line(settings: Settings, texts: list[Path], output: Path, *more) -> list:
    return [
        settings.nilo, "bpe", "train", *texts, "--vocab-size", settings.effort.vocabulary_size,
        "--special-token", SEPARATOR, "-o", output, *more,
    ]


OURS = Trainer("nilo bpe train", None, is_ours=True, is_quick=True)
OUR_PACKAGE = Trainer("nilometer, Python", "nilometer", is_ours=True, is_quick=True)
TRAINERS = [
    OURS,
    OUR_PACKAGE,
    Trainer("gigatoken", "gigatoken", is_quick=True),
    Trainer("ffbpe", "ffbpe"),
    Trainer("rustbpe", "rustbpe"),
    Trainer(
        "Hugging Face tokenizers", "huggingface",
        is_left_out=lambda settings, text: text in LARGE_TEXTS and not settings.huggingface_everywhere,
    ),
    Trainer("bpeasy", "bpeasy", is_left_out=lambda settings, text: not settings.all_rivals or text in LARGE_TEXTS),
    Trainer("sentencepiece", "sentencepiece", is_left_out=lambda settings, text: not settings.all_rivals or text in LARGE_TEXTS),
]


def measure(settings: Settings) -> list[Table]:
    return [measure_text(settings, text) for text in settings.effort.training_texts]


def measure_text(settings: Settings, text: str) -> Table:
    with scratch_folder() as kept:
        found = Measured(kept)
        trainers = [trainer for trainer in TRAINERS if not trainer.is_left_out(settings, text)]
        for turn in range(settings.effort.repeats):
            for trainer in trainers:
                if turn < trainer.repeats(settings, text) and trainer.name not in found.failures:
                    measure_once(settings, text, trainer, found)
        return table_of(settings, text, [trainer for trainer in trainers if trainer.name not in found.failures], found)


def measure_once(settings: Settings, text: str, trainer: Trainer, found: "Measured") -> None:
    with scratch_folder() as folder:
        try:
            took = trainer.train(settings, text, folder)
        except BenchmarkFailed as failure:
            if trainer.is_ours:
                raise
            say(f"{text}: {failure}")
            found.failures[trainer.name] = str(failure).splitlines()[-1]
            return
        say(f"{text}: {trainer.name}: {took.sentence()}")
        found.took.setdefault(trainer.name, []).append(took)
        shutil.copy(trainer.learned(folder), found.learned(trainer))


@dataclass
class Measured:
    """What is known of the trainers on one text."""

    kept: Path
    took: dict[str, list[Took]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def learned(self, trainer: Trainer) -> Path:
        return self.kept / f"{trainer.library or 'ours'}.txt"

    def middle(self, trainer: Trainer) -> Took:
        return median_of(self.took[trainer.name])


def table_of(settings: Settings, text: str, trainers: list[Trainer], found: Measured) -> Table:
    table = Table(
        f"Training on {TITLES[text]}",
        {
            "who": "each in a fresh process, in turns, on all cores.",
            "runs": "",
            "wall s": "median time from the start of the process to its end; with a Python library to the end of the training "
            "call, so that only our command's contains writing the files.",
            "lowest..highest": "of the runs.",
            "× ours": "divided by that of `nilo bpe train`; likewise after the columns that follow.",
            "CPU s": "median, user and system time of all threads.",
            "× CPU": "",
            "call s": "median time of the training call alone, without starting Python and importing.",
            "× call": "divided by that of nilometer's call.",
            "peak MB": "median of the highest resident memory (`ru_maxrss`), mapped files included.",
            "× peak": "",
            "merges": "compared with ours, in order; of ffbpe, rustbpe and bpeasy the tokens that the merges made.",
        },
    )
    ours, our_call = found.middle(OURS), found.middle(OUR_PACKAGE).call_wall_secs
    for trainer in trainers:
        runs, middle = found.took[trainer.name], found.middle(trainer)
        call = middle.call_wall_secs
        table.rows.append([
            trainer.name, str(len(runs)),
            f"{middle.wall_secs:.2f}", spread([one.wall_secs for one in runs], 2), times(middle.wall_secs, ours.wall_secs),
            f"{middle.cpu_secs:.2f}", times(middle.cpu_secs, ours.cpu_secs),
            "–" if call is None else f"{call:.2f}", "–" if call is None else times(call, our_call),
            f"{middle.peak_bytes / 1e6:.0f}", times(middle.peak_bytes, ours.peak_bytes),
            "–" if trainer is OURS else agreement(found.learned(trainer), found.learned(OURS)),
        ])
    table.notes = [
        f"Vocabulary of {settings.effort.vocabulary_size}, GPT-2's pattern, documents parted by `{SEPARATOR}`; {size_of(settings, text)}.",
        *notes_about(trainers),
        *(f"{name} failed: {sentence}" for name, sentence in found.failures.items()),
        *judged(text, {trainer.library: found.middle(trainer) for trainer in trainers}, ours),
    ]
    return table


def notes_about(trainers: list[Trainer]) -> list[str]:
    present = {trainer.library for trainer in trainers}
    about = {
        "gigatoken": "gigatoken maps the text into memory, and its peak contains the pages of it.",
        "rustbpe": "rustbpe resolves ties by other ids, so it learns some tokens earlier or later.",
        "sentencepiece": "sentencepiece learns from characters instead of bytes: other tokens, here for scale.",
    }
    return [sentence for library, sentence in about.items() if library in present]


def judged(text: str, by_library: dict[str | None, Took], ours: Took) -> list[str]:
    sentences = [
        goals.at_least(f"{library}'s time is", goal, by_library[library].wall_secs / ours.wall_secs, "× ours")
        for library, goal in goals.TIMES_FASTER.get(text, {}).items()
        if library in by_library
    ]
    if text in goals.TRAINING_PEAK_MB:
        sentences.append(goals.at_most("our peak is", goals.TRAINING_PEAK_MB[text], ours.peak_bytes / 1e6, " MB"))
    return sentences


def median_of(found: list[Took]) -> Took:
    """The median of each figure by itself."""

    def middle(figure: str) -> float | None:
        values = [getattr(one, figure) for one in found]
        return None if None in values else statistics.median(values)

    return Took(*(middle(figure) for figure in ("wall_secs", "cpu_secs", "peak_bytes", "call_wall_secs", "call_cpu_secs")))


def size_of(settings: Settings, text: str) -> str:
    return f"{settings.text(text).stat().st_size / 1e6:.1f} MB"
