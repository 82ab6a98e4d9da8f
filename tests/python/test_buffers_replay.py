"""Replay buffers from Python: what is sampled is what was added, through every option; threads, forks, files."""

import errno
import multiprocessing
import pathlib
import pickle
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import nilometer
from nilometer.buffers import ReplayBatch, ReplayBuffer

IMAGE = ((4, 12, 12), np.uint8)
VECTOR = ((17,), np.float32)


class Episodes:
    """Steps of environments, with everything that was added, in the order of its numbers."""

    def __init__(self, shape, dtype, n_envs=1, seed=0):
        self.shape, self.dtype, self.n_envs = shape, dtype, n_envs
        self.random = np.random.default_rng(seed)
        self.added = []
        self.observations = [self.reset() for _ in range(n_envs)]

    def draw(self):
        if self.dtype == np.uint8:
            return self.random.integers(0, 255, self.shape[1:], dtype=np.uint8)
        return self.random.standard_normal(self.shape).astype(self.dtype)

    def reset(self):
        if self.dtype != np.uint8:
            return self.draw()
        stack = np.zeros(self.shape, np.uint8)
        stack[-1] = self.draw()
        return stack

    def following(self, observation):
        if self.dtype != np.uint8:
            return self.draw()
        frame = observation[-1].copy()
        frame[self.random.integers(12)] = self.random.integers(0, 255)
        return np.concatenate([observation[1:], frame[None]])

    def step(self, buffer):
        """One step of all environments."""
        now = list(self.observations)
        following = [self.following(one) for one in now]
        actions = self.random.integers(0, 6, (self.n_envs, 1))
        rewards = self.random.choice([-1.0, 0.0, 1.0], self.n_envs).astype(np.float32)
        done = self.random.random(self.n_envs) < 0.1
        cut = done & (self.random.random(self.n_envs) < 0.5)
        infos = [{"TimeLimit.truncated": bool(one)} for one in cut]
        buffer.add(np.stack(now), np.stack(following), actions, rewards, done, infos)
        for index in range(self.n_envs):
            self.added.append((now[index], following[index], actions[index], rewards[index], done[index] and not cut[index], cut[index]))
        self.observations = [self.reset() if over else one for one, over in zip(following, done, strict=True)]

    def check(self, batch):
        for place, index in enumerate(np.asarray(batch.indices)):
            now, following, action, reward, terminated, cut = self.added[int(index)]
            assert np.array_equal(batch.observations[place], now)
            assert np.array_equal(batch.next_observations[place], following)
            assert np.array_equal(batch.actions[place], action)
            assert batch.rewards[place, 0] == reward
            assert batch.dones[place, 0] == terminated
            assert batch.truncations[place, 0] == cut


def filled(space, steps, n_envs=1, capacity=300, **options):
    buffer = ReplayBuffer(capacity, space, ((1,), np.int64), n_envs=n_envs, seed=1, **options)
    episodes = Episodes(*space, n_envs=n_envs)
    for _ in range(steps):
        episodes.step(buffer)
    return buffer, episodes


def everything(buffer):
    return buffer.get(np.arange(buffer.oldest_index, buffer.oldest_index + len(buffer)))


@pytest.mark.parametrize("space", [IMAGE, VECTOR], ids=["image", "vector"])
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("codec", ["auto", "raw", "lz4", "zstd", "patch"])
def test_what_is_sampled_is_what_was_added(space, n_envs, codec):
    buffer, episodes = filled(space, 250, n_envs, codec=codec)
    assert len(buffer) == min(300, 250 * n_envs)
    episodes.check(everything(buffer))
    batch = buffer.sample(64)
    assert batch.observations.shape == (64, *space[0])
    assert batch.observations.dtype == space[1]
    assert batch.actions.dtype == np.int64
    assert batch.discounts is None and batch.weights is None
    episodes.check(batch)


def test_stacks_on_the_last_axis_come_back():
    buffer = ReplayBuffer(100, ((6, 6, 4), np.uint8), ((1,), np.int64))
    random = np.random.default_rng(0)
    frames = random.integers(0, 255, (60, 6, 6), dtype=np.uint8)
    stacks = [np.stack(frames[at : at + 4], axis=-1) for at in range(56)]
    for now, following in zip(stacks, stacks[1:]):
        buffer.add(now, following, 0, 0.0, False)
    assert buffer.stats()["frames"] == 59
    batch = everything(buffer)
    assert np.array_equal(batch.observations, stacks[:-1])
    assert np.array_equal(batch.next_observations, stacks[1:])


