"""A Parquet file read by pyarrow: what a column in a good format costs to read."""

from pathlib import Path


def write_series(folder: str, points: int) -> None:
    import numpy
    import pyarrow
    import pyarrow.parquet
    from series_job import series_values

    table = pyarrow.table({"step": numpy.arange(points), "loss": series_values(points)})
    pyarrow.parquet.write_table(table, Path(folder, "run.parquet"), compression="zstd")


def read_series(folder: str):
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(Path(folder, "run.parquet"), columns=["step", "loss"])
    return table["step"].to_numpy(), table["loss"].to_numpy()
