"""What the programs that measure have in common: one benchmark after the other, the tables, the page."""

import argparse
import datetime
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import machine
from processes import BenchmarkFailed


@dataclass(frozen=True)
class Program:
    """A program that measures: its path in the repository, and what its page is called and says beside the tables."""

    path: str
    title: str
    remarks: list[str]
    benchmarks: dict[str, Callable]

    def parser(self, description: str) -> argparse.ArgumentParser:
        """A parser with what every such program takes."""
        names = ", ".join(self.benchmarks)
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--only", nargs="+", choices=self.benchmarks, metavar="NAME", help=f"some of: {names}")
        parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the page")
        return parser

    def measure(self, arguments: argparse.Namespace, given: tuple, about_versions: Callable[[], list[str]]) -> None:
        """Runs the benchmarks, each with what is given; prints their tables, and writes the page when all were measured."""
        load_before, started = machine.load(), time.monotonic()
        results, failed = [], []
        for name in arguments.only or self.benchmarks:
            print(f"measuring {name} …", file=sys.stderr)
            try:
                found = self.benchmarks[name](*given)
            except BenchmarkFailed as failure:
                print(f"error: {name}: {failure}", file=sys.stderr)
                failed.append(name)
                continue
            for result in found if isinstance(found, list) else [found]:
                print(result.as_text(), end="\n\n", flush=True)
                results.append(result)
        about = [*machine.describe(), machine.describe_load(load_before, machine.load()), *about_versions()]
        print("\n".join(about))
        if failed:
            unwritten = "; no page written" if arguments.markdown else ""
            raise SystemExit(f"error: not measured: {', '.join(failed)}{unwritten}")
        if arguments.markdown:
            arguments.markdown.parent.mkdir(parents=True, exist_ok=True)
            arguments.markdown.write_text(self.page(results, about, (time.monotonic() - started) / 60))

    def page(self, results: list, about: list[str], minutes: float) -> str:
        command = " ".join(["python3", self.path, *sys.argv[1:]])
        head = [
            f"# {self.title}",
            "",
            f"Measured on {datetime.date.today().isoformat()}, in {minutes:.0f} minutes, by `{command}`.",
            *about,
            *self.remarks,
            "",
        ]
        return "\n".join(head) + "\n" + "\n".join(result.as_markdown() for result in results)
