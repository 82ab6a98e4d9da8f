"""Training with a bound on memory: whether it is kept, what that costs, and whether the result stays the same."""

import hashlib
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import goals
from effort import TITLES, Budget, Settings
from environment import FOLDER
from fresh import Took, command, say
from page import Table, times
from processes import BenchmarkFailed, scratch_folder
from training import command_line

MEBIBYTE = 1 << 20
# A refusal says what would do.
MOST_RAISES = 3


def measure(settings: Settings) -> Table:
    table = Table(
        "Training in bounded memory",
        {
            "text": "",
            "MB": "",
            "budget MiB": "what `--memory-budget` said: a quarter of the text, unless that was refused or less is tried on purpose.",
            "text ÷ budget": "",
            "threads": "",
            "peak MiB": "highest resident memory of the process (`ru_maxrss`).",
            "peak ÷ budget": "",
            "wall s": "",
            "× unbounded": "divided by the time without a budget, on all cores.",
            "CPU s": "",
            "written MB": "to disk: the result, and words that did not fit while counting.",
            "result": "`tokenizer.json` compared with that of the unbounded training.",
        },
        notes=[f"Vocabulary of {settings.effort.vocabulary_size}; one run of each."],
    )
    highest, most_times, is_all_same = 0.0, 0.0, True
    for budget in settings.effort.budgets:
        for share, size_ratio, is_same in measure_budget(settings, budget, table):
            highest, is_all_same = max(highest, share), is_all_same and is_same
            most_times = max(most_times, size_ratio)
    table.notes += [
        goals.at_most("the peak is", goals.BUDGET_EXCESS, highest, "× the budget", 2),
        goals.at_least("a text is", 4.0, most_times, "× the budget"),
        f"Goal: the same bytes whatever the budget and the threads; {goals.verdict(is_all_same)}.",
    ]
    return table


def measure_budget(settings: Settings, budget: Budget, table: Table) -> list[tuple[float, float, bool]]:
    """Adds rows, and gives peak ÷ budget, text ÷ budget and whether the result is the same, for each of them."""
    paths = [text_of(settings, budget)] * budget.times
    size_bytes = sum(path.stat().st_size for path in paths)
    title = title_of(budget)
    unbounded, wanted = train(settings, paths, None, None)
    say(f"{title}: without a budget: {unbounded.sentence()}")
    table.rows.append([
        title, f"{size_bytes / 1e6:.0f}", "none", "–", "all", f"{unbounded.peak_bytes / MEBIBYTE:.0f}", "–",
        f"{unbounded.wall_secs:.2f}", "1.0×", f"{unbounded.cpu_secs:.2f}", f"{unbounded.written_bytes / 1e6:.0f}", "–",
    ])
    figures = []
    for mebibytes in accepted_budgets(settings, budget, paths, size_bytes, table.notes):
        for threads in (1, len(os.sched_getaffinity(0))):
            took, found = train(settings, paths, mebibytes, threads)
            allowed_bytes, is_same = mebibytes * MEBIBYTE, found == wanted
            result = "the same" if is_same else "**another**"
            say(f"{title}: {mebibytes} MiB, {threads} threads: {took.sentence()}, {result} result")
            figures.append((took.peak_bytes / allowed_bytes, size_bytes / allowed_bytes, is_same))
            table.rows.append([
                title, f"{size_bytes / 1e6:.0f}", str(mebibytes), f"{size_bytes / allowed_bytes:.1f}", str(threads),
                f"{took.peak_bytes / MEBIBYTE:.0f}", f"{took.peak_bytes / allowed_bytes:.2f}",
                f"{took.wall_secs:.2f}", times(took.wall_secs, unbounded.wall_secs), f"{took.cpu_secs:.2f}",
                f"{took.written_bytes / 1e6:.0f}", result,
            ])
    return figures


def accepted_budgets(settings: Settings, budget: Budget, paths: list[Path], size_bytes: int, notes: list[str]) -> list[int]:
    """The budgets that are tried, in MiB; of one that is refused, the notes tell."""
    accepted = []
    for mebibytes in budget.mebibytes:
        wanted = mebibytes or size_bytes // 4 // MEBIBYTE
        accepted.append(least_accepted(settings, paths, wanted))
        if accepted[-1] != wanted:
            notes.append(
                f"{title_of(budget)}: {wanted} MiB are refused, {accepted[-1]} MiB are said to be the least and are accepted."
            )
    return accepted


def least_accepted(settings: Settings, paths: list[Path], mebibytes: int) -> int:
    """The budget itself, or when it is refused the first larger one that is not; words are counted once for that."""
    with scratch_folder() as folder:
        counts = folder / "counts"
        command([settings.nilo, "bpe", "count", *paths, "--special-token", "<|endoftext|>", "-o", counts], folder)
        for _ in range(MOST_RAISES):
            words = command_line(settings, [], folder / "tokenizer", "--from-counts", counts, "--memory-budget", f"{mebibytes}MiB")
            refusal = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
            if refusal.returncode == 0:
                return mebibytes
            said = re.search(r"at least ([\d.]+) MiB are needed", refusal.stderr)
            if not said:
                raise BenchmarkFailed(f"a budget of {mebibytes} MiB: {refusal.stderr.strip()}")
            say(f"{mebibytes} MiB are refused: {said[0]}")
            mebibytes = max(math.ceil(float(said[1])), mebibytes + 1)
    raise BenchmarkFailed(f"no budget up to {mebibytes} MiB was accepted")


def train(settings: Settings, paths: list[Path], mebibytes: int | None, threads: int | None) -> tuple[Took, str]:
    """What it took, and the checksum of the result."""
    more = [] if mebibytes is None else ["--memory-budget", f"{mebibytes}MiB"]
    more += [] if threads is None else ["--threads", str(threads)]
    with scratch_folder() as folder:
        took = command(command_line(settings, paths, folder / "tokenizer", "--temp-dir", folder, *more), folder)
        with open(folder / "tokenizer" / "tokenizer.json", "rb") as result:
            return took, hashlib.file_digest(result, "sha256").hexdigest()


def text_of(settings: Settings, budget: Budget) -> Path:
    """The text, or one that is made of it once, in a process of its own."""
    text = settings.text(budget.text)
    if budget.rare_word_lines is None:
        return text
    output = FOLDER / f"rare-{budget.rare_word_lines}-{budget.text}.txt"
    if not output.exists():
        say(f"making {output.name}")
        script = Path(__file__).with_name("rare_words.py")
        subprocess.run([sys.executable, script, text, str(budget.rare_word_lines), output], check=True)
    return output


def title_of(budget: Budget) -> str:
    title = TITLES[budget.text]
    if budget.rare_word_lines is not None:
        title += f", a word that occurs once after every {budget.rare_word_lines} lines"
    return title if budget.times == 1 else f"{title}, {budget.times} times over"
