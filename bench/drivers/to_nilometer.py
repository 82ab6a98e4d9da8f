"""nilometer, without the thread that records memory, as the other trackers go without their system metrics."""

import warnings

from session import NAMES, Session


def load():
    import nilometer

    return nilometer


def begin(nilometer, folder: str) -> Session:
    warnings.simplefilter("error")  # a warning of ours is a loss
    run = nilometer.init(dir=folder, memory=False)
    return Session(run.log, run.finish, lambda: run.bytes_written)


def readable_steps(folder: str) -> int:
    run = load().read_run(dir=folder)
    return min(len(set(run.series(name).step.tolist())) for name in NAMES)


def write_series(folder: str, points: int) -> None:
    fill(folder, [{"loss": value} for value in noisy_values(points)]).close()


def noisy_values(points: int) -> list[float]:
    from series_job import series_values

    return series_values(points).tolist()


def fill(folder: str, rows: list[dict[str, float]]) -> Session:
    session = begin(load(), folder)
    for step, row in enumerate(rows):
        session.log(row, step)
    return session


def read_series(folder: str):
    series = load().read_run(dir=folder).series("loss")
    return series.step, series.value
