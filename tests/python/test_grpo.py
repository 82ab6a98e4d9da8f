"""Group rewards: the tracker's examples as documented, figures worked by hand, and the same figures from numpy and scipy."""

import itertools
import json
import math
import pathlib
import random
import warnings

import numpy
import pytest
from scipy import stats

import nilometer
from nilometer.metrics import GRPOMetricsTracker
from nilometer.metrics.names import ALIASES, aliases, canonical


@pytest.fixture(autouse=True)
def store_nothing(monkeypatch):
    monkeypatch.setenv("NILO_MODE", "disabled")
    monkeypatch.delenv("NILO_STRICT", raising=False)
    nilometer.finish()
    yield
    nilometer.finish()


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.delenv("NILO_MODE")
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    run = nilometer.init(dir=tmp_path, memory=False)
    yield run
    run.finish()


def stored(run, name):
    run.finish()
    series = nilometer.read_run(run.path).series(name)
    return series.step.tolist(), series.value.tolist()


def test_the_documented_example():
    grpo_tracker = GRPOMetricsTracker()

    grpo_tracker.update_grpo_step(
        step=100,
        policy_loss=0.45,
        mean_reward=0.72,
        reward_components={
            'format': 1.0,
            'score': 0.68,
            'meta': 0.85
        },
        kl_divergence=0.012
    )

    # Store group rewards for analysis
    grpo_tracker.update_group_rewards([0.9, 0.7, 0.5, 0.3])

    # Analyze distribution
    dist = grpo_tracker.get_reward_distribution()

    assert grpo_tracker.get_last("policy_loss") == 0.45
    assert grpo_tracker.get_last("reward") == 0.72
    assert grpo_tracker.get_last("kl") == 0.012
    assert grpo_tracker.get_last("rewards/format/mean") == 1.0
    assert grpo_tracker.get_last("rewards/score/mean") == 0.68
    assert grpo_tracker.get_last("rewards/meta/mean") == 0.85
    # Squares of 0.3, 0.1, 0.1, 0.3 add up to 0.2.
    assert dist["reward_mean"] == pytest.approx(0.6, abs=1e-15)
    assert dist["reward_std"] == pytest.approx(math.sqrt(0.2 / 3), abs=1e-15)
    assert dist["std_ddof"] == 1
    assert {rank: place["mean_reward"] for rank, place in dist["rank_distribution"].items()} == {
        1: 0.9, 2: 0.7, 3: 0.5, 4: 0.3
    }
    json.dumps(dist)


