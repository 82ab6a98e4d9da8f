"""One name for what several trainers call differently.

The canonical names are TRL's. A name that means something else, however alike it looks, is not an alias:
verl's `actor/ppo_kl` compares the new policy with the old one, not with the reference, and prime-rl's `mismatch_kl`
compares trainer and sampler, so both stay apart from `kl`.
"""

from __future__ import annotations

import functools
import re

VERL = {
    "actor/pg_loss": "policy_loss",
    "actor/kl_loss": "kl",
    "actor/ppo_kl": "ppo_kl",
    "actor/entropy": "entropy",
    "actor/entropy_loss": "entropy",
    "actor/pg_clipfrac": "clip_ratio/region_mean",
    "actor/grad_norm": "grad_norm",
    "actor/lr": "learning_rate",
    "critic/rewards/mean": "reward",
    "critic/score/mean": "score",
    "response_length/mean": "completions/mean_length",
    "response_length/min": "completions/min_length",
    "response_length/max": "completions/max_length",
    "response_length/clip_ratio": "completions/clipped_ratio",
    "timing_s/step": "step_time",
}

OPENRLHF = {
    "actor_grad_norm": "grad_norm",
    "actor_lr": "learning_rate",
    "entropy_loss": "entropy",
    "response_length": "completions/mean_length",
    "response_clip_ratio": "completions/clipped_ratio",
    "timing/step_total": "step_time",
}

PRIME_RL = {
    "loss/mean": "policy_loss",
    "reward/mean": "reward",
    "entropy/all/mean": "entropy",
    "mismatch_kl/all/mean": "mismatch_kl",
    "optim/grad_norm": "grad_norm",
    "optim/lr": "learning_rate",
    "time/step": "step_time",
}

BY_HAND = {
    "mean_reward": "reward",
    "reward_mean": "reward",
    "kl_div": "kl",
    "kl_divergence": "kl",
}

ALIASES = {**VERL, **OPENRLHF, **PRIME_RL, **BY_HAND}

# What stands in when nothing better is there: TRL logs `loss` alone unless there is an entropy bonus.
STAND_INS = {"loss": "policy_loss"}

# prime-rl's orchestrator: environment, all or effective rollouts, agent. They stay in the name, or environments would mix.
_ORCHESTRATOR = re.compile(r"train/(?P<place>.+/(?:all|effective)/[^/]+)/(?P<figure>reward/mean|rewards/[^/]+)")


@functools.lru_cache(maxsize=4096)
def canonical(name: str) -> str:
    """TRL's name for a metric that any of the trainers logged; an unknown name is given back as it is.

    >>> canonical("actor/kl_loss"), canonical("train/rewards/format/mean"), canonical("my_metric")
    ('kl', 'rewards/format/mean', 'my_metric')
    """
    orchestrated = _ORCHESTRATOR.fullmatch(name)
    if orchestrated:
        figure = orchestrated["figure"]
        return f"{orchestrated['place']}/" + ("reward" if figure == "reward/mean" else f"{figure}/mean")
    bare = name.removeprefix("train/")
    return ALIASES.get(bare, bare) or name


def aliases(name: str) -> list[str]:
    """The other names that a canonical name is known by, sorted.

    >>> aliases("kl")
    ['actor/kl_loss', 'kl_div', 'kl_divergence']
    """
    return sorted(raw for raw, known in ALIASES.items() if known == name)
