"""Facts that rules of advice rest on are measured on real models and buffers, and the rules speak on them."""

import json
import os
import pathlib
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from conftest import subprocess_environment
from stable_baselines3.common import buffers as theirs
from transformers import LlamaConfig, LlamaForCausalLM

import nilometer
from nilometer.optimize import MemoryOptimizationConfig, MemoryOptimizationSystem, find_batch_size, inspect_buffer
from nilometer.optimize.live_facts import recommendations
from nilometer.optimize.model.facts import facts_of_model
from nilometer.optimize.model.optimization import optimize_model

NILO = os.environ.get("NILO") or os.path.join(os.path.dirname(sys.executable), "nilo")
BATCH, LENGTH, LAYERS, HEADS, WORDS = 4, 64, 3, 4, 2000


def llama(attention="sdpa"):
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=WORDS, hidden_size=64, intermediate_size=128, num_hidden_layers=LAYERS, num_attention_heads=HEADS, attn_implementation=attention
    )
    ids = torch.randint(0, WORDS, (BATCH, LENGTH))
    return LlamaForCausalLM(config).train(), {"input_ids": ids, "labels": ids}


def rules(facts):
    return [one["rule"] for one in recommendations(facts)]


def test_logits_and_attention_scores_are_those_of_a_step():
    model, sample = llama("eager")
    facts = facts_of_model(model, sample=sample, peak_bytes=20_000_000)
    assert facts["logits_bytes"] == 2 * BATCH * LENGTH * WORDS * 4
    assert facts["attention_score_bytes"] == LAYERS * BATCH * HEADS * LENGTH * LENGTH * 4
    assert rules({"model": facts | {"peak_bytes": 4 * facts["logits_bytes"]}}).count("chunk-cross-entropy") == 1
    assert "use-sdpa" in rules({"model": facts | {"peak_bytes": 10 * facts["attention_score_bytes"]}})


def test_fused_attention_has_no_scores_and_a_checkpoint_keeps_none():
    model, sample = llama("sdpa")
    assert "attention_score_bytes" not in facts_of_model(model, sample=sample, peak_bytes=1)
    model, sample = llama("eager")
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    assert "attention_score_bytes" not in facts_of_model(model, sample=sample, peak_bytes=1)


def test_a_model_is_as_it_was_after_it_was_looked_at():
    model, sample = llama("eager")
    state = torch.get_rng_state()
    facts_of_model(model, sample=sample, peak_bytes=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_square_tensors_of_no_softmax_are_no_scores():
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 16))
    facts = facts_of_model(model, sample=torch.randn(4, 16, 16), peak_bytes=1)
    assert "attention_score_bytes" not in facts and "logits_bytes" not in facts


def test_a_model_that_cannot_be_looked_into_is_described_without_it():
    class Closed(torch.nn.Linear):
        def forward(self, _inputs):
            raise NotImplementedError("no rule for this mode")

    facts = facts_of_model(Closed(4, 4), sample=torch.ones(2, 4), peak_bytes=1000)
    assert facts["parameters"] == 20 and facts["peak_bytes"] == 1000 and "logits_bytes" not in facts


def test_a_chunked_loss_leaves_no_logits():
    model, sample = llama()
    done = optimize_model(model, sample, tolerance=True, keep_all=True)
    assert "chunked cross-entropy" in done.as_dict()["optimizations_applied"]
    assert "logits_bytes" not in done.facts


@pytest.mark.parametrize("preserves", [True, False])
def test_checkpoints_of_hugging_face_are_seen(preserves):
    model, _ = llama()
    assert "preserves_random_state" not in facts_of_model(model)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False, "preserve_rng_state": preserves})
    facts = facts_of_model(model)
    assert (facts["preserves_random_state"], facts["checkpointed_blocks"]) == (preserves, LAYERS)
    assert ("preserve-random-state" in rules({"model": facts | {"dropout": 0.1}})) is not preserves


def test_thresholds_of_a_gpu_reach_the_rules():
    config = MemoryOptimizationConfig(gpu_warning_threshold=0.6, gpu_critical_threshold=0.7)
    thresholds = MemoryOptimizationSystem(config).facts()["thresholds"]
    assert (thresholds["gpu_warning_ratio"], thresholds["gpu_critical_ratio"]) == (0.6, 0.7)
    assert rules({"thresholds": thresholds, "torch": {"peak_reserved_bytes": 65, "device_bytes": 100}}) == ["stay-within-gpu"]


