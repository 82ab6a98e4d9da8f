"""`python -m nilometer`: the command that was installed with this package takes the place of the interpreter."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from typing import NoReturn

_NAME = "nilo"


def run(arguments: Sequence[str]) -> NoReturn:
    """Becomes `nilo` with these arguments: signals, output and exit status are its own."""
    path = find_command()
    if path is None:
        sys.exit(f"error: the command {_NAME} was not found beside this Python or in PATH\nhint: reinstall the package with `pip install --force-reinstall nilometer`")
    os.execv(path, [_NAME, *arguments])


def find_command() -> str | None:
    """The command of this environment, before any other one in PATH."""
    for folder in _script_folders():
        path = os.path.join(folder, _NAME)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return shutil.which(_NAME)


def _script_folders() -> Iterator[str]:
    yield sysconfig.get_path("scripts")
    yield os.path.dirname(sys.executable)
    # `pip install --user`, and `pip install --target`, which puts scripts beside the package.
    yield sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