def test_vectors_take_two_fifths_less_than_arrays():
    buffer = ReplayBuffer(50_000, VECTOR, ((6,), np.float32))
    random = np.random.default_rng(0)
    rows = random.standard_normal((50_001, 17)).astype(np.float32)
    actions = random.standard_normal((50_000, 6)).astype(np.float32)
    for now, following, action in zip(rows, rows[1:], actions):
        buffer.add(now, following, action, now[0], False)
    stats = buffer.stats()
    assert stats["raw_bytes"] == 172 * 50_000
    assert stats["memory_bytes"] <= 0.6 * stats["raw_bytes"]
    assert stats["compression_ratio"] == stats["raw_bytes"] / stats["memory_bytes"]
    assert stats["columns"]["observation"]["codec"] == "raw"
    assert stats["columns"]["flags"]["codec"] == "constant"


def test_arrays_of_a_batch_are_used_again_only_when_nothing_refers_to_them():
    buffer, _ = filled(VECTOR, 100)
    first = buffer.sample(8)
    address = first.observations.ctypes.data
    view = first.observations[2:3]
    kept = view.copy()
    del first
    for _ in range(10):
        assert buffer.sample(8).observations.ctypes.data != address
    assert np.array_equal(view, kept)
    del view
    addresses = {buffer.sample(8).observations.ctypes.data for _ in range(10)}
    assert len(addresses) <= 4


def test_n_step_returns_end_with_the_episode():
    buffer = ReplayBuffer(100, ((1,), np.float32), ((1,), np.int64), n_steps=3, gamma=0.5)
    for at in range(10):
        buffer.add([at], [at + 1], 0, float(at), at == 4)
    batch = everything(buffer)
    # Rewards are their numbers; the episode ends with the fifth.
    assert batch.rewards[:, 0].tolist() == [1.0, 2.75, 4.5, 5.0, 4.0, 9.75, 11.5, 13.25, 12.5, 9.0]
    assert batch.discounts[:, 0].tolist() == [0.125, 0.125, 0.125, 0.25, 0.5, 0.125, 0.125, 0.125, 0.25, 0.5]
    assert batch.next_observations[:, 0].tolist() == [3, 4, 5, 5, 5, 8, 9, 10, 10, 10]
    assert batch.dones[:, 0].tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]


def test_priorities_decide_and_weights_make_up():
    buffer = ReplayBuffer(100, VECTOR, ((1,), np.int64), prioritized=True, alpha=1.0, beta=1.0, seed=3)
    episodes = Episodes(*VECTOR)
    for _ in range(150):
        episodes.step(buffer)
    buffer.update_priorities(np.arange(150), np.where(np.arange(150) < 60, 9.0, 1.0))
    batch = buffer.sample(1800)
    episodes.check(batch)
    often = batch.indices < 60
    assert 880 <= often.sum() <= 920
    assert np.allclose(batch.weights[:, 0], np.where(often, 1 / 9, 1.0))
    with pytest.raises(ValueError, match="priorities has values that float32 cannot hold"):
        buffer.update_priorities([0], [1e300])
    with pytest.raises(ValueError, match="priority -1 is not a positive"):
        buffer.update_priorities([100], [-1])


def test_observations_may_be_dictionaries_and_columns_more():
    space = {"image": IMAGE, "speed": ((2,), np.float64)}
    buffer = ReplayBuffer(50, space, ((1,), np.int64), extra={"log_prob": ((1,), np.float32)})
    observation = {"image": np.full(IMAGE[0], 7, np.uint8), "speed": np.array([0.1, 1e300])}
    buffer.add(observation, observation, 3, 1.0, False, extra={"log_prob": -0.5})
    batch = buffer.sample(2)
    assert np.array_equal(batch.observations["speed"], [[0.1, 1e300]] * 2)
    assert np.array_equal(batch.next_observations["image"][1], observation["image"])
    assert batch.extra["log_prob"].tolist() == [[-0.5], [-0.5]]


