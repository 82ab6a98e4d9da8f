"""The Rust micro-benchmarks of the run file and of the sources; they print their own lines."""

import subprocess

from page import Transcript
from processes import BenchmarkFailed
from settings import REPOSITORY, Settings

PACKAGES = ["nilo-runfile", "nilo-source"]


def measure(settings: Settings) -> list[Transcript]:
    if not settings.with_micro:
        return []
    return [transcript(package) for package in PACKAGES]


def transcript(package: str) -> Transcript:
    command = ["cargo", "bench", "--quiet", "--package", package, "--bench", "*"]  # the star leaves the unit tests out
    finished = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    if finished.returncode != 0:
        raise BenchmarkFailed(f"`{' '.join(command)}` ended with {finished.returncode}:\n{finished.stderr[-1500:]}")
    return Transcript(f"`cargo bench -p {package}`", finished.stdout.strip() or "(it printed nothing)")
