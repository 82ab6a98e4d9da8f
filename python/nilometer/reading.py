"""Runs read back, also while they are written: series as arrays, the summary, the picture."""

from __future__ import annotations

import array
import html
import json
import math
import os
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _config, _native
from ._run_settings import runs_folder
from ._trouble import warn_once


NO_STEP = -(2**63)
"""In `Series.step`: this point has no step. Arrays of int64 have no NaN; numpy uses the same number for a time that is none."""


class Series(NamedTuple):
    """Points in the order of their logging. numpy arrays where numpy is installed, `array.array` otherwise."""

    step: Any
    """Training steps; `reading.NO_STEP`, the smallest int64, where a point has none."""
    seconds: Any
    """Seconds since the run began."""
    value: Any

    @property
    def has_steps(self) -> bool:
        """Whether any point has a step. What was sampled over time has none: `seconds` is its axis."""
        if not len(self.step):
            return False
        return int(self.step.max() if hasattr(self.step, "max") else max(self.step)) != NO_STEP

    @property
    def newest(self) -> Series:
        """One point a step, the newest: for steps that were logged again."""
        latest: dict[int, int] = {}
        for index, step in enumerate(self.step.tolist()):
            latest[step] = index
        order = [latest[step] for step in sorted(latest)]
        return Series(*(_take(values, order) for values in self))


class RecordedRun:
    """A run on disk.

    >>> import nilometer, tempfile
    >>> with nilometer.init(dir=tempfile.mkdtemp()) as run:
    ...     run.log({"loss": 2.0}, step=1)
    >>> recorded = nilometer.read_run(run.path)
    >>> recorded.metrics
    ['loss']
    >>> recorded.series("loss").step.tolist()
    [1]
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = pathlib.Path(path)
        self._reader = _native.RunReader(self.path)

    @property
    def description(self) -> dict[str, Any]:
        """`run.json`: what ran, where, when, how it ended."""
        description: dict[str, Any] = json.loads(self._reader.description_json())
        return description

    @property
    def runs(self) -> list[RecordedRun]:
        """The runs inside this job, in the order of their beginning. One that cannot be read is left out with a warning."""
        runs = []
        for folder in _runs_inside(self.path):
            try:
                runs.append(RecordedRun(folder))
            except OSError as error:
                warn_once(str(error))
        return runs

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics."""
        return self._reader.metric_names()

    @property
    def phases(self) -> list[str]:
        """The names of the phases."""
        return self._reader.phase_names()

    @property
    def ranks(self) -> list[int]:
        """The ranks of a distributed run that wrote to it; empty for others."""
        return sorted(self._reader.ranks())

    def series(self, name: str, *, group: str | None = None, rank: int | None = None) -> Series:
        """A metric's points, of all ranks or of one. A name that was never logged raises KeyError."""
        series = _series(self._reader.metric(name, group, rank))
        if not len(series.value):
            _complain_of("metric", name, self._reader.metric_names(group))
        return series

    def series_many(self, names: Iterable[str] | None = None, *, group: str | None = None) -> dict[str, Series]:
        """The points of many metrics, or of all, by name. The files are read once: for many metrics much faster than one by one.

        A name that was never logged raises KeyError.
        """
        wanted = None if names is None else list(names)
        found = self._reader.metrics(None if wanted is None else set(wanted), group)
        for name in wanted or ():
            if name not in found:
                _complain_of("metric", name, self._reader.metric_names(group))
        return {name: _series(found[name]) for name in (found if wanted is None else wanted)}

    def phase(self, name: str, *, rank: int | None = None) -> Series:
        """A phase's durations in seconds, of all ranks or of one. A phase that was never timed raises KeyError."""
        series = _series(self._reader.phase(name, rank))
        if not len(series.value):
            _complain_of("phase", name, self.phases)
        return series._replace(value=_scaled(series.value, 1e-9))

    def memory(self, column: str = "memory_bytes") -> Series:
        """Memory of the process tree in bytes, over time: `seconds` is the axis, and no point has a step (`has_steps` is false)."""
        return _series(self._reader.tree(column))

    def throughput(self, column: str = "samples") -> Series:
        """Running totals of `batches`, `samples` or `tokens`; `counted_nanos` is the time that counts, without pauses.

        Each tracker of each process has totals of its own, one among the other here; `summary()` has their sum.
        """
        return _series(self._reader.throughput(column))

    def torch_memory(self, device: int = 0, column: str = "allocated_bytes") -> Series:
        """A GPU's memory by PyTorch's account: `allocated_bytes`, `reserved_bytes`, `peak_allocated_bytes`, `device_free_bytes`, …"""
        return _series(self._reader.torch_memory(device, column))

    @property
    def marks(self) -> list[tuple[float, str]]:
        """Marks with their seconds since the run began."""
        return self._reader.marks()

    @property
    def config(self) -> dict[str, Any]:
        """The program's settings, with the types that they were given in."""
        return _config.loads(self._reader.config_json())

    def summary(self) -> dict[str, Any]:
        """Peak, limit, processes and the rest of `nilo show --format json`."""
        summary: dict[str, Any] = json.loads(self._reader.summary_json())
        return summary

    def svg(self, width: int = 960, height: int = 540) -> str:
        """The chart of memory, with the loss (or else the first metric) below it."""
        return self._reader.svg(width, height)

    def export(self, path: str | os.PathLike[str], format: str | None = None) -> pathlib.Path:
        """Writes everything for other programs: `csv` (a row for each value), `json`, `parquet`, or `tensorboard` (a folder).

        Without `format` the ending of the path decides. A file is written whole or not at all.
        """
        if format is None:
            format = {".csv": "csv", ".json": "json", ".parquet": "parquet", ".pq": "parquet"}.get(
                pathlib.Path(path).suffix.lower()
            )
            if format is None:
                raise ValueError(f"cannot tell the format from {os.fspath(path)!r}: pass format='csv', 'json', 'parquet' or 'tensorboard'")
        return self._reader.export(path, format)

    def __repr__(self) -> str:
        return f"<nilometer.RecordedRun {self.path}>"

    def _repr_html_(self) -> str:
        rows = []
        names = self.metrics
        for name in names[:12]:
            values = self.series(name).value
            if len(values):
                finite = [value for value in values.tolist() if math.isfinite(value)] or [math.nan]
                cells = f"<td>{html.escape(name)}</td><td>{values[-1]:.6g}</td><td>{min(finite):.6g}</td>"
                rows.append(f"<tr>{cells}<td>{max(finite):.6g}</td><td>{len(values)}</td></tr>")
        table = ""
        if len(names) > 12:
            rows.append(f"<tr><td>and {len(names) - 12} more</td></tr>")
        if rows:
            head = "<tr><th>metric</th><th>last</th><th>min</th><th>max</th><th>points</th></tr>"
            table = f"<table>{head}{''.join(rows)}</table>"
        return f"<div><p><b>{html.escape(self.path.name)}</b></p>{self.svg(640, 280)}{table}</div>"


