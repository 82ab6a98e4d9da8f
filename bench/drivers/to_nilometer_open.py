"""nilometer, with a run that nobody closed: what is not compacted yet is read as it was written."""

from to_nilometer import fill, noisy_values
from to_nilometer import read_series as read_series


def write_series(folder: str, points: int) -> None:
    fill(folder, [{"loss": value} for value in noisy_values(points)])
