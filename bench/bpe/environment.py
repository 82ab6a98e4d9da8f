"""The libraries that BPE is measured against, in an environment of their own, and nilometer from the working tree.

Versions are pinned: a figure says something only together with the version that it was measured on.
"""

import subprocess
import sys
from pathlib import Path

from settings import REPOSITORY

FOLDER = REPOSITORY / "target" / "bench-bpe"
ENVIRONMENT = FOLDER / "venv"
PYTHON = ENVIRONMENT / "bin" / "python"
PACKAGES = [
    "gigatoken==0.10.0",
    "tokenizers==0.23.3",
    "rustbpe==0.1.0",
    "ffbpe==0.1.10",
    "tiktoken==0.14.0",
    "fastokens==0.3.5",
    "bpeasy==0.1.6",
    "sentencepiece==0.2.2",
]
NATIVE_MODULE = REPOSITORY / "python" / "nilometer" / "_native.abi3.so"


def install() -> None:
    """Installs what is missing; does nothing the second time."""
    if not NATIVE_MODULE.exists():
        module = NATIVE_MODULE.relative_to(REPOSITORY)
        raise SystemExit(f"error: nilometer's native module is missing: {module}\nhint: make develop")
    ready = ENVIRONMENT / "ready"
    wanted = "\n".join(PACKAGES)
    if ready.exists() and ready.read_text() == wanted:
        return
    print(f"installing {', '.join(PACKAGES)} into {ENVIRONMENT.relative_to(REPOSITORY)}", file=sys.stderr)
    FOLDER.mkdir(parents=True, exist_ok=True)
    ready.unlink(missing_ok=True)
    try:
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        pip = [PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--only-binary", ":all:"]
        subprocess.run([*pip, *PACKAGES], check=True, stderr=subprocess.PIPE, text=True)
    except subprocess.CalledProcessError as failure:
        reason = (failure.stderr or "the virtual environment could not be made").strip().splitlines()[-1]
        raise SystemExit(
            f"error: the libraries to compare with could not be installed from PyPI: {reason.removeprefix('ERROR: ')}\n"
            "hint: this needs a network that reaches PyPI, and Python 3.11 or newer with venv"
        ) from None
    for packages in (ENVIRONMENT / "lib").glob("python*/site-packages"):
        (packages / "nilometer-of-the-working-tree.pth").write_text(f"{REPOSITORY / 'python'}\n")
    ready.write_text(wanted)


def versions(nilo: Path) -> str:
    rivals = ", ".join(package.replace("==", " ") for package in PACKAGES)
    ours = subprocess.run([nilo, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{ours}; {rivals}"
