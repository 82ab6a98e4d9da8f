"""GRPO of a tiny random model: TRL's metrics land in the run, and the groups behind them."""

import asyncio

import numpy
import pytest
from datasets import Dataset
from tiny import language_model, tokenizer
from trl import GRPOConfig, GRPOTrainer

from nilometer.integrations.huggingface import NiloCallback, watch_rewards

PROMPTS = [f"w{number} w{number + 1}" for number in range(8)]
LOGGED = {"reward", "reward_std", "frac_reward_zero_std", "completions/mean_length", "loss", "num_tokens"}


def train(folder, reward_functions, **more):
    usual = {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 2,
        "num_generations": 4,
        "max_completion_length": 6,
        "max_steps": 3,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "disable_tqdm": True,
        "save_strategy": "no",
        "seed": 3,
    }
    training = GRPOTrainer(
        model=language_model(),
        reward_funcs=reward_functions,
        args=GRPOConfig(output_dir=str(folder), **(usual | more)),
        train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
        eval_dataset=Dataset.from_dict({"prompt": PROMPTS[:2]}),
        processing_class=tokenizer(),
        callbacks=[NiloCallback()],
    )
    training.train()
    return training


def even_words(completions, **_):
    """The share of words with an even number."""
    shares = []
    for completion in completions:
        words = [word for word in completion.split() if word.startswith("w")]
        shares.append(sum(int(word[1:]) % 2 == 0 for word in words) / len(words) if words else 0.0)
    return shares


def test_what_trl_logs_is_in_the_run(tmp_path, recorded):
    training = train(tmp_path / "out", [even_words])
    run = recorded()
    entries = [entry for entry in training.state.log_history if "reward" in entry]
    assert len(entries) == 3
    assert LOGGED <= set(entries[0])
    for name in entries[0]:
        if name != "step":
            series = run.series(f"train/{name}")
            assert series.step.tolist()[:3] == [1, 2, 3], name
            assert series.value.tolist()[:3] == [entry[name] for entry in entries], name
    assert run.phase("step").step.tolist() == [1, 2, 3]
    # Two batches of four completions a step; TRL counts the tokens itself.
    assert run.throughput("samples").value.tolist() == [8, 16, 24]
    assert run.throughput("tokens").value[-1] == training.state.num_input_tokens_seen > 0


def rare_word(completions, **_):
    """1 or 0, and often the same for a whole group."""
    return [float("w1 " in completion + " " or "w2 " in completion + " ") for completion in completions]


def test_watched_rewards_give_the_groups_behind_trls_figures(tmp_path, recorded):
    watched = watch_rewards(rare_word, group_size=4)
    assert watched.__name__ == "rare_word"
    training = train(tmp_path / "out", [watched])
    run = recorded()
    entries = [entry for entry in training.state.log_history if "reward" in entry]
    zero = run.series("groups/frac_reward_zero_std")
    assert zero.step.tolist() == [1, 2, 3]
    assert zero.value.tolist() == pytest.approx([entry["frac_reward_zero_std"] for entry in entries])
    assert zero.value.max() > 0
    found = watched.tracker.get_reward_distribution()
    assert found["groups"] == 6
    assert found["reward_mean"] == pytest.approx(numpy.mean([entry["reward"] for entry in entries]), abs=1e-6)
    assert found["lengths"] is not None and found["prompts"] is not None


def test_rewards_of_evaluations_are_left_out(tmp_path):
    watched = watch_rewards(even_words)
    train(tmp_path / "out", [watched], eval_strategy="steps", eval_steps=1, per_device_eval_batch_size=4)
    assert watched.tracker.get_reward_distribution()["groups"] == 6


def test_groups_are_found_from_equal_prompts_in_a_row():
    watched = watch_rewards(lambda completions, **_: [1.0, 0.0, 0.5, 0.5, None])
    rewards = watched(completions=["a"] * 5, prompts=["p", "p", "q", "q", "q"], completion_ids=[[1]] * 5)
    assert rewards == [1.0, 0.0, 0.5, 0.5, None]
    distribution = watched.tracker.get_reward_distribution()
    assert distribution["groups"] == 2
    assert watched.tracker.get_prompt("p") is not None


def test_an_asynchronous_reward_function_stays_one():
    async def reward(completions, **_):
        await asyncio.sleep(0)
        return [1.0, 0.0]

    watched = watch_rewards(reward)
    assert asyncio.iscoroutinefunction(watched)
    assert asyncio.run(watched(completions=["a", "b"], prompts=["p", "p"])) == [1.0, 0.0]
    assert watched.tracker.get_reward_distribution()["groups"] == 1


def test_a_reward_model_is_refused():
    with pytest.raises(TypeError, match="takes a reward function"):
        watch_rewards(language_model())
    with pytest.raises(TypeError, match="takes a reward function"):
        watch_rewards("some/model")
