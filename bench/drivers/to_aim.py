"""Aim in a local repository, without system metrics and terminal capture."""

import subprocess
import sys
from pathlib import Path

from session import NAMES, Session


def load():
    import aim

    return aim


def begin(aim, folder: str) -> Session:
    run = aim.Run(repo=folder, system_tracking_interval=None, log_system_params=False, capture_terminal_logs=False)

    def log(values: dict[str, float], step: int) -> None:
        run.track(values, step=step)

    return Session(log, run.close)


def readable_steps(folder: str) -> int:
    aim = load()
    # Without its server nothing is found before this, not even after a clean end.
    command = [Path(sys.executable).with_name("aim"), "storage", "--repo", folder, "reindex", "-y"]
    subprocess.run(command, check=True, capture_output=True)
    (identifier,) = [path.name for path in Path(folder, ".aim", "meta", "chunks").iterdir() if path.is_dir()]
    run = aim.Run(identifier, repo=folder, read_only=True)
    lengths = {metric.name: len(metric.values.sparse_list()[0]) for metric in run.metrics()}
    return min(lengths.get(name, 0) for name in NAMES)
