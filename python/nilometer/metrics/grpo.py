"""Metrics of group-based reinforcement learning: the step's scalars under common names, and exact statistics of the groups."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import _native
from .._trouble import report, require, require_type
from ..run import Run
from .names import STAND_INS, canonical
from .tracker import MetricTracker

# Counted by place or by number of answers; JSON has only strings for keys.
_NUMBERED = ("rank_distribution", "pass_at_k", "best_at_k", "worst_at_k", "mean_at_k")


class GRPOMetricsTracker(MetricTracker):
    """A MetricTracker that knows groups: several answers to one prompt, each with a reward.

    What is logged under verl's, OpenRLHF's or prime-rl's names is kept and stored under TRL's name too.
    `docs/rl-metrics.md` defines every figure; standard deviations of rewards divide by n - 1, as TRL's do.

    `reward_max` and `reward_min` are the ends of the reward's scale (otherwise the extremes seen so far),
    `success_threshold` is the reward from which an answer counts as right (otherwise `reward_max`, or 1.0).

    >>> tracker = GRPOMetricsTracker()
    >>> tracker.update_grpo_step(step=100, policy_loss=0.45, mean_reward=0.72,
    ...                          reward_components={"format": 1.0, "score": 0.68}, kl_divergence=0.012)
    >>> tracker.get_last("rewards/format/mean"), tracker.get_last("mean_reward"), tracker.get_last("kl")
    (1.0, 0.72, 0.012)
    >>> tracker.update_group_rewards([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], step=100)
    >>> distribution = tracker.get_reward_distribution()
    >>> distribution["frac_reward_zero_std"], distribution["groups_all_min"], distribution["pass_at_k"][1]
    (0.5, 1, 0.25)
    """

    _settings: dict[str, Any]
    _groups: _native.RewardHistory
    _sources: dict[str, str]

    def __new__(
        cls,
        run: Run | None = None,
        *,
        group: str | None = None,
        reward_max: float | None = None,
        reward_min: float | None = None,
        success_threshold: float | None = None,
        zero_std: float = 1e-8,
        low_std: float = 0.05,
        advantage_epsilon: float = 1e-4,
        advantage_scale: str = "group",
        keep_rewards: int = 1 << 22,
    ) -> GRPOMetricsTracker:
        declared = {"reward_max": reward_max, "reward_min": reward_min, "success_threshold": success_threshold}
        tolerances = {"zero_std": zero_std, "low_std": low_std, "advantage_epsilon": advantage_epsilon}
        for name, value in (declared | tolerances).items():
            if value is not None or name in tolerances:
                require_type(value, numbers.Real, name)
        require_type(advantage_scale, str, "advantage_scale")
        require_type(keep_rewards, int, "keep_rewards")
        require(keep_rewards > 0, f"keep_rewards must be positive, not {keep_rewards}")
        tracker = super().__new__(cls, run, group=group)
        tracker._settings = declared | tolerances | {"advantage_scale": advantage_scale, "keep_rewards": keep_rewards}
        tracker._groups = _native.RewardHistory(**tracker._settings)
        tracker._sources = {}
        return tracker

    def __init__(self, run: Run | None = None, *, group: str | None = None, **_: Any) -> None:
        super().__init__(run, group=group)

    def update_grpo_step(
        self,
        step: int,
        policy_loss: float | None = None,
        mean_reward: float | None = None,
        reward_components: Mapping[str, Any] | None = None,
        kl_divergence: float | None = None,
        **others: Any,
    ) -> None:
        """One training step: stored under the names of the arguments and TRL's (`reward`, `kl`), components as `rewards/<name>/mean`."""
        named = {"policy_loss": policy_loss, "mean_reward": mean_reward, "kl_divergence": kl_divergence}
        metrics: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        if isinstance(reward_components, Mapping):
            for name, value in reward_components.items():
                is_plain = not isinstance(value, Mapping)
                metrics[f"rewards/{name}/mean" if is_plain else f"rewards/{name}"] = value
        elif reward_components is not None:
            kind = type(reward_components).__name__
            report(f"update_grpo_step: reward_components must be a dictionary of names and numbers, not {kind}")
        self.update_batch({**metrics, **others}, step)

    def update(self, name: str, value: Any, step: int | None = None) -> None:
        """Adds one value, under TRL's name too if it has one."""
        self.update_batch({name: value}, step)

    def update_batch(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Adds several values of one step, each under TRL's name too if it has one."""
        if isinstance(metrics, Mapping):
            found = self._under_canonical_names(metrics)
            if found:
                metrics = {**metrics, **found}
        super().update_batch(metrics, step)

    def update_group_rewards(
        self,
        rewards: Sequence[Any],
        step: int | None = None,
        components: Mapping[str, Sequence[Any]] | None = None,
        lengths: Sequence[Any] | None = None,
        prompt_ids: Iterable[Any] | None = None,
        advantages: Sequence[Any] | None = None,
        truncated: Sequence[Any] | None = None,
        group_size: int | None = None,
    ) -> None:
        """Adds the rewards of one group (a list) or of several (a list of lists, a 2-d array or tensor).

        None and NaN are unscored answers. `components`, `lengths`, `advantages` and `truncated` have the rewards' shape,
        `prompt_ids` has one entry for each group; `group_size` cuts flat lists into groups.
        The groups' own statistics land in the run as `groups/...`.
        """
        try:
            statistics = self._groups.push(rewards, components, lengths, prompt_ids, advantages, truncated, group_size)
        except Exception as error:  # noqa: BLE001 - nothing here may stop the training
            report(f"update_group_rewards: {error}; these groups are not counted")
            return
        if statistics:
            super().update_batch(statistics, step)

    log_groups = update_group_rewards

    def get_reward_distribution(self, window: int | None = None) -> dict[str, Any]:
        """Everything about the rewards of all groups so far, or of the last `window` groups.

        What cannot be known is None: a deviation of one reward, a correlation with a constant.
        """
        if window is not None:
            require_type(window, int, "window")
            if window < 1:
                report(f"get_reward_distribution: window must be positive, not {window}")
                window = 0
        found = self._groups.distribution(window)
        for key in _NUMBERED:
            found[key] = {int(number): value for number, value in found[key].items()}
        return found

    def get_prompt(self, prompt_id: Any) -> dict[str, Any] | None:
        """One prompt's visits, success rates and whether its last visit solved it; None when it was never seen."""
        return self._groups.prompt(prompt_id)

    def raw_names(self) -> dict[str, str]:
        """For each canonical name that was filled from another one: that name."""
        return {known: raw for known, raw in self._sources.items() if known != raw}

    def reset(self) -> None:
        """Forgets every value and every group in memory; the run keeps what it has."""
        super().reset()
        self._groups = _native.RewardHistory(**self._settings)
        self._sources.clear()

    def _under_canonical_names(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """The values to add under canonical names.

        Each canonical name has one source, so that a series never mixes two meanings: itself as soon as the caller uses it,
        otherwise the first name that stood for it.
        """
        values = dict(_flat(metrics))
        found: dict[str, Any] = {}
        for name in values:
            known = canonical(name)
            if known == name:
                self._sources[name] = name
            elif known not in values and self._sources.setdefault(known, name) == name:
                found[known] = values[name]
        for name, known in STAND_INS.items():
            if name in values and known not in values and self._sources.setdefault(known, name) == name:
                found[known] = values[name]
        return found


def _flat(metrics: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in metrics.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(value, Mapping) and depth < 16:
            yield from _flat(value, name, depth + 1)
        else:
            yield name, value
