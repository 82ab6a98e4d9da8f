"""Which run a training adds to. Two trainings never share one."""

from __future__ import annotations

import os
import weakref

from .. import run as runs
from .._native import refuse_name
from ..run import Run, begin_beside, continue_run, init


def run_of_training(training: object, given: Run | None, name: str | None = None, *, named: bool = False) -> Run:
    """The given run; the one that the program began and that no other training has; or a new one of that name.

    `training` is the callback or logger that asks. With `named`, the user gave it that name, and a run of another name is not its own.
    Neither is one without that name that began without `init`, by whatever was logged or timed before: it ends here.
    """
    run = _find(training, given, name, named)
    # Frameworks that log from their first process alone never call on the others.
    run.watch_local_ranks()
    return run


def _find(training: object, given: Run | None, name: str | None, named: bool) -> Run:
    if given is not None:
        return given
    if not named and name is not None and refuse_name(name) is not None:
        # A framework's own name for the training must not stop it.
        name = None
    current = runs.own_current()
    if current is not None and current._training is None and current._is_implicit and current._name != name:
        current = None
    if current is not None:
        is_free = current._training is None and not (named and current._name not in (None, name))
        if is_free or current._training is not None and current._training() is training:
            current._training = weakref.ref(training)
            return current
    if current is None or current._was_made_for_training and current._training_is_over:
        run = init(name=name)
    else:
        run = begin_beside(name)
    run._training, run._was_made_for_training = weakref.ref(training), True
    return run


def run_after_training(training: object, ended: Run | None, name: str | None = None, *, named: bool = False) -> Run:
    """Where an evaluation goes whose training may have ended, and with it its run when another training began: to one that continues that run."""
    run = run_of_training(training, None, name, named=named)
    if ended is not None and ended.path is not None:
        continue_run(run, os.fspath(ended.path))
    return run


def training_is_over(run: Run | None) -> None:
    """The next training may take this one's place."""
    if run is not None:
        run._training_is_over = True


def next_training_is_another(run: Run | None) -> None:
    """What this run's callback is told next belongs to a new training, which has a run of its own."""
    training_is_over(run)
    if run is not None:
        run._training = _of_nobody


def _of_nobody() -> None:
    """In the place of a training that is over for good."""