def _complain_of(kind: str, name: str, known: list[str]) -> None:
    if name not in known:
        some = ", ".join(known[:20]) or "none"
        raise KeyError(f"no {kind} is called {name!r}; available: {some}")


def read_run(run: str | os.PathLike[str] = "last", *, dir: str | os.PathLike[str] | None = None) -> RecordedRun:
    """A run by its path, or, as for `nilo show`, by its id or the beginning of it, its name, `last` or `last~1`.

    The latter are looked for in `dir`, `NILO_DIR`, `dir` of `nilo.toml`, or `./.nilo`.
    Of a run that was copied there, only a path says which is meant; everything else is a ValueError.
    """
    if run is None:
        raise ValueError("read_run: None is not a run; a run that stores nothing has no path")
    # The folder is not asked for where a path says it.
    root = dir if dir is not None else "." if (pathlib.Path(run) / "run.json").is_file() else runs_folder()
    return RecordedRun(_native.find_run(root, run))


def _run_folders(root: pathlib.Path) -> list[pathlib.Path]:
    return sorted(folder for folder in root.glob("*/") if (folder / "run.json").is_file())


def _runs_inside(job: pathlib.Path) -> list[pathlib.Path]:
    """A link is none of them: it may lead to the job itself."""
    return [folder for folder in _run_folders(job / "runs") if not folder.is_symlink()]


def _series(parts: tuple[_native.Numbers, _native.Numbers, _native.Numbers]) -> Series:
    try:
        import numpy
    except ImportError:
        steps, seconds, values = (part.tobytes() for part in parts)
        return Series(array.array("q", steps), array.array("d", seconds), array.array("d", values))
    return Series(*(numpy.asarray(part) for part in parts))


def _take(values: Any, order: list[int]) -> Any:
    if isinstance(values, array.array):
        return array.array(values.typecode, (values[index] for index in order))
    return values[order]


def _scaled(values: Any, factor: float) -> Any:
    if isinstance(values, array.array):
        return array.array(values.typecode, (value * factor for value in values))
    return values * factor
