"""Scores that a verifier gives: how often each, how many invalid, how long it took, and whether they drift."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .. import _native
from .._trouble import refuse_pickling, report, require, require_type
from ..run import Run


class ScoreDistributionTracker:
    """Counts scores. None and NaN are invalid scores, and so are infinite ones.

    Up to `exact_values` different scores are counted one by one, more in `bins` bins.
    Drift compares the last `drift_updates` updates with the first as many.
    `docs/rl-metrics.md` defines every figure.

    >>> tracker = ScoreDistributionTracker()
    >>> tracker.update([1.0, 0.5, None, 1.0, 0.0])
    >>> distribution = tracker.get_distribution()
    >>> distribution["score_counts"], distribution["invalid_rate"], distribution["mean_score"]
    ({'0.0': 1, '0.5': 1, '1.0': 2}, 0.2, 0.625)
    """

    __reduce__ = refuse_pickling

    def __init__(
        self,
        run: Run | None = None,
        *,
        exact_values: int = 1000,
        bins: int = 100,
        drift_updates: int = 10,
    ) -> None:
        if run is not None:
            require_type(run, _native.Run, "run")
        self._settings = {"exact_values": exact_values, "bins": bins, "drift_updates": drift_updates}
        for name, value in self._settings.items():
            require_type(value, int, name)
            require(value > 0, f"{name} must be positive, not {value}")
        self._history = _native.ScoreHistory(**self._settings)
        self._points = _native.Tracker(run, None)

    def update(
        self,
        scores: Iterable[float | None],
        step: int | None = None,
        latencies: Mapping[str, Any] | Iterable[float] | None = None,
        timeouts: int | Iterable[bool] | None = None,
    ) -> None:
        """Adds a batch of scores; with a step, the batch's figures land in the run as `scores/...`.

        `latencies` are by verifier (`{"lean": [0.8, 1.2]}`) or a plain list, in whatever unit they should be read;
        `timeouts` is a count or a flag for each score.
        """
        try:
            total, valid, timed_out, score_sum = self._history.push(scores, latencies, timeouts)
        except Exception as error:  # noqa: BLE001 - nothing here may stop the training
            report(f"update: {error}; these scores are not counted")
            return
        if step is None or total == 0:
            return
        figures = {"scores/invalid_rate": (total - valid) / total}
        if valid:
            figures["scores/mean"] = score_sum / valid
        if timeouts is not None:
            figures["scores/timeout_rate"] = timed_out / total
        self._points.update_batch(figures, step)

    def get_distribution(self) -> dict[str, Any]:
        """Everything about the scores so far; what cannot be known is None.

        `score_counts` has the scores as text for keys, in ascending order; once there are more than `exact_values`
        different ones it is empty and `score_bins` has the counts.
        """
        found = self._history.distribution()
        found["score_counts"] = {repr(float(score)): count for score, count in found["score_counts"]}
        return found

    def reset(self) -> None:
        """Forgets every score in memory; the run keeps what it has."""
        self._history = _native.ScoreHistory(**self._settings)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._history.distribution()['total']} scores>"
