"""Fills one replay buffer and samples from it. Prints its memory and its speed as JSON.

    replay_buffer.py BUFFER FRAMES.npz        frames of a game, stacks of four
    replay_buffer.py BUFFER vectors           100,000 transitions of 17 numbers, actions of 6
"""

import gc
import json
import sys
import time

import numpy as np

BATCH = 32
VECTORS = 100_000
WARM_UP = 200
SECONDS = 1.5


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


class Nilometer:
    options: dict = {}

    def __init__(self, capacity, is_image):
        from nilometer.buffers import ReplayBuffer

        space, action = (((4, 84, 84), np.uint8), ((1,), np.int64)) if is_image else (((17,), np.float32), ((6,), np.float32))
        self.buffer = ReplayBuffer(capacity, space, action, **self.options)

    def add(self, now, following, action, reward, done):
        self.buffer.add(now, following, action, reward, done)

    def sample(self):
        batch = self.buffer.sample(BATCH)
        return batch.observations, batch.next_observations


class NilometerLz4(Nilometer):
    options = {"codec": "lz4"}


class Cpprb:
    """Stacks on the last axis: what its compression of stacks expects."""

    def __init__(self, capacity, is_image):
        import cpprb

        self.is_image = is_image
        if is_image:
            columns = {"obs": {"shape": (84, 84, 4), "dtype": np.uint8}, "act": {"dtype": np.int64}, "rew": {}, "done": {}}
            self.buffer = cpprb.ReplayBuffer(capacity, columns, next_of="obs", stack_compress="obs")
        else:
            columns = {"obs": {"shape": 17}, "act": {"shape": 6}, "rew": {}, "done": {}}
            self.buffer = cpprb.ReplayBuffer(capacity, columns, next_of="obs")

    def add(self, now, following, action, reward, done):
        if self.is_image:
            now, following = np.moveaxis(now, 0, -1), np.moveaxis(following, 0, -1)
        self.buffer.add(obs=now, act=action, rew=reward, next_obs=following, done=done)
        if done:
            self.buffer.on_episode_end()

    def sample(self):
        batch = self.buffer.sample(BATCH)
        return batch["obs"], batch["next_obs"]


class StableBaselines:
    options: dict = {}

    def __init__(self, capacity, is_image):
        from gymnasium import spaces
        from stable_baselines3.common.buffers import ReplayBuffer

        if is_image:
            space, action = spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(18)
        else:
            space, action = spaces.Box(-9, 9, (17,), np.float32), spaces.Box(-1, 1, (6,), np.float32)
        self.buffer = ReplayBuffer(capacity, space, action, device="cpu", **self.options)

    def add(self, now, following, action, reward, done):
        self.buffer.add(now[None], following[None], np.asarray(action)[None], np.array([reward]), np.array([done]), [{}])

    def sample(self):
        batch = self.buffer.sample(BATCH)
        return batch.observations.numpy(), batch.next_observations.numpy()


class StableBaselinesOptimized(StableBaselines):
    options = {"optimize_memory_usage": True, "handle_timeout_termination": False}


class TorchRl:
    def __init__(self, capacity, is_image):
        import torch
        from tensordict import TensorDict
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

        torch.set_num_threads(1)
        self.torch, self.make = torch, TensorDict
        self.buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), batch_size=BATCH)

    def add(self, now, following, action, reward, done):
        tensor = self.torch.as_tensor
        following = {"observation": tensor(following), "reward": tensor([reward]), "done": tensor([done])}
        self.buffer.add(self.make({"observation": tensor(now), "action": tensor(action), "next": following}, []))

    def sample(self):
        batch = self.buffer.sample()
        return batch["observation"].numpy(), batch["next", "observation"].numpy()


BUFFERS = {
    "nilometer": Nilometer,
    "nilometer_lz4": NilometerLz4,
    "cpprb": Cpprb,
    "sb3": StableBaselines,
    "sb3_optimized": StableBaselinesOptimized,
    "torchrl": TorchRl,
}


def frame_steps(path):
    """Transitions of a game: stacks of four frames, zeros before the first."""
    with np.load(path) as loaded:
        frames, starts = loaded["frames"], loaded["starts"]
    random = np.random.default_rng(0)
    actions, rewards = random.integers(0, 18, len(frames)), random.choice([0.0, 1.0], len(frames))
    stack = np.zeros((4, *frames.shape[1:]), np.uint8)
    for at in range(len(frames) - 1):
        if starts[at]:
            stack = np.zeros_like(stack)
            stack[-1] = frames[at]
        if starts[at + 1]:
            continue
        following = np.concatenate([stack[1:], frames[at + 1][None]])
        is_over = bool(at + 2 < len(starts) and starts[at + 2])
        yield stack, following, actions[at : at + 1], float(rewards[at]), is_over
        stack = following


def vector_steps():
    random = np.random.default_rng(0)
    rows = random.standard_normal((VECTORS + 1, 17)).astype(np.float32)
    actions = random.standard_normal((VECTORS, 6)).astype(np.float32)
    for at in range(VECTORS):
        yield rows[at], rows[at + 1], actions[at], float(rows[at, 0]), False


def measure(name, source):
    is_image = source != "vectors"
    steps = list(frame_steps(source)) if is_image else list(vector_steps())
    # Stacks lie in memory before anything is measured: adding is timed without making them.
    warm_up = BUFFERS[name](WARM_UP, is_image)
    for step in steps[:WARM_UP]:
        warm_up.add(*step)
    warm_up.sample()
    del warm_up
    gc.collect()
    before = rss_bytes()
    buffer = BUFFERS[name](len(steps), is_image)
    started = time.process_time()
    for step in steps:
        buffer.add(*step)
    add_seconds = time.process_time() - started
    held = rss_bytes() - before
    for _ in range(20):
        buffer.sample()
    batches, started = 0, time.process_time()
    while time.process_time() - started < SECONDS:
        now, following = buffer.sample()
        batches += 1
    sample_seconds = time.process_time() - started
    assert len(now) == len(following) == BATCH
    # Memory that was freed before is used again and does not show in RSS; our own count leaves nothing out.
    counted = buffer.buffer.stats()["memory_bytes"] if isinstance(buffer, Nilometer) else 0
    return {
        "bytes_per_transition": max(held, counted) / len(steps),
        "adds_per_second": len(steps) / add_seconds,
        "samples_per_second": batches * BATCH / sample_seconds,
    }


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