def test_a_budget_drops_the_oldest_and_a_spill_folder_keeps_them(tmp_path):
    small, episodes = filled(((1, 5000), np.uint8), 0, capacity=2000, max_bytes=2 << 20)
    large = ReplayBuffer(2000, ((5000,), np.uint8), ((1,), np.int64), max_bytes=2 << 20, spill_dir=tmp_path)
    random = np.random.default_rng(0)
    rows = random.integers(0, 255, (1501, 5000), dtype=np.uint8)
    for now, following in zip(rows, rows[1:]):
        small.add(now, following, 0, 0.0, False)
        large.add(now, following, 0, 0.0, False)
    assert small.stats()["memory_bytes"] < 2.3 * (1 << 20)
    assert small.stats()["dropped_for_memory"] == 1500 - len(small) > 1000
    assert np.array_equal(everything(small).observations[-1].reshape(-1), rows[1499])
    assert len(large) == 1500
    assert large.stats()["disk_bytes"] > 5 << 20
    assert np.array_equal(everything(large).observations, rows[:1500])
    assert list(tmp_path.iterdir()) == []


def test_a_saved_buffer_is_loaded_as_it_was(tmp_path):
    buffer, episodes = filled(IMAGE, 350)
    path = tmp_path / "replay.buffer"
    buffer.save(path)
    loaded = ReplayBuffer.load(path)
    assert loaded.n_envs == 1 and loaded.buffer_size == 300
    for _ in range(20):
        episodes.step(loaded)
    episodes.check(everything(loaded))
    unpickled = pickle.loads(pickle.dumps(loaded))
    episodes.check(everything(unpickled))


@pytest.mark.parametrize("damage", ["cut", "changed", "other", "empty"])
def test_a_damaged_file_raises_one_clear_error(tmp_path, damage):
    buffer, _ = filled(IMAGE, 50)
    path = tmp_path / "replay.buffer"
    buffer.save(path)
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "changed":
        data[len(data) // 2] ^= 1
    else:
        data = b"" if damage == "empty" else b"hello, this is not a buffer"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="cannot read the buffer: .*replay.buffer"):
        ReplayBuffer.load(path)


def test_a_file_that_cannot_be_opened_raises_what_open_raises(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        ReplayBuffer.load(tmp_path / "missing")
    assert raised.value.errno == errno.ENOENT and raised.value.filename == str(tmp_path / "missing")
    with pytest.raises(IsADirectoryError):
        ReplayBuffer.load(str(tmp_path))


def test_many_threads_sample_while_one_adds():
    buffer, episodes = filled(IMAGE, 50)
    is_over = threading.Event()
    failures = []

    def sample():
        try:
            while not is_over.is_set():
                episodes.check(buffer.sample(16))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=sample) for _ in range(3)]
    # What is checked must be known before it can be sampled.
    add, known = buffer.add, episodes.added

    class Noting:
        def add(self, now, following, actions, rewards, done, infos):
            cut = infos[0]["TimeLimit.truncated"]
            known.append((now[0], following[0], actions[0], rewards[0], done[0] and not cut, cut))
            add(now, following, actions, rewards, done, infos)
            known.pop()

    for thread in threads:
        thread.start()
    for _ in range(300):
        episodes.step(Noting())
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []


def _sample_in_child(buffer, queue):
    queue.put(int(buffer.sample(8).observations.sum()) >= 0)


def test_a_forked_child_samples_what_its_parent_added(tmp_path):
    buffer, _ = filled(IMAGE, 200, max_bytes=20_000, spill_dir=tmp_path)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_sample_in_child, args=(buffer, queue))
    child.start()
    assert queue.get(timeout=60)
    child.join()
    assert child.exitcode == 0


def test_a_child_that_is_forked_while_threads_sample_samples_and_adds(tmp_path):
    buffer, _ = filled(IMAGE, 1000, max_bytes=60_000, spill_dir=tmp_path)
    is_over = threading.Event()

    def sample():
        while not is_over.is_set():
            buffer.sample(32)

    threads = [threading.Thread(target=sample) for _ in range(2)]
    for thread in threads:
        thread.start()
    exit_codes = []
    try:
        for _ in range(40):
            child = multiprocessing.get_context("fork").Process(target=_sample_and_add, args=(buffer,))
            child.start()
            child.join(30)
            exit_codes.append(child.exitcode)
            child.kill()
            child.join()
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert exit_codes == [0] * 40


def _sample_and_add(buffer):
    for _ in range(5):
        batch = buffer.sample(32)
    buffer.add(batch.observations[:1], batch.next_observations[:1], 0, 0.0, False)
    # A process that was forked may fork.
    child = multiprocessing.get_context("fork").Process(target=buffer.sample, args=(8,))
    child.start()
    child.join()
    assert child.exitcode == 0


