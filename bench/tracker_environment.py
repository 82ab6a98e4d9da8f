"""The trackers that we are measured against, and nilometer itself: installing them, driving them in processes of their own.

The rivals come from PyPI, in the newest version, into an environment of their own.
nilometer is taken from the working tree, where its native module lies after `make develop`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from processes import BenchmarkFailed
from settings import REPOSITORY
from tracker_settings import DRIVERS

ENVIRONMENT = REPOSITORY / ".venv-bench-trackers"
PYTHON = ENVIRONMENT / "bin" / "python"
PACKAGES = ["numpy", "pyarrow", "trackio", "wandb", "tensorboard", "tensorboardX", "mlflow"]
AIM_INSTALL_SECS = 180
NATIVE_MODULE = REPOSITORY / "python" / "nilometer" / "_native.abi3.so"
DRIVER_SECS = 400
# Helpers of a killed tracker may still write: they get this long.
HELPER_SECS = 5


@dataclass(frozen=True)
class Trackers:
    """What there is to measure."""

    is_nilometer_installed: bool  # into the environment, rather than taken from the working tree
    has_aim: bool

    def names(self) -> list[str]:
        aim = ["aim"] if self.has_aim else []
        return ["nilometer", "list_and_json", "jsonl", "sqlite", "trackio", "wandb", "tensorboard", "tensorboardx", "mlflow", *aim]

    def variables(self) -> dict[str, str]:
        """The environment of every measured process: one thread for numpy, and nobody else's settings."""
        foreign = ("NILO_", "WANDB_", "MLFLOW_", "TRACKIO_", "AIM_", "PYTHON")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        kept |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        return kept if self.is_nilometer_installed else kept | {"PYTHONPATH": str(REPOSITORY / "python")}


TITLES = {
    "nothing": "(timer alone)",
    "dictionary": "(dictionary alone)",
    "nilometer": "nilometer",
    "list_and_json": "list, JSON at the end",
    "jsonl": "JSONL, flush a step",
    "sqlite": "sqlite3 WAL, a transaction a step",
    "trackio": "trackio",
    "wandb": "wandb offline",
    "tensorboard": "TensorBoard EventFileWriter",
    "tensorboardx": "tensorboardX",
    "mlflow": "MLflow file store",
    "aim": "Aim",
    "parquet": "Parquet column (pyarrow)",
}


def install(install_nilometer: bool, with_aim: bool) -> Trackers:
    """Installs what is missing; does nothing the second time."""
    if not (ENVIRONMENT / "ready").exists():
        print(f"installing {', '.join(PACKAGES)} into {ENVIRONMENT.name}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
        (ENVIRONMENT / ".gitignore").write_text("*\n")
        pip("install", *PACKAGES)
        (ENVIRONMENT / "ready").touch()
    if install_nilometer:
        pip("install", "maturin>=1.10,<2")
        pip("install", "--force-reinstall", "--no-deps", "--no-build-isolation", str(REPOSITORY))
    elif not NATIVE_MODULE.exists():
        raise SystemExit(
            f"error: nilometer's native module is missing: {NATIVE_MODULE.relative_to(REPOSITORY)}\n"
            "hint: make develop, or --install-nilometer"
        )
    return Trackers(install_nilometer, with_aim and install_aim())


def install_aim() -> bool:
    """Aim has many dependencies; where it does not install quickly, the tables do without it."""
    if not is_installed("aim"):
        print("installing aim", file=sys.stderr)
        with contextlib.suppress(subprocess.SubprocessError):
            pip("install", "aim", timeout=AIM_INSTALL_SECS)
    return is_installed("aim")


def is_installed(package: str) -> bool:
    return subprocess.run([PYTHON, "-m", "pip", "show", "--quiet", package], stderr=subprocess.DEVNULL).returncode == 0


def pip(*words: str, timeout: float | None = None) -> None:
    subprocess.run([PYTHON, "-m", "pip", "--quiet", "--disable-pip-version-check", *words], check=True, timeout=timeout)


def versions(trackers: Trackers) -> str:
    packages = [*PACKAGES, *(["aim"] if trackers.has_aim else [])]
    script = (
        "from importlib.metadata import version\nimport nilometer, sqlite3\n"
        f"print(', '.join(f'{{p}} {{version(p)}}' for p in {packages!r}), 'and SQLite', sqlite3.sqlite_version, end='; ')\n"
        "print('nilometer', nilometer.__version__, end='')"
    )
    command = [PYTHON, "-c", script]
    return subprocess.run(command, env=trackers.variables(), capture_output=True, text=True, check=True).stdout


def drive(trackers: Trackers, tracker: str, job: str, folder: Path, **options) -> dict:
    """Runs one job with one tracker in a process of its own and gives what it found.

    A process that kills itself tells its figures, and its helpers, before.
    """
    command = [PYTHON, DRIVERS / "drive.py", tracker, job, json.dumps({"folder": str(folder), **options})]
    with open(folder.parent / f"{folder.name}.{job}.txt", "w+") as talk:
        try:
            finished = subprocess.run(
                command, cwd=folder, env=trackers.variables(), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=talk, timeout=DRIVER_SECS, text=True,
            )
        except subprocess.TimeoutExpired:
            raise BenchmarkFailed(f"{tracker}: {job} took longer than {DRIVER_SECS} s") from None
        talk.seek(0)
        said = talk.read()[-1500:]
    if not finished.stdout or finished.returncode not in (0, -signal.SIGKILL):
        raise BenchmarkFailed(f"{tracker}: {job} ended with {finished.returncode}:\n{said}")
    found = json.loads(finished.stdout)
    end_helpers(found.get("helpers", []))
    return found


def end_helpers(pids: list[int]) -> None:
    """Lets the helpers of a dead process end by themselves, then ends them."""
    deadline = time.monotonic() + HELPER_SECS
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