def test_a_batch_beyond_what_was_found_to_fit_is_told(recorded):
    model = torch.nn.Linear(1000, 1000)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(size, _length):
        model(torch.ones(size, 1000)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    nilometer.init(name="batches")
    found = find_batch_size(step, model, optimizer, budget_bytes=12_000_000)
    nilometer.log({"batch/size": float(found.batch_size + 1)}, step=0)
    advice = recorded().summary()["recommendations"]
    assert "lower-micro-batch" in [one["rule"] for one in advice]


def filled(space, rows=120, stack=None, **options):
    buffer = theirs.ReplayBuffer(200, space, gymnasium.spaces.Discrete(5), device="cpu", **options)
    generator = np.random.default_rng(1)
    # A dark picture with a bright dot that moves, and numbers that follow each other.
    frames = np.zeros((rows + 8, *space.shape[-2:]), space.dtype)
    for number, frame in enumerate(frames):
        frame.flat[number % frame.size] = 200
    vectors = generator.random((rows + 8, *space.shape)).astype(space.dtype)
    for row in range(rows):
        seen = [frames[row + shift : row + shift + stack] if stack else vectors[row + shift] for shift in (0, 1)]
        buffer.add(seen[0][None], seen[1][None], np.array([row % 5]), np.array([1.0]), np.array([False]), [{}])
    return buffer


def test_a_buffer_of_stacked_frames_is_looked_through():
    buffer = filled(gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8), stack=4)
    facts = inspect_buffer(buffer, "atari")
    held = 120 * 4 * 84 * 84
    assert (facts["name"], facts["library"], facts["stacked_frames"]) == ("atari", "stable_baselines3", 4)
    assert (facts["image_bytes"], facts["next_observation_bytes"]) == (2 * held, held)
    assert facts["next_observation_repeats_ratio"] == 1 and facts["image_compression_ratio"] > 10
    assert facts["projected_bytes"] == pytest.approx(200 / 120 * facts["image_bytes"], rel=0.01)
    assert {"compress-frames", "drop-next-observations", "store-single-frames"} <= set(rules({"buffers": [facts]}))


def test_frames_that_do_not_follow_each_other_are_no_stack():
    buffer = filled(gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8), stack=4)
    noise = np.random.default_rng(2).integers(0, 255, buffer.observations.shape, np.uint8)
    buffer.observations[:] = noise
    facts = inspect_buffer(buffer)
    assert "stacked_frames" not in facts
    assert facts["next_observation_repeats_ratio"] == 0 and facts["image_compression_ratio"] == pytest.approx(1, abs=0.05)
    assert rules({"buffers": [facts]}) == []


def test_numbers_that_are_wider_than_they_need_are_counted():
    buffer = filled(gymnasium.spaces.Box(-1, 1, (3000,), np.float64), optimize_memory_usage=True, handle_timeout_termination=False)
    facts = inspect_buffer(buffer)
    assert facts["float64_bytes"] == 120 * 3000 * 8
    assert (facts["int64_bytes"], facts["int64_largest"]) == (120 * 8, 4)
    assert "next_observation_bytes" not in facts and "image_bytes" not in facts
    assert rules({"buffers": [facts]}) == ["store-float32"]
    assert rules({"buffers": [facts | {"int64_bytes": 1.2 * (1 << 20)}]}) == ["store-float32", "narrow-integers"]


def test_a_full_buffer_is_read_from_its_oldest_row():
    buffer = filled(gymnasium.spaces.Box(-1, 1, (50,), np.float32), rows=230)
    assert buffer.full and buffer.pos == 30
    facts = inspect_buffer(buffer)
    assert facts["next_observation_repeats_ratio"] == 1 and facts["projected_bytes"] > buffer.observations.nbytes + buffer.next_observations.nbytes


