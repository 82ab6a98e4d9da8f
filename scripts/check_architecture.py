#!/usr/bin/env python3
"""Dependencies between our crates point one way, ARCHITECTURE.md has a row for each crate, `nilo-source` alone reads `/proc`, and no two types share a name.

The order is that of the data flow; a crate may use only the crates named in its row here.
Inside of the crates named in WITHOUT_CYCLES, modules do not use each other in a circle.
Packages that the command and the extension module have in common have the same features in both, so that the wheel compiles them once.
"""

import json
import pathlib
import subprocess
import sys

from module_cycles import find_cycle
from type_names import find_duplicates
from wheel_features import find_differing, tree_of

WITHOUT_CYCLES = ["nilo-answer", "nilo-cli"]

ALLOWED = {
    "nilo-sample": set(),
    "nilo-source": {"nilo-sample"},
    "nilo-runfile": {"nilo-sample"},
    "nilo-forecast": {"nilo-sample"},
    "nilo-rewards": set(),
    "nilo-advice": {"nilo-sample"},
    "nilo-analysis": {"nilo-sample", "nilo-forecast", "nilo-advice"},
    "nilo-request": {"nilo-sample", "nilo-forecast", "nilo-analysis"},
    "nilo-follow": {"nilo-sample", "nilo-runfile", "nilo-forecast", "nilo-analysis"},
    "nilo-answer": {"nilo-sample", "nilo-runfile", "nilo-forecast", "nilo-advice", "nilo-analysis", "nilo-request", "nilo-allocator", "nilo-weights", "nilo-model"},
    "nilo-import": {"nilo-sample"},
    "nilo-recorder": {
        "nilo-sample",
        "nilo-source",
        "nilo-runfile",
        "nilo-analysis",
        "nilo-follow",
        "nilo-answer",
    },
    "nilo-settings": {"nilo-sample", "nilo-runfile", "nilo-recorder"},
    "nilo-plot": {"nilo-sample", "nilo-analysis"},
    "nilo-export": {"nilo-sample", "nilo-runfile", "nilo-analysis"},
    "nilo-tokenizer": set(),
    "nilo-buffer": set(),
    "nilo-allocator": set(),
    "nilo-weights": set(),
    "nilo-model": {"nilo-allocator"},
    "nilo-cli": None,  # everything
    "nilo-py": None,  # everything
    "nilo-truth-bench": {"nilo-sample", "nilo-runfile"},
    "nilo-verdict-bench": {"nilo-sample", "nilo-runfile", "nilo-forecast", "nilo-analysis"},
}

# A run file says who wrote it and in which boot; that crate does not use nilo-source. A file without a name is named by its path there.
READS_PROC = {"crates/nilo-runfile/src/clock.rs", "crates/nilo-buffer/src/replaced_file.rs"}


# What each language says behind its code.
COMMENTS = {".rs": "//", ".py": "#"}


def readers_of_proc(root):
    """Files of the other crates and of the Python package that name a path in /proc, comments left out."""
    for path in sorted([*root.glob("crates/*/src/**/*.rs"), *root.glob("crates/*/hooks/**/*.py"), *root.glob("python/**/*.py")]):
        name = str(path.relative_to(root))
        if name.startswith("crates/nilo-source/") or name in READS_PROC:
            continue
        code = (line.split(COMMENTS[path.suffix])[0] for line in path.read_text().splitlines())
        if any('"/proc' in line for line in code):
            yield name


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"]
    metadata = json.loads(subprocess.check_output(command, cwd=root))
    architecture = (root / "ARCHITECTURE.md").read_text()
    errors = []
    for package in metadata["packages"]:
        name = package["name"]
        if name not in ALLOWED:
            errors.append(f"{name} has no row in scripts/check_architecture.py")
            continue
        if f"`{name}`" not in architecture:
            errors.append(f"{name} has no row in ARCHITECTURE.md")
        for dependency in package["dependencies"]:
            ours = dependency["name"].startswith("nilo-")
            allowed = ALLOWED[name]
            if ours and allowed is not None and dependency["name"] not in allowed:
                errors.append(f"{name} may not use {dependency['name']}")
    for name in WITHOUT_CYCLES:
        cycle = find_cycle(root / "crates" / name / "src")
        if cycle:
            errors.append(f"modules of {name} use each other: {' <- '.join(cycle)}")
    errors += [f"{name} reads /proc, which nilo-source is there for" for name in readers_of_proc(root)]
    for name, files in find_duplicates([*root.glob("crates/*/src"), *root.glob("bench/*/src")]).items():
        errors.append(f"{len(files)} types are named {name}: {', '.join(str(file.relative_to(root)) for file in files)}")
    differing = find_differing(tree_of(root, "nilo-cli"), tree_of(root, "nilo-py"))
    errors += [f"{package} has other features in nilo-cli than in nilo-py, and would be compiled twice for the wheel" for package in differing]
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    print(f"{len(metadata['packages'])} crates, {len(errors)} errors")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
