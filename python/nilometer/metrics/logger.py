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
from .._files import write_json
from .._trouble import refuse_pickling, report, require, require_type
from ..integrations._find_run import run_of_training
from ..reading import NO_STEP, RecordedRun, Series
from ..run import Run, continue_run
from .scores import ScoreDistributionTracker
from .tracker import MetricTracker



class TrainingLogger:
    """Logs the steps of an experiment and exports them as JSON.

    Each logger has a run of its own, named after the experiment: the one that `nilometer.init` began for it, or a new one.
    With `resume=True` it goes on where the last program with this `log_dir` and experiment stopped.

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
        """Writes the summaries so far to `<experiment>_<name>.json` in the log folder, and sets a mark in the run."""
        self.run.mark(f"checkpoint {name}")
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in str(name))
        value = {
            "experiment_name": self.experiment_name,
            "checkpoint": str(name),
            "timestamp": _now(),
            "metric_summaries": self.metrics.get_summary(),
            "score_distribution": self.scores.get_distribution(),
        }
        return self._write(f"{self.experiment_name}_{safe}.json", value)

    def export_all(self, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Writes everything to `<experiment>_metrics.json` in the log folder (or to `path`) and gives it.

        `raw_metrics` holds every value in the order of logging. Where a resumed program repeated steps of the one before,
        the newest counts and the overwritten values stand with their attempt.
        """
        attempts = self._attempts()
        raw, steps = _merge(attempts)
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
        self._write(path if path is not None else f"{self.experiment_name}_metrics.json", exported)
        return exported

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
        """Adds this run to the list of the experiment's attempts."""
        if self.run.path is None:
            return
        attempts = [*self._earlier, {"run": os.fspath(self.run.path), "started_at": self._started_at}]
        runs = [attempt["run"] for attempt in self._earlier]
        if os.fspath(self.run.path) not in runs:
            try:
                write_json(self._attempts_file, {"schema": "nilo.attempts/1", "attempts": attempts})
            except OSError as error:
                report(f"the list of attempts could not be written: {error}")

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
        by_step: dict[Any, list[float | None]] = {}
        for number, entry in enumerate([*self._earlier, {"run": os.fspath(self.run.path or "")}]):
            recorded = _open(entry)
            if recorded is None or "score" not in recorded._reader.metric_names(self._score_group):
                continue
            series = recorded.series("score", group=self._score_group)
            mine: dict[Any, list[float | None]] = {}
            for step, value in zip(series.step.tolist(), series.value.tolist()):
                key = step if step != NO_STEP else (number, len(mine))
                mine.setdefault(key, []).append(None if math.isnan(value) else value)
            by_step.update(mine)
        merged = ScoreDistributionTracker()
        for scores in by_step.values():
            merged.update(scores)
        return merged.get_distribution()

    def _write(self, name: str | os.PathLike[str], value: Any) -> pathlib.Path:
        path = self.log_dir / name
        try:
            write_json(path, value)
        except OSError as error:
            report(f"{path} could not be written: {error}")
        return path


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
        names = recorded._reader.metric_names(group)
        series = {name: recorded.series(name, group=group) for name in names}
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


def _merge(attempts: list[_Attempt]) -> tuple[dict[str, list[float]], dict[str, list[int | None]]]:
    """Every point, in the order of logging; what a later attempt logged again is noted in its own attempt instead."""
    raw: dict[str, list[float]] = {}
    all_steps: dict[str, list[int | None]] = {}
    for name in sorted({name for attempt in attempts for name in attempt.points}):
        raw[name], all_steps[name] = [], []
        for place, attempt in enumerate(attempts):
            later = [step for newer in attempts[place + 1 :] for step in newer.points.get(name, ([], []))[0]]
            again = {step for step in later if step != NO_STEP}
            for step, value in zip(*attempt.points.get(name, ([], []))):
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


def _open(entry: Mapping[str, Any]) -> RecordedRun | None:
    try:
        return RecordedRun(entry["run"])
    except OSError as error:
        report(f"an earlier attempt cannot be read: {error}")
        return None


def _now() -> str:
    return datetime.datetime.now().isoformat(timespec="seconds")