def test_the_example_in_the_documentation_prints_what_it_says(capsys):
    document = pathlib.Path(__file__).resolve().parents[2] / "docs" / "rl-metrics.md"
    example = document.read_text().split("```python")[1].split("```")[0]
    exec(compile(example, str(document), "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("0.333")
    for line in (printed[1], printed[3]):
        assert line in example


def test_flat_groups_are_split_into_too_easy_too_hard_and_stuck():
    tracker = GRPOMetricsTracker(reward_max=1.0, reward_min=0.0)
    tracker.update_group_rewards(
        [[1.0] * 4, [0.0] * 4, [0.5] * 4, [0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0]], step=1
    )
    dist = tracker.get_reward_distribution()
    assert (dist["groups_all_max"], dist["groups_all_min"], dist["groups_all_equal_mid"]) == (1, 1, 1)
    assert dist["frac_reward_zero_std"] == 0.6
    assert dist["groups_with_signal"] == 2 and dist["effective_batch"] == 8
    assert dist["groups_with_lone_answer"] == 1
    assert dist["scale_max_origin"] == "declared"
    assert dist["advantages"]["theoretical_max"] == pytest.approx(3 / math.sqrt(4))
    # The lone success: (1 - 0.25) / (0.5 + 1e-4).
    assert dist["advantages"]["max_abs"] == pytest.approx(0.75 / 0.5001, rel=1e-12)


def test_missing_rewards_are_counted_and_never_zero():
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards([1.0, None, float("nan"), 0.5])
    dist = tracker.get_reward_distribution()
    assert dist["reward_mean"] == 0.75
    assert dist["unscored"] == 2 and dist["frac_unscored"] == 0.5
    assert tracker.get_last("groups/frac_unscored") == 0.5


def test_a_window_looks_at_the_last_groups():
    tracker = GRPOMetricsTracker()
    for step in range(10):
        tracker.update_group_rewards([[step, step + 1.0]], step=step)
    assert tracker.get_reward_distribution(window=2)["reward_mean"] == 9.0
    assert tracker.get_reward_distribution()["groups"] == 10


def test_a_window_of_nothing_does_not_stop_the_loop(monkeypatch):
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards([[1.0, 2.0]], step=0)
    with pytest.warns(nilometer.NilometerWarning, match="window must be positive, not -1"):
        found = tracker.get_reward_distribution(window=-1)
    assert found["groups"] == 0 and found["reward_mean"] is None
    monkeypatch.setenv("NILO_STRICT", "1")
    with pytest.raises(nilometer.NilometerError, match="window must be positive, not 0"):
        tracker.get_reward_distribution(window=0)


def test_pass_at_k_is_that_of_every_choice():
    rewards = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards(rewards)
    dist = tracker.get_reward_distribution()
    assert list(dist["pass_at_k"]) == [1, 2, 4, 6]
    for k in dist["pass_at_k"]:
        choices = list(itertools.combinations(rewards, k))
        assert dist["pass_at_k"][k] == pytest.approx(sum(max(c) for c in choices) / len(choices))
        assert dist["best_at_k"][k] == pytest.approx(sum(max(c) for c in choices) / len(choices))
        assert dist["worst_at_k"][k] == pytest.approx(sum(min(c) for c in choices) / len(choices))
    assert (dist["solved_none"], dist["solved_some"], dist["solved_all"]) == (0.0, 1.0, 0.0)


def test_a_prompt_that_is_solved_and_lost_again():
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards([[0.0, 1.0], [0.0, 0.0]], prompt_ids=["a", 7])
    tracker.update_group_rewards([[0.0, 0.0]], prompt_ids=["a"])
    prompts = tracker.get_reward_distribution()["prompts"]
    assert prompts["prompts"] == 2 and prompts["solved"] == 0
    assert prompts["flips_to_unsolved"] == 1 and prompts["forgotten"] == 1
    assert tracker.get_prompt("a")["visits"] == 2
    assert tracker.get_prompt(7)["last_pass_rate"] == 0.0
    assert tracker.get_prompt("never") is None


def test_groups_land_in_the_run_with_their_step(run):
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards([[1.0, 0.0], [1.0, 1.0]], step=7)
    tracker.update_group_rewards([[1.0, 0.0], [0.0, 0.0]], step=8)
    assert stored(run, "groups/frac_reward_zero_std") == ([7, 8], [0.5, 0.5])
    assert stored(run, "groups/pass@1") == ([7, 8], [0.75, 0.25])


def test_the_statistics_of_a_step_are_of_its_own_groups(run):
    tracker = GRPOMetricsTracker(run)
    tracker.update_group_rewards([[0.0, 0.0]], step=1)
    tracker.update_group_rewards([[1.0, 3.0]], step=2)
    assert stored(run, "groups/reward_mean") == ([1, 2], [0.0, 2.0])


def test_foreign_names_are_found_under_the_canonical_one(run):
    tracker = GRPOMetricsTracker()
    tracker.update_batch({"actor/pg_loss": 0.3, "actor": {"kl_loss": 0.02}, "critic/rewards/mean": 0.6}, step=5)
    assert tracker.get_mean("policy_loss") == 0.3
    assert tracker.get_mean("kl") == tracker.get_mean("actor/kl_loss") == 0.02
    assert tracker.get_mean("reward") == 0.6
    assert tracker.raw_names()["kl"] == "actor/kl_loss"
    assert stored(run, "kl") == ([5], [0.02])
    assert stored(run, "actor/kl_loss") == ([5], [0.02])


def test_a_canonical_series_has_one_source():
    tracker = GRPOMetricsTracker()
    tracker.update_batch({"actor/entropy": 1.0, "entropy_loss": 2.0})
    tracker.update("entropy_loss", 3.0)
    assert tracker.get_values("entropy") == [1.0]
    tracker.update("loss", 0.5)
    assert tracker.get_values("policy_loss") == [0.5]
    tracker.update_batch({"loss": 0.4, "policy_loss": 0.3})
    tracker.update("loss", 0.2)
    assert tracker.get_values("policy_loss") == [0.5, 0.3]


@pytest.mark.parametrize(
    "raw, known",
    [
        ("actor/pg_loss", "policy_loss"),
        ("train/policy_loss", "policy_loss"),
        ("train/response_length", "completions/mean_length"),
        ("response_length/clip_ratio", "completions/clipped_ratio"),
        ("optim/grad_norm", "grad_norm"),
        ("actor/ppo_kl", "ppo_kl"),
        ("actor/pg_clipfrac_lower", "actor/pg_clipfrac_lower"),
        ("train/rewards/format/std", "rewards/format/std"),
        ("train/gsm8k/all/solver/reward/mean", "gsm8k/all/solver/reward"),
        ("train/gsm8k/effective/solver/rewards/format", "gsm8k/effective/solver/rewards/format/mean"),
        ("train/", "train/"),
        ("", ""),
    ],
)
def test_names(raw, known):
    assert canonical(raw) == known


def test_a_canonical_name_is_its_own():
    for known in ALIASES.values():
        assert canonical(known) == known
        assert known not in ALIASES
    assert "actor/kl_loss" in aliases("kl")


def test_other_arguments_are_kept_by_their_names():
    tracker = GRPOMetricsTracker()
    tracker.update_grpo_step(1, 0.1, 0.2, {"format": {"mean": 0.5, "std": 0.1}, "none": None}, entropy=1.5, grad_norm=2.0)
    assert tracker.get_last("entropy") == 1.5
    assert tracker.get_last("grad_norm") == 2.0
    assert tracker.get_last("rewards/format/std") == 0.1
    assert "kl" not in tracker
    assert "rewards/none/mean" not in tracker


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"rewards": 0.5}, "rewards is a single number"),
        ({"rewards": "0.5"}, "rewards is a string"),
        ({"rewards": [0.5, "x"]}, r"rewards\[1\] is a string"),
        ({"rewards": [[0.5], 0.5]}, r"rewards\[1\] is a number where others are lists"),
        ({"rewards": [[[0.5]]]}, r"rewards\[0\] holds further lists"),
        ({"rewards": [0.5, 0.6], "lengths": [1]}, "lengths has 1 values in group 0 where rewards has 2"),
        ({"rewards": [0.5, 0.6], "components": {"fmt": [[1], [2]]}}, "component 'fmt' has 2 groups"),
        ({"rewards": [0.5, 0.6], "components": [1, 2]}, "components is not a dictionary"),
        ({"rewards": [0.5], "prompt_ids": ["a", "b"]}, "prompt_ids has 2 groups"),
        ({"rewards": [0.5, 0.6, 0.7], "group_size": 2}, "do not make groups of 2"),
    ],
)
def test_bad_groups_warn_at_the_users_line_and_change_nothing(arguments, words, monkeypatch):
    tracker = GRPOMetricsTracker()
    nilometer._trouble._said.clear()
    with pytest.warns(nilometer.NilometerWarning, match=words) as caught:
        tracker.update_group_rewards(**arguments)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracker.update_group_rewards(**arguments)
    assert tracker.get_reward_distribution()["groups"] == 0
    monkeypatch.setenv("NILO_STRICT", "1")
    with pytest.raises(nilometer.NilometerError, match=words):
        tracker.update_group_rewards(**arguments)


