"""What every tracker's module gives: how to log, how to close.

A module has `load()`, which imports the tracker; `begin(library, folder)`, which gives a Session;
`readable_steps(folder)`, which counts the steps that its own reader finds complete;
and, where it takes part in the reading of long series, `write_series(folder, points)` and `read_series(folder)`.
"""

from collections.abc import Callable
from dataclasses import dataclass

NAMES = ["loss", "accuracy", "learning_rate", "gradient_norm", "reward"]


@dataclass(frozen=True)
class Session:
    log: Callable[[dict[str, float], int], object]
    close: Callable[[], object]
    written_bytes: Callable[[], int] | None = None  # so far, where the tracker tells

