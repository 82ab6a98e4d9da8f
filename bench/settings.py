"""How thorough a run of the benchmarks is, and where its parts lie."""

from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
TARGETS = Path(__file__).resolve().parent / "targets"


@dataclass(frozen=True)
class Effort:
    """How long each benchmark measures and how often it repeats."""

    repetitions: int
    short_secs: int  # two durations, because their difference is free of start-up cost
    long_secs: int
    spikes: int
    slow_spikes: int
    spawns: int
    tree_samples: int
    kilohertz_secs: int
    memory_minutes: float


QUICK = Effort(2, 2, 10, 3, 1, 30, 50, 5, 2)
NORMAL = Effort(3, 5, 20, 8, 2, 50, 200, 10, 10)
LONG = Effort(5, 5, 60, 20, 5, 100, 500, 30, 60)


@dataclass(frozen=True)
class Settings:
    effort: Effort
    nilo: Path | None  # None measures the rivals alone
    with_micro: bool
