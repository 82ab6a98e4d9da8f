"""What the optimizer measures and changes is told to the current run, or to the job that records this program; without one, nothing is stored.

Metrics are named by subject (`gc/…`, `buffer/NAME/…`, `batch/…`), facts go to the rules of advice, and each optimization that was tried is stored
with what was measured before and after, and again where it is taken back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from .. import _open_runs
from ..run import joined_run


TellUndone = Callable[[str], None]


def tell_metrics(values: Mapping[str, float], step: int | None = None) -> None:
    """Logs figures of the optimizer at this moment."""
    run = joined_run()
    if run is not None:
        run.log(dict(values), step=step)


def newest_step(otherwise: int | None = None) -> int | None:
    """The step that training has come to: figures logged under it do not move the steps that the program counts itself."""
    run = _open_runs.current()
    newest = None if run is None else run.newest_step
    return otherwise if newest is None else newest


def tell_mark(text: str) -> None:
    """Marks this moment."""
    run = joined_run()
    if run is not None:
        run.mark(text)


def tell_facts(subject: str, values: Mapping[str, Any] | list[Mapping[str, Any]]) -> None:
    """Stores what is known of one subject, such as `gc` or `model`: the fields of `docs/schema/facts.json`. What is not known is left out."""
    run = joined_run()
    if run is not None:
        known = [_known(one) for one in values] if isinstance(values, list) else _known(values)
        run.add_facts(json.dumps({subject: known}))


def tell_optimization(
    name: str,
    *,
    applied: bool,
    before_bytes: float | None = None,
    after_bytes: float | None = None,
    before_seconds: float | None = None,
    after_seconds: float | None = None,
    measured: str = "",
    note: str = "",
) -> TellUndone:
    """Stores an optimization that was tried, with what was measured before and after it; gives the function that says that it was taken back, and why."""
    tried = {
        "name": name,
        "applied": applied,
        "before_bytes": before_bytes,
        "after_bytes": after_bytes,
        "before_seconds": before_seconds,
        "after_seconds": after_seconds,
        "measured": measured,
        "note": note,
    }
    _add_optimization(tried)
    # The same figures again: that is how readers know which one is meant.
    return lambda reason: _add_optimization(tried | {"applied": False, "note": reason})


def _add_optimization(tried: dict[str, Any]) -> None:
    run = joined_run()
    if run is not None:
        run.add_optimization(json.dumps(_known(tried)))


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was not measured; JSON has no NaN."""
    return {name: value for name, value in values.items() if value is not None and not (isinstance(value, float) and not math.isfinite(value))}
