"""What a run is made of: the interpreter, the packages that matter, the GPUs; and how the program is called."""

from __future__ import annotations

import json
import os
import sys

from ._notebook import notebook_file

# Those that change results or memory. Only what is imported by then counts: looking up the others would take longer than the rest.
_PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "deepspeed",
    "lightning",
    "pytorch_lightning",
    "datasets",
    "tokenizers",
    "numpy",
    "jax",
    "tensorflow",
    "keras",
    "vllm",
    "sklearn",
    "xgboost",
)


def program_json() -> str:
    """Python, packages and GPUs, as JSON."""
    from . import __version__

    packages = {"nilometer": __version__}
    for name in _PACKAGES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            packages[name] = str(version)
    found = {"python": sys.version.split()[0], "packages": packages, "gpus": _gpus()}
    return json.dumps(found)


def _gpus() -> list[str]:
    """The GPUs of a program that uses CUDA already: asking would otherwise start it."""
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return []
        return [str(torch.cuda.get_device_name(index)) for index in range(torch.cuda.device_count())]
    except Exception:  # noqa: BLE001 - a driver in trouble is no reason not to train
        return []


def command() -> list[str]:
    """The program with its arguments; in a notebook, the notebook."""
    notebook = notebook_file()
    if notebook is not None:
        return [notebook]
    return [word if isinstance(word, str) else str(word) for word in (sys.argv or ["python"])]


def notebook_name() -> str | None:
    """The name of a run that a notebook begins without giving one; None in other programs."""
    notebook = notebook_file()
    return os.path.basename(notebook).removesuffix(".ipynb") if notebook is not None else None
