"""For the Trainer of Hugging Face Transformers, and for TRL's trainers, which are built on it.

    trainer = Trainer(..., callbacks=[NiloCallback()])

What the Trainer logs lands in the run with its step; phases, throughput, marks and settings come along.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("nilometer.integrations.huggingface needs Transformers: pip install transformers torch") from error

from .._native import own_rank
from .._trouble import is_strict, report
from ..run import Run, own_current
from ._find_run import next_training_is_another, run_after_training, run_of_training, training_is_over
from ._guard import guarded
from ._recorder import StepRecorder

# For each Trainer that has a NiloCallback, by the id of its state: whether it is within a training step.
_is_in_step: dict[int, bool] = {}


class NiloCallback(TrainerCallback):
    """Stores what a Trainer logs.

    Names are those of the Trainer's own loggers: `train/loss`, `eval/loss`, `test/loss`; with `prefix=False` they are
    what the Trainer calls them: `loss`, `eval_loss`. A step is numbered as the Trainer logs it: the first is 1.

    Phases: `data` (getting the batches of a step), `step`, `step/optimizer`, `evaluate`, `save`.
    Samples and tokens are those of all processes, as the Trainer counts them;
    tokens need `include_num_input_tokens_seen` in the arguments (TRL's GRPO counts them by itself).

    Each training has a run of its own, named by `run_name`, also the second `train()` of one Trainer;
    the first takes the one that `nilometer.init` began. All of them add to `run` where that is given.
    Metrics come from the first process, phases from all of them.
    The run stays open after training, so that a later evaluation lands in it.
    """

    def __init__(self, run: Run | None = None, *, prefix: bool = True) -> None:
        self._given = run
        self._prefix = prefix
        self._recorder: StepRecorder | None = None
        self._is_first = True
        self._tokens_seen = 0
        self._has_begun_training = False
        self._is_training = False

    @property
    def run(self) -> Run | None:
        """The run that this adds to; None before training."""
        return None if self._recorder is None else self._recorder.run

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        # Also after one that an exception ended, or that found its batches too large.
        if self._has_begun_training and self._given is None:
            next_training_is_another(self.run)
            self._recorder = None
        self._has_begun_training = self._is_training = True
        recorder = self._begin(args, state)
        if recorder is None:
            return
        _is_in_step[id(state)] = False
        self._tokens_seen = state.num_input_tokens_seen
        if self._is_first:
            recorder.run.config(args.to_dict())
            recorder.run.config(_model_config(model))
        recorder.run.set_step(state.global_step + 1)
        recorder.throughput.start()
        recorder.idle()

    @guarded
    def on_epoch_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._recorder is not None and self._is_first:
            # The epoch is a fraction of steps, not always a round one.
            self._recorder.run.mark(f"epoch {int((state.epoch or 0) + 1e-6) + 1}")

    @guarded
    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _is_in_step[id(state)] = True
        if self._recorder is not None:
            self._recorder.run.set_step(state.global_step + 1)
            self._recorder.busy("data")
            self._recorder.start("step")

    @guarded
    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._recorder is not None:
            self._recorder.start("optimizer")

    @guarded
    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._recorder is not None:
            self._recorder.stop("optimizer")

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _is_in_step[id(state)] = False
        if self._recorder is None:
            return
        self._recorder.stop("step")
        if self._is_first:
            samples = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
            tokens = state.num_input_tokens_seen - self._tokens_seen
            self._tokens_seen = state.num_input_tokens_seen
            self._recorder.step_done(samples, tokens)
        self._recorder.idle()

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        recorder = self._begin(args, state)
        if recorder is None:
            return
        if not self._is_training:
            # An evaluation after another training has begun a run of its own, which nobody says the end of.
            training_is_over(recorder.run)
        if self._is_first and logs:
            recorder.run.log({self._name(name): value for name, value in logs.items()}, state.global_step)
        recorder.idle()

    @guarded
    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        if self._recorder is not None:
            # The Trainer has timed it.
            for name, value in (metrics or {}).items():
                if name.endswith("_runtime"):
                    self._recorder.evaluated(float(value))
            self._recorder.idle()

    @guarded
    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        # The Trainer gives these to its callbacks only, not to on_log.
        self.on_log(args, state, control, logs=metrics)

    @guarded
    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._recorder is not None:
            self._recorder.busy("save")
            if self._is_first:
                self._recorder.run.mark(f"checkpoint {state.global_step}")
            self._recorder.idle()

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        _is_in_step.pop(id(state), None)
        self._is_training = False
        if self._recorder is not None:
            self._recorder.end()
            training_is_over(self._recorder.run)

    def _begin(self, args: Any, state: Any) -> StepRecorder | None:
        self._is_first = state.is_world_process_zero
        if not self._is_first and self._given is None and own_rank() is None and own_current() is None:
            # A further process of which no launcher says which one it is cannot find the run of the first.
            return None
        if self._recorder is None or self._recorder.run.finished:
            if self._given is not None or self._is_training:
                run = run_of_training(self, self._given, _run_name(args))
            else:
                run = run_after_training(self, self.run, _run_name(args))
            self._recorder = StepRecorder(run, args.device)
        return self._recorder

    def _name(self, name: str) -> str:
        if not self._prefix:
            return name
        for part in ("eval", "test"):
            if name.startswith(part + "_"):
                return f"{part}/{name[len(part) + 1:]}"
        return f"train/{name}"


def watch_rewards(
    reward_function: Callable[..., Any],
    *,
    tracker: Any = None,
    group_size: int | None = None,
    **settings: Any,
) -> Callable[..., Any]:
    """A reward function for TRL's GRPOTrainer that also gives its raw rewards, group by group, to a GRPOMetricsTracker.

    TRL logs means over the batch; this stores what happened within the groups, as `groups/...`.
    `group_size` is `num_generations`; without it, equal prompts in a row are a group.
    With several reward functions, watch the one that decides, or give each its own `tracker` with a `group` of its own;
    without `tracker` one is made with the other settings. The tracker is at hand as `.tracker` of what this returns.
    Rewards of evaluations are left out where the trainer has a NiloCallback, which knows them.
    """
    if not callable(reward_function) or hasattr(reward_function, "forward"):
        raise TypeError("watch_rewards takes a reward function, not a reward model")
    if tracker is None:
        from ..metrics import GRPOMetricsTracker

        tracker = GRPOMetricsTracker(**settings)
    elif settings:
        raise TypeError(f"watch_rewards: pass {', '.join(settings)} to the tracker, not beside tracker=")

    if inspect.iscoroutinefunction(reward_function):

        @functools.wraps(reward_function)
        async def watched(*args: Any, **kwargs: Any) -> Any:
            rewards = await reward_function(*args, **kwargs)
            _take_rewards(tracker, rewards, group_size, kwargs)
            return rewards
    else:

        @functools.wraps(reward_function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            rewards = reward_function(*args, **kwargs)
            _take_rewards(tracker, rewards, group_size, kwargs)
            return rewards

    watched.tracker = tracker  # type: ignore[attr-defined]
    # TRL names the reward's metrics after the function; a callable object has no name of its own.
    if not hasattr(reward_function, "__name__"):
        watched.__name__ = type(reward_function).__name__
    return watched


def _take_rewards(tracker: Any, rewards: Any, group_size: int | None, given: Mapping[str, Any]) -> None:
    try:
        state = given.get("trainer_state")
        if _is_in_step.get(id(state)) is False:
            return
        prompts = [str(prompt) for prompt in given.get("prompts") or ()]
        groups = _groups(prompts, len(rewards), group_size)
        lengths = given.get("completion_ids")
        tracker.update_group_rewards(
            [list(rewards[begin:end]) for begin, end in groups],
            None if state is None else state.global_step + 1,
            lengths=None if lengths is None else [[len(ids) for ids in lengths[begin:end]] for begin, end in groups],
            prompt_ids=[prompts[begin] for begin, _ in groups] if prompts else None,
        )
    except Exception as error:  # noqa: BLE001 - training is worth more than its record
        if is_strict():
            raise
        report(f"watch_rewards: {type(error).__name__}: {error}")


def _groups(prompts: list[str], count: int, size: int | None) -> list[tuple[int, int]]:
    """Where groups begin and end."""
    if size is not None:
        return [(begin, min(begin + size, count)) for begin in range(0, count, size)]
    if not prompts:
        return [(0, count)]
    begins = [at for at in range(count) if at == 0 or prompts[at] != prompts[at - 1]]
    return list(zip(begins, [*begins[1:], count]))


def _run_name(args: Any) -> str | None:
    """The name that the user gave; where there is none, Transformers puts the output folder there."""
    name = getattr(args, "run_name", None)
    folder = str(getattr(args, "output_dir", None) or "").rstrip("/").rpartition("/")[2]
    return folder or None if name is None or name == getattr(args, "output_dir", None) else str(name)


def _model_config(model: Any) -> dict[str, Any]:
    config = getattr(model, "config", None)
    found = dict(config.to_dict()) if hasattr(config, "to_dict") else {}
    if hasattr(model, "num_parameters"):
        found["num_parameters"] = model.num_parameters()
    return {"model": found} if found else {}