def test_parts_of_an_observation_are_added_up():
    parts = {"image": gymnasium.spaces.Box(0, 255, (1, 36, 36), np.uint8), "position": gymnasium.spaces.Box(-1, 1, (3,), np.float64)}
    buffer = theirs.DictReplayBuffer(50, gymnasium.spaces.Dict(parts), gymnasium.spaces.Discrete(5), device="cpu")
    for row in range(20):
        now, then = ({"image": np.full((1, 1, 36, 36), at, np.uint8), "position": np.full((1, 3), at / 20)} for at in (row, row + 1))
        buffer.add(now, then, np.array([0]), np.array([1.0]), np.array([False]), [{}])
    facts = inspect_buffer(buffer)
    assert (facts["image_bytes"], facts["float64_bytes"]) == (2 * 20 * 36 * 36, 2 * 20 * 3 * 8)
    assert facts["next_observation_repeats_ratio"] == 1 and "stacked_frames" not in facts


def test_the_run_is_told_of_a_buffer(recorded):
    nilometer.init(name="buffers")
    inspect_buffer(filled(gymnasium.spaces.Box(-1, 1, (3000,), np.float64)), "wide")
    advice = recorded().summary()["recommendations"]
    assert [one["rule"] for one in advice if "'wide'" in one["evidence"][0]][:1] == ["drop-next-observations"]


def test_our_own_buffer_has_its_size_alone():
    buffer = nilometer.ReplayBuffer(100, ((4,), np.float64), ((1,), np.int64))
    facts = inspect_buffer(buffer)
    assert facts == {"name": "replay", "library": "nilometer", "projected_bytes": buffer.projected_bytes}


def test_what_is_no_buffer_is_refused():
    with pytest.raises(TypeError, match="as those of Stable-Baselines3 have, not list"):
        inspect_buffer([1, 2])
    empty = theirs.ReplayBuffer(10, gymnasium.spaces.Box(-1, 1, (2,), np.float32), gymnasium.spaces.Discrete(2), device="cpu")
    with pytest.raises(ValueError, match="no two transitions yet"):
        inspect_buffer(empty)


def recorded_by_the_command(folder, program, argument):
    """How a program ended below `nilo run`, what `nilo show` says of it, and what `nilo optimize` recommends."""
    command = [sys.executable, str(pathlib.Path(__file__).with_name(program)), argument]
    environment = subprocess_environment(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="", NILO_DIR=str(folder / "runs"))
    made = subprocess.run([NILO, "run", "-q", "--", *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    asked = [
        subprocess.run([NILO, *arguments, "--format", "json"], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
        for arguments in (["show"], ["optimize"])
    ]
    assert [one.returncode for one in asked] == [0, 0], asked
    shown, optimized = [json.loads(one.stdout) for one in asked]
    return made, shown, optimized["recommendations"]


@pytest.mark.parametrize("loop, size", [("adaptive", 8), ("trainer", 1), ("lightning", 1)])
def test_a_training_that_ran_out_and_went_on_is_told_to_begin_with_what_fits(tmp_path, loop, size):
    made, _, recommended = recorded_by_the_command(tmp_path, "batch_program.py", loop)
    assert made.returncode == 0, made.stderr
    of_batches = [one for one in recommended if "micro-batch" in one["change"] or "batch" in one["rule"] or "fits" in one["rule"]]
    # What was found before memory ran out is no larger batch that fits.
    assert [one["rule"] for one in of_batches] == ["begin-with-what-fits"]
    samples = "1 sample" if size == 1 else f"{size} samples"
    assert of_batches[0]["evidence"] == [f"memory ran out 3 times; micro-batches have {samples}"], of_batches


@pytest.mark.parametrize("argument, raised", [("over", "TensorLimitReached"), ("adaptive", "NoBatchFits"), ("find", "NoBatchFits")])
def test_a_limit_of_tensors_on_the_host_is_no_full_gpu(tmp_path, argument, raised):
    made, shown, recommended = recorded_by_the_command(tmp_path, "limit_program.py", argument)
    assert made.returncode == 1 and raised in made.stderr
    assert (shown["status"], shown["exit_code"], shown["findings"]) == ("exited", 1, [])
    assert shown["exception"]["type_name"].endswith(raised)
    assert "fit-on-the-gpu" not in [one["rule"] for one in recommended]
    if argument != "over":
        weights = next(one for one in recommended if one["rule"] == "fit-the-weights")
        assert weights["evidence"] == ["weights 3.82 MiB, gradients 3.82 MiB, optimizer state 0 B: 7.64 MiB together, and a step may hold 5.73 MiB"]