def test_a_buffer_beyond_the_memory_limit_says_so():
    with pytest.warns(nilometer.NilometerWarning, match="a full replay buffer of .* the memory limit is"):
        buffer = ReplayBuffer(10**10, ((3, 84, 84), np.uint8), ((1,), np.int64))
    assert buffer.projected_bytes > 10**14


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1, VECTOR, VECTOR), {"n_envs": 2}, "at least one for each environment"),
        ((0, VECTOR, VECTOR), {}, "buffer_size is 0; it must be a whole number, 1 or more"),
        ((True, VECTOR, VECTOR), {}, "buffer_size is True; it must be a whole number"),
        ((10, VECTOR, VECTOR), {"gamma": float("nan")}, "gamma is nan; it must be a number from 0 to 1"),
        ((10, VECTOR, VECTOR), {"gamma": "high"}, "gamma is 'high'; it must be a number from 0 to 1"),
        ((10, VECTOR, VECTOR), {"beta": -1.0, "prioritized": True}, "beta is -1.0; it must be a number, 0 or more"),
        ((10, VECTOR, VECTOR), {"alpha": float("inf"), "prioritized": True}, "alpha is inf; it must be a number, 0 or more"),
        ((10, VECTOR, VECTOR), {"max_bytes": -5}, 'max_bytes is -5; it must be a positive number of bytes or "auto"'),
        ((10, VECTOR, VECTOR), {"max_bytes": 1.5}, "max_bytes is 1.5; it must be"),
        ((10, VECTOR, VECTOR), {"cache_bytes": -1}, "cache_bytes is -1; it must be a whole number, 0 or more"),
        ((10, VECTOR, VECTOR), {"seed": -1}, "seed is -1"),
        ((10, VECTOR, VECTOR), {"codec": "gzip"}, "codec is 'gzip'"),
        ((10, VECTOR, VECTOR), {"stack": 3}, "does not divide into 3 frames"),
        ((10, VECTOR, VECTOR), {"n_steps": 0}, "n_steps is 0"),
        ((10, VECTOR, VECTOR), {"max_bytes": "much"}, "max_bytes is 'much'"),
        ((10, VECTOR, VECTOR), {"stack_axis": "middle"}, "stack_axis is 'middle'"),
        ((10, ((0,), np.uint8), VECTOR), {}, "a row must have"),
    ],
)
def test_settings_that_cannot_be_are_refused(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        ReplayBuffer(*arguments, **options)


def test_wrong_arrays_are_refused_and_nothing_is_stored():
    buffer = ReplayBuffer(10, VECTOR, ((1,), np.int64))
    with pytest.raises(ValueError, match="the buffer is empty"):
        buffer.sample(4)
    with pytest.raises(ValueError, match=re.escape("observation has shape (16,); (17,) is expected")):
        buffer.add(np.zeros(16), np.zeros(17), 0, 0.0, False)
    # As many numbers in another order.
    images = ReplayBuffer(10, ((2, 3), np.uint8), ((1,), np.int64))
    with pytest.raises(ValueError, match=re.escape("observation has shape (3, 2); (2, 3) is expected")):
        images.add(np.zeros((3, 2), np.uint8), np.zeros((2, 3), np.uint8), 0, 0.0, False)
    # It would be infinite as float32.
    for reward in (1e300, -1e39, np.float64(1e300), 10**400):
        with pytest.raises(ValueError, match="reward has values that float32 cannot hold; convert them before adding"):
            buffer.add(np.zeros(17), np.zeros(17), 0, reward, False)
    with pytest.raises(ValueError, match="observation has values that float32 cannot hold"):
        buffer.add(np.full(17, 1e300), np.zeros(17), 0, 0.0, False)
    with pytest.raises(IndexError, match="transition 3 is not stored"):
        buffer.get([3])
    assert len(buffer) == 0
    assert isinstance(everything(buffer), ReplayBatch)


def test_the_examples_of_the_guide_run():
    guide = (pathlib.Path(__file__).resolve().parents[2] / "docs/buffers.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    names = {}
    # The one with Stable-Baselines3 is tested with it.
    for block in blocks:
        if "DQN" not in block:
            exec(block, names)
    assert len(blocks) == 4 and len(names["batch"].weights) == 32


def test_importing_nilometer_does_not_import_numpy():
    program = "import nilometer, sys; assert 'numpy' not in sys.modules; nilometer.ReplayBuffer; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
