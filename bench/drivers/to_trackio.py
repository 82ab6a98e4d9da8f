"""trackio, without its system metrics."""

import os

from session import NAMES, Session

PROJECT, RUN = "bench", "run"


def load():
    # It looks for its folder when it is imported.
    os.environ.setdefault("TRACKIO_DIR", os.getcwd())
    import trackio

    return trackio


def begin(trackio, folder: str) -> Session:
    trackio.init(PROJECT, RUN, embed=False, auto_log_gpu=False, auto_log_cpu=False)
    return Session(trackio.log, trackio.finish)


def readable_steps(folder: str) -> int:
    rows = storage(folder).get_logs(PROJECT, RUN)
    return len({row["step"] for row in rows if all(name in row for name in NAMES)})


def storage(folder: str):
    from pathlib import Path

    load()
    from trackio import sqlite_storage, utils

    for module in (sqlite_storage, utils):
        module.TRACKIO_DIR = Path(folder)
    return sqlite_storage.SQLiteStorage


def write_series(folder: str, points: int) -> None:
    from series_job import series_values

    rows = [{"loss": value} for value in series_values(points).tolist()]
    storage(folder).bulk_log(PROJECT, RUN, rows, steps=list(range(points)))


def read_series(folder: str):
    import numpy

    rows = storage(folder).get_metric_values(PROJECT, RUN, "loss")
    steps = numpy.fromiter((row["step"] for row in rows), numpy.int64, len(rows))
    return steps, numpy.fromiter((row["value"] for row in rows), numpy.float64, len(rows))