@pytest.mark.parametrize(
    "arguments, kind, word",
    [
        ({"reward_max": "1"}, TypeError, "reward_max"),
        ({"reward_max": True}, TypeError, "reward_max"),
        ({"low_std": None}, TypeError, "low_std"),
        ({"low_std": -1.0}, ValueError, "low_std"),
        ({"reward_max": 0.0, "reward_min": 1.0}, ValueError, "reward_min"),
        ({"success_threshold": float("nan")}, ValueError, "success_threshold"),
        ({"advantage_scale": "median"}, ValueError, "advantage_scale"),
        ({"keep_rewards": 0}, ValueError, "keep_rewards"),
        ({"run": "run"}, TypeError, "run"),
    ],
)
def test_wrong_settings_raise_at_once_and_name_the_argument(arguments, kind, word):
    with pytest.raises(kind, match=word):
        GRPOMetricsTracker(**arguments)


def test_nothing_is_an_answer_too():
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards([])
    tracker.update_group_rewards([[], []])
    dist = tracker.get_reward_distribution()
    assert dist["reward_mean"] is None and dist["rank_distribution"] == {} and dist["groups"] == 2


def test_reset_forgets_groups_but_not_the_scale_that_was_declared():
    tracker = GRPOMetricsTracker(reward_max=2.0)
    tracker.update_group_rewards([1.0, 2.0])
    tracker.reset()
    dist = tracker.get_reward_distribution()
    assert dist["groups"] == 0 and dist["scale_max"] == 2.0
    assert len(tracker) == 0


def test_log_groups_is_the_same_call():
    tracker = GRPOMetricsTracker()
    tracker.log_groups(step=3, rewards=[1.0, 0.0, 0.5, 0.5], group_size=2, truncated=[True, False, None, False])
    dist = tracker.get_reward_distribution()
    assert dist["groups"] == 2
    assert dist["truncation"]["share"] == pytest.approx(1 / 3)


