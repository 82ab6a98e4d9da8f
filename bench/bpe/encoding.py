"""Encoding text for the first time: how fast, and whether the ids are the same."""

import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import goals
from effort import TITLES, Settings
from environment import FOLDER, PYTHON
from fresh import DRIVERS, Took, command, driver, say
from page import Table
from processes import BenchmarkFailed, scratch_folder
from training import command_line

# The one special token has the first id.
SEPARATOR_ID = 0
KINDS = {"mix1g": "RFCs and kernel sources", "code100": "kernel sources", "ml": "many languages"}


@dataclass(frozen=True)
class Encoder:
    name: str
    how: str | None  # the driver's name for it, nothing for our command
    gives: str


OURS = Encoder("nilo bpe encode", None, "a file")
OUR_PACKAGE = Encoder("nilometer encode_batch", "nilometer_encode_batch", "lists")
TIKTOKEN = Encoder("tiktoken encode_ordinary_batch", "tiktoken_encode_ordinary_batch", "lists")
ENCODERS = [
    OURS,
    OUR_PACKAGE,
    TIKTOKEN,
    Encoder("gigatoken encode_files", "gigatoken_encode_files", "an array"),
    Encoder("gigatoken encode_batch", "gigatoken_encode_batch", "an array"),
    Encoder("gigatoken encode_batch_list", "gigatoken_encode_batch_list", "lists"),
    Encoder("fastokens encode_batch_flat", "fastokens_encode_batch_flat", "an array"),
    Encoder("fastokens encode_batch", "fastokens_encode_batch", "objects"),
    Encoder("Hugging Face encode_batch_fast", "huggingface_encode_batch_fast", "objects"),
]


@dataclass(frozen=True)
class Encoded:
    """One run: the encoding alone, and the memory of the whole process."""

    wall_secs: float
    cpu_secs: float
    peak_bytes: int
    ids: int
    checksum: str


def measure(settings: Settings) -> list[Table]:
    with scratch_folder() as folder:
        learnt_from = settings.effort.training_text_of_encoding
        tokenizer = folder / "tokenizer"
        say(f"learning a vocabulary from {learnt_from}")
        command(command_line(settings, [settings.text(learnt_from)], tokenizer), folder)
        empty = folder / "empty.txt"
        empty.touch()
        return [measure_text(settings, title, text, tokenizer, empty) for title, text in unseen_texts(settings).items()]


def unseen_texts(settings: Settings) -> dict[str, Path]:
    """What each is called and where it lies; made once. The second is in other languages than the vocabulary was learnt from."""
    effort = settings.effort
    learnt_from = settings.text(effort.training_text_of_encoding)
    texts = {}
    for source in (effort.unseen_from, "ml"):
        output = FOLDER / f"unseen-{source}-{learnt_from.stem}-{effort.unseen_bytes}.txt"
        if not output.exists():
            script = Path(__file__).with_name("unseen.py")
            words = [settings.text(source), learnt_from, effort.unseen_bytes, output]
            subprocess.run([sys.executable, script, *map(str, words)], check=True)
        texts[KINDS[source]] = output
    return texts


def measure_text(settings: Settings, title: str, text: Path, tokenizer: Path, empty: Path) -> Table:
    runs: dict[Encoder, list[Encoded]] = {encoder: [] for encoder in ENCODERS}
    failures = []
    for _ in range(settings.effort.repeats):
        for encoder in list(runs):
            try:
                found = encode(settings, encoder, text, tokenizer, empty)
            except BenchmarkFailed as failure:
                if encoder in (OURS, OUR_PACKAGE):
                    raise
                say(f"{failure}")
                failures.append(f"{encoder.name} failed: {str(failure).splitlines()[-1]}")
                del runs[encoder]
                continue
            megabytes = text.stat().st_size / 1e6
            say(
                f"{title}: {encoder.name}: {megabytes / found.wall_secs:.1f} MB/s, "
                f"{megabytes / found.cpu_secs:.1f} MB per CPU s, {found.ids} ids {found.checksum}"
            )
            runs[encoder].append(found)
    return table_of(settings, title, text, runs, failures)


