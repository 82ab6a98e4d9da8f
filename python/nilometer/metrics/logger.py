"""Everything about one experiment: metrics by step, verification scores, checkpoints, exports.

Every point goes into the run at once, so nothing is lost when the program dies.
An experiment that is resumed (`resume=True`) goes on: the attempts before are read back from their runs and exported beside the new one.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

from .. import _native
from .._files import keep_beside, numbered, write_json
from .._ranks import own_rank
from .._trouble import refuse_pickling, report, require, require_type, warn_once
from ..integrations._find_run import run_of_training
from ..reading import NO_STEP, RecordedRun, Series
from ..run import Run, continue_run
from ._repeated_steps import repeated_steps, restarts
from .scores import ScoreDistributionTracker
from .tracker import MetricTracker



class TrainingLogger:
    """Logs the steps of an experiment and exports them as JSON.

    Each logger has a run of its own, named after the experiment: the one that `nilometer.init` began for it, or a new one.
    With `resume=True` it goes on where the last program with this `log_dir` and experiment stopped.
    Each rank of a distributed program exports its own points: the first to `<experiment>_metrics.json`, rank 1 to `<experiment>_rank1_metrics.json`.
    Without `resume`, files that an earlier experiment of this name left are kept under numbered names: `<experiment>_metrics.1.json`, the newest with the highest number.

    >>> import tempfile
    >>> logger = TrainingLogger(log_dir=tempfile.mkdtemp(), experiment_name="verifier_iter1")
    >>> for step in range(3):
    ...     logger.log_step(step=step, metrics={"loss": 1.0 / (step + 1)}, scores=[1.0, 0.5, None])
    >>> exported = logger.export_all()
    >>> exported["raw_metrics"]["loss"]
    [1.0, 0.5, 0.3333333333333333]
    >>> exported["score_distribution"]["invalid_count"]
    3
    """

    __reduce__ = refuse_pickling

    def __init__(
        self,
        log_dir: str | os.PathLike[str] = "logs",
        experiment_name: str = "experiment",
        *,
        run: Run | None = None,
        resume: bool = False,
    ) -> None:
        require_type(log_dir, (str, os.PathLike), "log_dir")
        require_type(experiment_name, str, "experiment_name")
        require(
            bool(experiment_name) and not set("/\\\0") & set(experiment_name) and experiment_name not in (".", ".."),
            f"experiment_name must be usable as a file name, not {experiment_name!r}",
        )
        if run is not None:
            require_type(run, _native.Run, "run")
        self.log_dir = pathlib.Path(log_dir)
        self.experiment_name = experiment_name
        self.log_dir.mkdir(parents=True, exist_ok=True)
        self._started_at = _now()
        self._written: dict[pathlib.Path, _FileMark] = {}
        self._has_told_of_earlier = False
        self.run = run_of_training(self, run, experiment_name, named=experiment_name != "experiment")
        self._earlier = _read_attempts(self._attempts_file) if resume else []
        if self._earlier:
            continue_run(self.run, self._earlier[-1]["run"])
        self._note_attempt()
        self.metrics = MetricTracker(self.run, group=self._group)
        self.scores = ScoreDistributionTracker()
        self._score_points = MetricTracker(self.run, group=self._score_group)

    def log_step(
        self,
        step: int,
        metrics: Mapping[str, Any] | None = None,
        scores: Iterable[float | None] | None = None,
    ) -> None:
        """One step: numbers by name (nested dictionaries are flattened with `/`), and the scores of a verifier."""
        if metrics is not None:
            self.metrics.update_batch(metrics, step)
        if scores is not None:
            scores = list(scores)
            self.scores.update(scores)
            for score in scores:
                # In the run an invalid score is NaN.
                self._score_points.update("score", math.nan if score is None else score, step)

    def save_checkpoint_metrics(self, name: str) -> pathlib.Path:
        """Writes the summaries so far to `<experiment>_<name>.json` in the log folder (rank 1: `<experiment>_rank1_<name>.json`), and sets a mark in the run."""
        self.run.mark(f"checkpoint {name}")
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in str(name))
        value = {
            "experiment_name": self.experiment_name,
            "checkpoint": str(name),
            "timestamp": _now(),
            "metric_summaries": self.metrics.get_summary(),
            "score_distribution": self.scores.get_distribution(),
        }
        return self._write(f"{self._stem}_{safe}.json", value)

    def export_all(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Writes everything to `<experiment>_metrics.json` in the log folder (or to `path`) and gives it.

        A rank of a distributed program exports what it logged itself, rank 1 to `<experiment>_rank1_metrics.json` and so on; ranks that give a `path` need one each.
        `raw_metrics` holds every value in the order of logging. Where a resumed program repeated steps of the one before,
        the newest counts and the overwritten values stand with their attempt. Where steps of either go back, as in epochs that each count from 0,
        a step says nothing of which point was repeated: every point counts, and a warning says so once.
        """
        attempts = self._attempts()
        raw, steps = _merge(attempts)
        if len(attempts) > 1 and any(restarts(series) for attempt in attempts for series, _ in attempt.points.values()):
            warn_once(
                f"{self.experiment_name}: steps go back, so repeated steps of a resumed program cannot be recognized: every point of each attempt counts. "
                "Pass a step that keeps counting, such as epoch * len(loader) + step"
            )
        exported = {
            "experiment_name": self.experiment_name,
            "timestamp": _now(),
            "run": None if self.run.path is None else os.fspath(self.run.path),
            "metric_summaries": {name: _native.describe(values) for name, values in raw.items()},
            "score_distribution": self._score_distribution(),
            "raw_metrics": raw,
            "steps": steps,
            "attempts": [attempt.describe() for attempt in attempts],
        }
        if path is None:
            self._write(f"{self._stem}_metrics.json", exported)
        else:
            self._try_to_write(self.log_dir / path, exported)
        return exported

    @property
    def _stem(self) -> str:
        """What the names of its files begin with."""
        rank = own_rank()
        return f"{self.experiment_name}_rank{rank}" if rank else self.experiment_name

    @property
    def _group(self) -> str:
        return self.experiment_name

    @property
    def _score_group(self) -> str:
        return f"{self.experiment_name}/scores"

    @property
    def _attempts_file(self) -> pathlib.Path:
        return self.log_dir / f"{self.experiment_name}.attempts.json"

    def _note_attempt(self) -> None:
        """Adds this run to the list of the experiment's attempts, which its ranks share."""
        if self.run.path is None or own_rank():
            return
        attempts = [*self._earlier, {"run": os.fspath(self.run.path), "started_at": self._started_at}]
        runs = [attempt["run"] for attempt in self._earlier]
        if os.fspath(self.run.path) not in runs:
            self._write(self._attempts_file.name, {"schema": "nilo.attempts/1", "attempts": attempts})

    def _attempts(self) -> list[_Attempt]:
        mine = None if self.run.path is None else os.fspath(self.run.path)
        attempts = []
        for entry in self._earlier:
            if entry["run"] != mine:
                attempts.append(_Attempt.read(entry, self._group))
        now = {"run": mine, "started_at": self._started_at}
        attempts.append(_Attempt.read(now, self._group) if mine else _Attempt(now, self._values_in_memory()))
        return attempts

    def _values_in_memory(self) -> dict[str, Series]:
        """For a program whose run stores nothing: the values without their steps."""
        found = {}
        for name in self.metrics.names():
            values = self.metrics.get_values(name)
            found[name] = ([NO_STEP] * len(values), values)
        return found  # type: ignore[return-value]

    def _score_distribution(self) -> dict[str, Any]:
        """The scores of all attempts; of steps that were repeated, those of the newest."""
        if not self._earlier:
            return self.scores.get_distribution()
        attempts: list[list[tuple[int, list[float | None]]]] = []
        for entry in [*self._earlier, {"run": os.fspath(self.run.path or "")}]:
            recorded = _open(entry)
            series = None if recorded is None else _own_series(recorded, self._score_group).get("score")
            attempts.append([] if series is None else _updates(series.step.tolist(), series.value.tolist()))
        merged = ScoreDistributionTracker()
        for place, updates in enumerate(attempts):
            mine = [step for step, _ in updates]
            again = {step for newer in attempts[place + 1 :] for step in repeated_steps(mine, [step for step, _ in newer])}
            for step, scores in updates:
                if step not in again:
                    merged.update(scores)
        return merged.get_distribution()

    def _write(self, name: str, value: Any) -> pathlib.Path:
        """Writes a file of its own; one of that name that is not is kept."""
        path = self.log_dir / name
        mine = self._written.get(path)
        if not self._earlier and path.is_file() and (found := _mark(path)) is not None and found != mine:
            moved = None if mine is None else next((other for other in numbered(path) if _mark(other) == mine), None)
            if moved is not None:
                # Another logger of this name has put this one's file aside.
                return self._try_to_write(moved, value, known_as=path)
            try:
                self._tell_of_earlier(path, keep_beside(path))
            except OSError as error:
                report(f"{path} of an earlier experiment could not be kept, and nothing was written: {error}")
                return path
        return self._try_to_write(path, value, known_as=path)

    def _try_to_write(self, path: pathlib.Path, value: Any, known_as: pathlib.Path | None = None) -> pathlib.Path:
        try:
            write_json(path, value)
            mark = _mark(path)
            if known_as is not None and mark is not None:
                self._written[known_as] = mark
        except OSError as error:
            report(f"{path} could not be written: {error}")
        return path

    def _tell_of_earlier(self, path: pathlib.Path, kept: pathlib.Path) -> None:
        if not self._has_told_of_earlier:
            self._has_told_of_earlier = True
            warn_once(
                f"{path} of an earlier experiment of this name is kept as {kept.name}, and so is every other file of it that is written again "
                "(resume=True continues that experiment; another experiment_name has files of its own)"
            )


