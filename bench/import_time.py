"""How long `import` takes: whole process starts, less the start of Python itself, in turns."""

import statistics
import subprocess
import time

from page import Table, spread, times
from tracker_environment import PYTHON, Trackers
from tracker_settings import Effort

LEAST_STARTS = 3


def measure(trackers: Trackers, effort: Effort) -> Table:
    statements = {
        "(nothing)": "pass",
        "nilometer": "import nilometer",
        "sqlite3": "import sqlite3",
        "numpy": "import numpy",
        "tensorboardX": "import tensorboardX",
        "tensorboard.summary": "import tensorboard.summary",
        "trackio": "import trackio",
        "wandb": "import wandb",
        "mlflow": "import mlflow",
        **({"aim": "import aim"} if trackers.has_aim else {}),
    }
    millis = {name: [] for name in statements}
    for statement in statements.values():
        start_millis(trackers, statement)  # the first start reads the files from the disk
    for _ in range(effort.imports):
        for name, statement in statements.items():
            is_slow = sum(millis[name]) > effort.import_secs * 1e3 and len(millis[name]) >= LEAST_STARTS
            if not is_slow:
                millis[name].append(start_millis(trackers, statement))
    empty = statistics.median(millis.pop("(nothing)"))
    ours = statistics.median(millis["nilometer"]) - empty
    table = Table(
        "Import time",
        {
            "package": "`python -c \"import …\"`, started as a process.",
            "import ms": "median less that of `python -c pass`.",
            "lowest..highest": "of the same.",
            "starts": "how often; slow ones less often.",
            "× nilometer": "the median divided by nilometer's.",
        },
        notes=[f"`python -c pass` took {empty:.1f} ms.", "Goal for nilometer: at most 30 ms."],
    )
    for name, found in sorted(millis.items(), key=lambda item: statistics.median(item[1])):
        added = [each - empty for each in found]
        median = statistics.median(added)
        table.rows.append([name, f"{median:.1f}", spread(added, 1), str(len(found)), times(median, ours)])
    return table


def start_millis(trackers: Trackers, statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([PYTHON, "-c", statement], env=trackers.variables(), check=True, capture_output=True)
    return (time.perf_counter() - started) * 1e3
