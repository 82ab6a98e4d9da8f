"""Cutting text into words, on one core: our scanners, the regular expressions that they replace, and Hugging Face."""

import re
import statistics
from pathlib import Path

import goals
from effort import TITLES, Settings
from fresh import command, driver, say
from page import Table, spread
from processes import scratch_folder

REGULAR_EXPRESSIONS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
# Of each text 5 MB are cut by the slow ones too.
SMALL = {"en100": "small-en", "ml": "small-ml"}


def measure(settings: Settings) -> Table:
    table = Table(
        "Cutting text into words, on one core",
        {
            "text": "",
            "pattern": "",
            "scanned MB/s": "median of passes over the whole text in memory, boundaries found and nothing else.",
            "lowest..highest": "of the passes.",
            "counted MB/s": "median of reading, cutting and counting the words of the whole text, one thread.",
            "regular expression MB/s": "`fancy-regex`, which tiktoken uses as well, on 5 MB: median of passes.",
            "× scanned": "our scanner divided by that.",
            "Hugging Face MB/s": "`ByteLevel.pre_tokenize_str` for each document of 5 MB, by CPU time, the Python lists included.",
            "words": "whether scanner and regular expression find the same boundaries in the 5 MB.",
        },
        notes=[f"Runs of each: {settings.effort.repeats}, in turns; scanning passes over the text five times in a run."],
    )
    for text in settings.effort.scanned_texts:
        for pattern, expression in REGULAR_EXPRESSIONS.items():
            table.rows.append(row(settings, text, pattern, expression, table.notes))
    return table


def row(settings: Settings, text: str, pattern: str, expression: str, notes: list[str]) -> list[str]:
    small = settings.text(SMALL.get(text, text))
    scanned, counted, by_regex, by_huggingface, boundaries = [], [], [], [], {"scanner": set(), "regex": set()}
    for _ in range(settings.effort.repeats):
        scanned += scan(settings, settings.text(text), pattern)[0]
        counted.append(count(settings, settings.text(text), pattern))
        boundaries["scanner"].add(scan(settings, small, pattern)[1])
        # In a group it is no longer recognised as a pattern that has a scanner.
        rates, found = scan(settings, small, f"(?:{expression})")
        by_regex += rates
        boundaries["regex"].add(found)
        if pattern == "gpt2":
            by_huggingface.append(huggingface(small))
    rate, regex_rate = statistics.median(scanned), statistics.median(by_regex)
    say(f"{text}, {pattern}: scanned at {rate:.0f} MB/s, counted at {statistics.median(counted):.0f} MB/s, by regex {regex_rate:.1f} MB/s")
    if pattern == "gpt2":
        notes.append(goals.at_least(f"scanning {TITLES[text]} with gpt2 reaches", goals.SCAN_MB_PER_SECOND, rate, " MB/s a core", 0))
    return [
        TITLES[text], pattern, f"{rate:.0f}", spread(scanned, 0), f"{statistics.median(counted):.0f}",
        f"{regex_rate:.1f}", f"{rate / regex_rate:.1f}×",
        f"{statistics.median(by_huggingface):.1f}" if by_huggingface else "–",
        "the same" if boundaries["scanner"] == boundaries["regex"] else "**others**",
    ]


def scan(settings: Settings, text: Path, pattern: str) -> tuple[list[float], str]:
    """The speed of each pass, and what stands for the boundaries."""
    output = run_example(settings, text, "0", pattern)
    rates = [float(rate) for rate in re.findall(r"scanned at (\d+) MB/s", output)]
    return rates, re.search(r"MB/s, (.*)", output)[1]


def count(settings: Settings, text: Path, pattern: str) -> float:
    output = run_example(settings, text, "1", pattern)
    return float(re.search(r"counted in .* s, (\d+) MB/s", output)[1])


def run_example(settings: Settings, text: Path, threads: str, pattern: str) -> str:
    with scratch_folder() as folder:
        command([settings.examples / "count", text, threads, pattern], folder)
        return (folder / "output.txt").read_text()


def huggingface(text: Path) -> float:
    with scratch_folder() as folder:
        return text.stat().st_size / 1e6 / driver("pretokenize", [text], folder).call_cpu_secs