def encode(settings: Settings, encoder: Encoder, text: Path, tokenizer: Path, empty: Path) -> Encoded:
    with scratch_folder() as folder:
        if encoder.how:
            took = driver("encode", [encoder.how, tokenizer, text], folder)
            return Encoded(took.call_wall_secs, took.call_cpu_secs, took.peak_bytes, took.told["ids"], took.told["checksum"])
        whole, nothing = encode_file(settings, text, tokenizer, folder), encode_file(settings, empty, tokenizer, folder / "nothing")
        summed_up = subprocess.run(
            [PYTHON, DRIVERS / "ids.py", folder / "ids.bin", str(SEPARATOR_ID)], capture_output=True, text=True, check=True
        )
        ids, checksum = summed_up.stdout.split()
        wall_secs = max(whole.wall_secs - nothing.wall_secs, 1e-3)
        cpu_secs = max(whole.cpu_secs - nothing.cpu_secs, 1e-3)
        return Encoded(wall_secs, cpu_secs, whole.peak_bytes, int(ids), checksum)


def encode_file(settings: Settings, text: Path, tokenizer: Path, folder: Path) -> Took:
    folder.mkdir(exist_ok=True)
    words = [settings.nilo, "bpe", "encode", text, "-t", tokenizer, "-o", folder / "ids.bin", "--format", "u16"]
    return command(words, folder)


def table_of(settings: Settings, title: str, text: Path, runs: dict[Encoder, list[Encoded]], failures: list[str]) -> Table:
    table = Table(
        f"Encoding {title}, not seen before",
        {
            "who": "each in a fresh process, in turns, on all cores; the first text of any length, so no cache is warm.",
            "ids as": "what the call gives: lists of Python numbers take time of their own.",
            "MB/s": "size of the text divided by the median time of encoding.",
            "× tiktoken": "likewise after the column that follows.",
            "MB per CPU s": "size of the text divided by the median CPU time of encoding, all threads together.",
            "× tiktoken, CPU": "",
            "peak MB": "median highest resident memory of the process, loading included.",
            "ids": "how many.",
            "checksum": "of all ids without those of the separator.",
        },
    )
    megabytes = text.stat().st_size / 1e6
    speed = {
        encoder: (megabytes / median(found, "wall_secs"), megabytes / median(found, "cpu_secs")) for encoder, found in runs.items()
    }
    for encoder, found in runs.items():
        wall, cpu = speed[encoder]
        table.rows.append([
            encoder.name, encoder.gives,
            f"{wall:.1f}", ratio(wall, speed, 0), f"{cpu:.1f}", ratio(cpu, speed, 1),
            f"{median(found, 'peak_bytes') / 1e6:.0f}", str(found[0].ids), found[0].checksum,
        ])
    ours = runs[OURS][0].checksum
    others = [encoder.name for encoder, found in runs.items() if any(one.checksum != ours for one in found)]
    table.notes = [
        f"{megabytes:.1f} MB; a vocabulary of {settings.effort.vocabulary_size} learnt from "
        f"{TITLES[settings.effort.training_text_of_encoding]}, none of these documents among them.",
        f"Runs of each: {settings.effort.repeats}. Loading the library, the vocabulary and the documents and encoding a few words is not counted; "
        "`nilo bpe encode` and `encode_files` read the file while they encode, and of our command the time for an empty text is subtracted.",
        f"Other ids than ours: {', '.join(others)}." if others else "All give the same ids.",
        *failures,
    ]
    if TIKTOKEN in speed:
        for encoder in (OURS, OUR_PACKAGE):
            found = speed[encoder][1] / speed[TIKTOKEN][1]
            table.notes.append(goals.at_least(f"{encoder.name} encodes in a CPU second", goals.TIMES_TIKTOKEN, found, "× what tiktoken does"))
    return table


def median(found: list[Encoded], figure: str) -> float:
    return statistics.median(getattr(one, figure) for one in found)


def ratio(figure: float, speed: dict[Encoder, tuple[float, float]], which: int) -> str:
    return f"{figure / speed[TIKTOKEN][which]:.1f}×" if TIKTOKEN in speed else "–"
