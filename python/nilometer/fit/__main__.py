"""`python -m nilometer.fit --truth FILE.json`: estimates beside what was measured on a GPU."""

from __future__ import annotations

import argparse
import json
import sys

from .._trouble import NilometerError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m nilometer.fit", description="Compare estimates of GPU memory with measured trainings and inferences.")
    parser.add_argument("--truth", metavar="FILE", required=True, help="measured cases as JSON: a list with name, config, mode, dtype, batch, seq, peak_alloc, ...")
    parser.add_argument("--format", choices=["text", "json"], default="text", help="a line for each case (the default), or JSON")
    chosen = parser.parse_args(arguments)
    try:
        from .truth import compare, read_cases
    except ImportError as error:
        print(f"error: {error}\nhint: estimates need PyTorch: pip install torch", file=sys.stderr)
        return 2
    try:
        comparisons = []
        for found in compare(read_cases(chosen.truth)):
            comparisons.append(found)
            if chosen.format == "text":
                print(line_of(found), flush=True)
    except NilometerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if chosen.format == "json":
        json.dump({"schema": "nilo.fit-truth/1", "cases": [found.as_json() for found in comparisons]}, sys.stdout, indent=2)
        print()
    return 0


def line_of(found: object) -> str:
    from .truth import Comparison

    assert isinstance(found, Comparison)
    if found.problem is not None:
        return f"{found.name:32} not estimated: {found.problem}"
    cells = []
    for figure, values in found.figures.items():
        error = values["estimate"] / values["truth"] - 1
        name = figure.removeprefix("peak_").removesuffix("_bytes")
        cells.append(f"{name} {values['estimate'] / 2**30:7.2f} of {values['truth'] / 2**30:7.2f} GiB ({error:+.2%})")
    return f"{found.name:32} {'  '.join(cells)}"


if __name__ == "__main__":
    sys.exit(main())
