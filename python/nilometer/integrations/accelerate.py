"""For Hugging Face Accelerate: a tracker.

    accelerator = Accelerator(log_with=[NiloTracker("name")])
    accelerator.init_trackers("project", config={"learning_rate": 0.1})
    accelerator.log({"loss": loss}, step=step)
"""

from __future__ import annotations

from typing import Any

try:
    from accelerate.tracking import GeneralTracker, on_main_process
except ImportError as error:
    raise ImportError("nilometer.integrations.accelerate needs Accelerate: pip install accelerate torch") from error

from ..run import Run, own_current
from ._find_run import next_training_is_another, run_of_training
from ._guard import guarded


class NiloTracker(GeneralTracker):
    """Stores what `accelerator.log` is given, from the main process. `end_training` ends the run if the tracker made it.

    Each `init_trackers` begins a run, unless `run` is given; the first takes the one that `nilometer.init` began.
    """

    name = "nilo"
    requires_logging_directory = False
    main_process_only = True

    def __init__(self, run_name: str | None = None, *, run: Run | None = None) -> None:
        super().__init__()
        self._run_name = run_name
        self._given = run
        self._run = run
        self._made_it = False
        self._has_started = False

    @property
    def tracker(self) -> Run | None:
        """The run; None before `init_trackers` and in other processes."""
        return self._run

    @on_main_process
    @guarded
    def start(self) -> None:
        if self._has_started and self._given is None:
            next_training_is_another(self._run)
            self._run = None
        self._has_started = True
        self._get()

    @on_main_process
    @guarded
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        self._get().config(values)

    @on_main_process
    @guarded
    def log(self, values: dict[str, Any], step: int | None = None, **kwargs: Any) -> None:
        self._get().log(values, step)

    @on_main_process
    @guarded
    def finish(self) -> None:
        if self._made_it and self._run is not None:
            self._run.finish(0)

    def _get(self) -> Run:
        if self._run is None:
            before = own_current()
            self._run = run_of_training(self, None, self._run_name, named=self._run_name is not None)
            self._made_it = self._run is not before
        return self._run
