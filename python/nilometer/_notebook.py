"""Which notebook this program is, as far as anybody says it."""

from __future__ import annotations

import os
import sys

from . import _native

# These serve many notebooks, whichever they were started with.
_SERVERS = {"lab", "labhub", "jupyterlab", "jupyter_server", "nbclassic", "notebook", "server", "singleuser"}
# What a notebook without a name is called.
_UNNAMED = "notebook"


def notebook_file() -> str | None:
    """The notebook's file, or a plain word where nobody says it; None in other programs."""
    if "ipykernel" not in sys.modules:
        return None
    main = sys.modules.get("__main__")
    # VS Code and papermill (`--inject-paths`) set a variable, and Jupyter's server tells its kernels.
    told = (
        getattr(main, "__vsc_ipynb_file__", None),
        getattr(main, "PAPERMILL_INPUT_PATH", None),
        os.environ.get("JPY_SESSION_NAME"),
    )
    for path in told:
        if _is_notebook(path):
            return str(path)
    # `jupyter nbconvert --execute`, `jupyter execute` and papermill start the kernel themselves.
    return notebook_in(_native.process_arguments(os.getppid())) or _UNNAMED


def notebook_in(arguments: list[str]) -> str | None:
    """The notebook that a command executes; None where it may be one of several.

    >>> notebook_in(["python", "/usr/bin/jupyter-nbconvert", "--execute", "--to", "notebook", "train.ipynb", "--output=done.ipynb"])
    'train.ipynb'
    >>> notebook_in(["python", "/usr/bin/papermill", "-p", "lr", "0.1", "train.ipynb", "done.ipynb"])
    'train.ipynb'
    >>> notebook_in(["python", "/usr/bin/jupyter-execute", "one.ipynb", "two.ipynb"])
    >>> notebook_in(["python", "/usr/bin/jupyter-lab", "train.ipynb"])
    """
    words = list(zip(["", *map(os.path.basename, arguments)], arguments))
    if any(_is_server(before, os.path.basename(word)) for before, word in words):
        return None
    found = [
        word for before, word in words if _is_notebook(word) and not word.startswith("-") and before != "--output"
    ]
    if any(os.path.basename(word) == "papermill" for word in arguments[:4]):
        # Its second notebook is what it writes.
        return found[0] if found else None
    return found[0] if len(found) == 1 else None


def _is_server(before: str, word: str) -> bool:
    is_program = word.startswith("jupyter-") or before in ("jupyter", "-m")
    return is_program and word.removeprefix("jupyter-") in _SERVERS


def _is_notebook(path: object) -> bool:
    return isinstance(path, str) and path.endswith(".ipynb")
