"""Replay buffers with PyTorch and Stable-Baselines3: tensors without copies, and trainings that run on our buffer as on theirs."""

import gymnasium
import numpy as np
import pytest
import torch
from stable_baselines3.common import buffers

import nilometer
from nilometer.buffers import ReplayBuffer


def fill(buffer, steps, n_envs, space, seed=0):
    """The same transitions for every buffer."""
    random = np.random.default_rng(seed)
    now = random.standard_normal((n_envs, *space.shape)).astype(np.float32)
    for step in range(steps):
        following = random.standard_normal(now.shape).astype(np.float32)
        done = random.random(n_envs) < 0.1
        infos = [{"TimeLimit.truncated": bool(over and step % 2)} for over in done]
        action, reward = random.integers(0, 3, (n_envs, 1)), random.random(n_envs).astype(np.float32)
        buffer.add(now, following, action, reward, done, infos)
        now = following


def test_tensors_share_the_memory_of_the_arrays():
    buffer = ReplayBuffer(100, ((4,), np.float32), ((1,), np.int64), device="cpu")
    buffer.add(torch.ones(4), torch.zeros(4), torch.tensor([2]), 1.0, False)
    batch = buffer.sample(3)
    assert isinstance(batch.observations, torch.Tensor)
    assert batch.observations.tolist() == [[1.0] * 4] * 3
    assert batch.actions.dtype == torch.int64
    assert isinstance(batch.indices, np.ndarray)
    # Arrays are used again, but not while a tensor lies over them.
    buffer.add(torch.zeros(4), torch.zeros(4), torch.tensor([2]), 1.0, False)
    observations = batch.observations
    del batch
    for _ in range(20):
        buffer.sample(3)
    assert observations.tolist() == [[1.0] * 4] * 3


@pytest.mark.parametrize("n_envs", [1, 3])
def test_every_transition_is_that_of_stable_baselines(n_envs):
    space, actions = gymnasium.spaces.Box(-9, 9, (5,), np.float32), gymnasium.spaces.Discrete(3)
    theirs = buffers.ReplayBuffer(90, space, actions, device="cpu", n_envs=n_envs)
    ours = ReplayBuffer(90, space, actions, device="cpu", n_envs=n_envs)
    # Not past the end: there SB3 writes over the beginning, and its places are no longer ours.
    fill(theirs, 90 // n_envs, n_envs, space)
    fill(ours, 90 // n_envs, n_envs, space)
    assert (ours.size(), ours.full, ours.pos) == (90, theirs.full, theirs.pos)
    batch = ours.get(np.arange(90))
    shape = (90 // n_envs, n_envs)
    assert np.array_equal(batch.observations.numpy().reshape(*shape, 5), theirs.observations)
    assert np.array_equal(batch.next_observations.numpy().reshape(*shape, 5), theirs.next_observations)
    assert np.array_equal(batch.actions.numpy().reshape(*shape, 1), theirs.actions)
    assert np.array_equal(batch.rewards.numpy().reshape(shape), theirs.rewards)
    assert np.array_equal(batch.dones.numpy().reshape(shape), theirs.dones * (1 - theirs.timeouts))
    mine, other = ours.sample(7), theirs.sample(7)
    for name in ("observations", "actions", "next_observations", "dones", "rewards"):
        assert getattr(mine, name).shape == getattr(other, name).shape, name
        assert getattr(mine, name).dtype == getattr(other, name).dtype, name


def test_n_step_returns_are_those_of_stable_baselines():
    space, actions = gymnasium.spaces.Box(-9, 9, (5,), np.float32), gymnasium.spaces.Discrete(3)
    theirs = buffers.NStepReplayBuffer(200, space, actions, device="cpu", n_steps=3, gamma=0.9)
    ours = ReplayBuffer(200, space, actions, device="cpu", n_steps=3, gamma=0.9)
    fill(theirs, 150, 1, space)
    fill(ours, 150, 1, space)
    rows = np.arange(150)
    expected, found = theirs._get_samples(rows), ours.get(rows)
    for name in ("observations", "next_observations", "dones", "rewards", "discounts"):
        assert torch.allclose(getattr(found, name), getattr(expected, name), atol=1e-6), name


def test_dqn_trains_saves_and_goes_on(tmp_path):
    from stable_baselines3 import DQN

    model = DQN(
        "MlpPolicy",
        gymnasium.make("CartPole-v1"),
        buffer_size=500,
        learning_starts=50,
        replay_buffer_class=nilometer.ReplayBuffer,
        replay_buffer_kwargs={"seed": 1},
        device="cpu",
    )
    model.learn(700)
    buffer = model.replay_buffer
    assert isinstance(buffer, ReplayBuffer) and buffer.full
    assert buffer.stats()["compression_ratio"] > 1.4
    buffer.save(tmp_path / "replay")
    model.replay_buffer = ReplayBuffer.load(tmp_path / "replay", device="cpu")
    model.learn(100, reset_num_timesteps=False)
    assert len(model.replay_buffer) == 500


def test_a_replay_buffer_saved_by_stable_baselines_is_loaded_by_it(tmp_path):
    from stable_baselines3 import DQN

    def model():
        options = {"buffer_size": 500, "learning_starts": 50, "replay_buffer_class": nilometer.ReplayBuffer, "device": "cpu"}
        return DQN("MlpPolicy", gymnasium.make("CartPole-v1"), **options)

    first = model()
    first.learn(300)
    first.save_replay_buffer(tmp_path / "rb.pkl")
    second = model()
    second.load_replay_buffer(tmp_path / "rb.pkl")
    buffer = second.replay_buffer
    assert type(buffer) is ReplayBuffer and isinstance(buffer, buffers.ReplayBuffer)
    assert not isinstance(buffer, buffers.DictReplayBuffer)
    expected, found = first.replay_buffer.get(np.arange(300)), buffer.get(np.arange(300))
    for name in ("observations", "actions", "next_observations", "dones", "rewards"):
        assert torch.equal(getattr(found, name), getattr(expected, name)), name
    second.learn(200, reset_num_timesteps=False)
    assert len(buffer) == 500


def test_images_of_a_stacked_environment_are_stored_once():
    from stable_baselines3 import DQN
    from stable_baselines3.common.envs import FakeImageEnv
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

    environment = VecFrameStack(DummyVecEnv([lambda: FakeImageEnv(4, screen_height=36, screen_width=36, n_channels=1)] * 2), 4)
    model = DQN(
        "CnnPolicy",
        environment,
        buffer_size=400,
        learning_starts=100,
        replay_buffer_class=nilometer.ReplayBuffer,
        policy_kwargs={"features_extractor_kwargs": {"features_dim": 16}},
        device="cpu",
    )
    model.learn(300)
    stats = model.replay_buffer.stats()
    transitions = stats["transitions"]
    assert transitions >= 300
    # Pixels are drawn at random: one new frame a transition, and some at the beginning of episodes.
    assert transitions <= stats["frames"] < 1.3 * transitions