def test_arrays_and_tensors_are_groups():
    for dtype in ("float16", "float32", "float64", "int32"):
        tracker = GRPOMetricsTracker()
        tracker.update_group_rewards(numpy.array([[1, 0], [1, 1]], dtype=dtype), lengths=numpy.ones((2, 2)))
        assert tracker.get_reward_distribution()["reward_mean"] == 0.75
    tracker.update_group_rewards([numpy.float32(1.0), numpy.array(0.0)])
    tracker.update_group_rewards([numpy.array([1.0, 0.0]), numpy.array([0.5])])
    assert tracker.get_reward_distribution()["groups"] == 5


def test_figures_are_those_of_numpy():
    generator = numpy.random.default_rng(7)
    rewards = generator.normal(size=(40, 8))
    rewards[3] = 0.25
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards(rewards)
    dist = tracker.get_reward_distribution()
    stds = rewards.std(axis=1, ddof=1)
    assert dist["reward_mean"] == pytest.approx(rewards.mean(), rel=1e-12)
    assert dist["reward_std"] == pytest.approx(rewards.std(ddof=1), rel=1e-12)
    for name, value in [("mean", stds.mean()), ("p10", numpy.quantile(stds, 0.1)), ("p90", numpy.quantile(stds, 0.9))]:
        assert dist["group_reward_std"][name] == pytest.approx(value, rel=1e-12)
    assert dist["variance"]["within"] == pytest.approx((stds**2).mean(), rel=1e-12)
    between_squares = 8 * rewards.mean(axis=1).var(ddof=1)
    between = max(0.0, (between_squares - (stds**2).mean()) / 8)
    assert dist["variance"]["between"] == pytest.approx(between, rel=1e-9)
    advantages = (rewards - rewards.mean(axis=1, keepdims=True)) / (stds[:, None] + 1e-4)
    assert dist["advantages"]["max_abs"] == pytest.approx(abs(advantages).max(), rel=1e-9)
    assert dist["advantages"]["mean_abs"] == pytest.approx(abs(advantages).mean(), rel=1e-9)
    edges = dist["advantages"]["histogram"]["edges"]
    assert dist["advantages"]["histogram"]["counts"] == numpy.histogram(advantages, edges)[0].tolist()
    ranked = -numpy.sort(-rewards, axis=1)
    for rank, place in dist["rank_distribution"].items():
        assert place["mean_reward"] == pytest.approx(ranked[:, rank - 1].mean(), rel=1e-12)


def test_correlations_are_those_of_scipy():
    generator = random.Random(5)
    rewards = [generator.choice([0, 0.25, 0.5, 1.0]) for _ in range(60)]
    lengths = [generator.randrange(5, 15) for _ in range(60)]
    style = [reward + generator.choice([-0.5, 0, 0.5]) for reward in rewards]
    tracker = GRPOMetricsTracker()
    tracker.update_group_rewards(rewards, lengths=lengths, components={"style": style, "length": lengths})
    dist = tracker.get_reward_distribution()
    assert dist["lengths"]["reward_spearman"] == pytest.approx(stats.spearmanr(rewards, lengths)[0], abs=1e-12)
    assert dist["lengths"]["reward_pearson"] == pytest.approx(stats.pearsonr(rewards, lengths)[0], abs=1e-12)
    # With one group, ranking within groups and over all answers is the same.
    assert dist["lengths"]["rank_spearman"] == pytest.approx(dist["lengths"]["reward_spearman"], abs=1e-12)
    assert dist["components"]["style"]["kendall_tau_b"] == pytest.approx(stats.kendalltau(style, rewards)[0], abs=1e-12)
    between = dist["component_correlations"]["style"]["length"]
    assert between["pearson"] == pytest.approx(stats.pearsonr(style, lengths)[0], abs=1e-12)
    assert between["spearman"] == pytest.approx(stats.spearmanr(style, lengths)[0], abs=1e-12)


def test_what_was_given_is_readable_by_the_same_name(run):
    tracker = GRPOMetricsTracker()
    tracker.update_grpo_step(step=1, policy_loss=0.45, mean_reward=0.72, kl_divergence=0.012)
    assert tracker.get_mean("mean_reward") == tracker.get_mean("reward") == 0.72
    assert tracker.get_last("kl_divergence") == tracker.get_last("kl") == 0.012
    assert tracker.get_summary()["mean_reward"]["count"] == 1
    assert stored(run, "mean_reward") == ([1], [0.72])


@pytest.mark.parametrize("wrong", [object(), b"bytes", [1.0]])
def test_reward_components_of_another_type_are_named_in_plain_words(wrong, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "1")
    words = f"reward_components must be a dictionary of names and numbers, not {type(wrong).__name__}$"
    with pytest.raises(nilometer.NilometerError, match=words):
        GRPOMetricsTracker().update_grpo_step(0, reward_components=wrong)
