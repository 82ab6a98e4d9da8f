"""Python's sqlite3 in WAL mode: a row a value, a transaction a step."""

import sqlite3
from pathlib import Path

from session import NAMES, Session

INSERT = "INSERT INTO points VALUES (?, ?, ?)"


def load() -> None:
    pass


def begin(library, folder: str) -> Session:
    store = sqlite3.connect(Path(folder, "run.db"), isolation_level=None)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = NORMAL")
    store.execute("CREATE TABLE points (name TEXT, step INTEGER, value REAL)")

    def log(values: dict[str, float], step: int) -> None:
        store.execute("BEGIN")
        store.executemany(INSERT, [(name, step, value) for name, value in values.items()])
        store.execute("COMMIT")

    return Session(log, store.close)


def readable_steps(folder: str) -> int:
    count = "SELECT count(*) FROM (SELECT step FROM points GROUP BY step HAVING count(*) = ?)"
    return sqlite3.connect(Path(folder, "run.db")).execute(count, [len(NAMES)]).fetchone()[0]


def write_series(folder: str, points: int) -> None:
    from series_job import series_values

    begin(None, folder).close()
    store = sqlite3.connect(Path(folder, "run.db"))
    store.executemany(INSERT, (("loss", step, value) for step, value in enumerate(series_values(points).tolist())))
    store.commit()
    store.close()


def read_series(folder: str):
    import numpy

    rows = sqlite3.connect(Path(folder, "run.db")).execute("SELECT step, value FROM points WHERE name = 'loss'").fetchall()
    points = numpy.array(rows)
    return points[:, 0].astype(numpy.int64), points[:, 1]