# Device, inode and time of change.
_FileMark = tuple[int, int, int]


def _mark(path: pathlib.Path) -> _FileMark | None:
    """Tells a file from another one of its name; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


class _Attempt:
    """One run of an experiment: its points by metric."""

    def __init__(self, entry: Mapping[str, Any], points: Mapping[str, Any]) -> None:
        self.entry = entry
        self.points: dict[str, tuple[list[int], list[float]]] = {
            name: (list(series[0]), list(series[-1])) for name, series in points.items()
        }
        self.overwritten: dict[str, list[tuple[int, float]]] = {}

    @classmethod
    def read(cls, entry: Mapping[str, Any], group: str) -> _Attempt:
        recorded = _open(entry)
        if recorded is None:
            return cls(entry, {})
        series = _own_series(recorded, group)
        return cls(entry, {name: (found.step.tolist(), found.value.tolist()) for name, found in series.items()})

    def describe(self) -> dict[str, Any]:
        steps = [step for series, _ in self.points.values() for step in series if step != NO_STEP]
        return {
            "run": self.entry["run"],
            "started_at": self.entry.get("started_at", ""),
            "points": sum(len(values) for _, values in self.points.values()),
            "first_step": min(steps, default=None),
            "last_step": max(steps, default=None),
            "overwritten": self.overwritten,
        }


def _updates(steps: list[int], scores: list[float]) -> list[tuple[int, list[float | None]]]:
    """The scores of each update: those that were logged one after the other under one step."""
    updates: list[tuple[int, list[float | None]]] = []
    for step, score in zip(steps, scores):
        if not updates or step == NO_STEP or updates[-1][0] != step:
            updates.append((step, []))
        updates[-1][1].append(None if math.isnan(score) else score)
    return updates


def _merge(attempts: list[_Attempt]) -> tuple[dict[str, list[float]], dict[str, list[int | None]]]:
    """Every point, in the order of logging; what a later attempt logged again is noted in its own attempt instead."""
    raw: dict[str, list[float]] = {}
    all_steps: dict[str, list[int | None]] = {}
    for name in sorted({name for attempt in attempts for name in attempt.points}):
        raw[name], all_steps[name] = [], []
        for place, attempt in enumerate(attempts):
            mine, values = attempt.points.get(name, ([], []))
            newer = [later.points.get(name, ([], []))[0] for later in attempts[place + 1 :]]
            again = {step for steps in newer for step in repeated_steps(mine, steps)}
            for step, value in zip(mine, values):
                if step in again:
                    attempt.overwritten.setdefault(name, []).append((step, value))
                else:
                    raw[name].append(value)
                    all_steps[name].append(None if step == NO_STEP else step)
    return raw, all_steps


def _read_attempts(path: pathlib.Path) -> list[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            listed = json.load(file)["attempts"]
        return [entry for entry in listed if isinstance(entry, dict) and isinstance(entry.get("run"), str)]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        report(f"the attempts before this one cannot be read from {path}: {error}")
        return []


def _own_series(recorded: RecordedRun, group: str) -> dict[str, Series]:
    """What this rank logged, by name. A program alone, before or after an attempt of several ranks, is the first rank."""
    rank, ranks = own_rank() or 0, recorded.ranks
    if not ranks and rank:
        return {}
    names = recorded._reader.metric_names(group)
    found = {name: recorded.series(name, group=group, rank=rank if ranks else None) for name in names}
    # Only other ranks may have logged it.
    return {name: series for name, series in found.items() if len(series.value)}


def _open(entry: Mapping[str, Any]) -> RecordedRun | None:
    try:
        return RecordedRun(entry["run"])
    except OSError as error:
        report(f"an earlier attempt cannot be read: {error}")
        return None


def _now() -> str:
    return datetime.datetime.now().isoformat(timespec="seconds")
