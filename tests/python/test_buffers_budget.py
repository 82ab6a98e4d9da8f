"""Memory budgets of buffers from Python: what is dropped, what is kept, and what is said about it."""

import pickle
import warnings

import numpy as np
import pytest

from nilometer import NilometerWarning
from nilometer.buffers import BufferManager, ReplayBuffer

FRAMES = np.add.outer(np.arange(3003), np.arange(256)).astype(np.uint16).astype(np.uint8).reshape(-1, 16, 16)
IMAGES = ((4, 16, 16), np.uint8)
ACTIONS = ((1,), np.int64)


def filled(steps=3000, **options):
    """A buffer that is sampled while it fills, as in training."""
    buffer = ReplayBuffer(2000, IMAGES, ACTIONS, codec="lz4", **options)
    for step in range(steps - 1):
        buffer.add(FRAMES[step : step + 4], FRAMES[step + 1 : step + 5], step, 0.0, False)
        if step % 4 == 0:
            batch = buffer.sample(8)
            assert np.array_equal(batch.observations[:, 0], FRAMES[batch.actions[:, 0]])
    return buffer


def test_sampling_drops_nothing_while_there_is_a_spill_folder(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer = filled(max_bytes=200_000, spill_dir=tmp_path)
    stats = buffer.stats()
    assert len(buffer) == 2000 and stats["dropped_for_memory"] == 0
    assert stats["memory_bytes"] <= 200_000 and stats["disk_bytes"] > 0
    assert 0 <= stats["cache_bytes"] <= 50_000
    # A copy in another process has the folder too, and so everything.
    copy = pickle.loads(pickle.dumps(buffer))
    assert len(copy) == 2000 and copy.stats()["memory_bytes"] <= 200_000


def test_dropping_for_memory_is_said_once(tmp_path):
    with pytest.warns(NilometerWarning, match="drops its oldest transitions: max_bytes holds .* Raise max_bytes, or set spill_dir") as told:
        buffer = filled(max_bytes=50_000)
    assert len(told) == 1
    assert len(buffer) < 2000 and buffer.stats()["memory_bytes"] <= 50_000


def test_loading_into_a_smaller_budget_says_what_it_drops(tmp_path):
    buffer = filled()
    buffer.save(tmp_path / "replay")
    with pytest.warns(NilometerWarning, match="drops its oldest transitions"):
        small = ReplayBuffer.load(tmp_path / "replay", max_bytes=100_000)
    assert 0 < len(small) < 2000 and small.stats()["memory_bytes"] <= 100_000
    whole = ReplayBuffer.load(tmp_path / "replay", max_bytes=200_000, spill_dir=tmp_path)
    assert len(whole) == 2000


@pytest.mark.parametrize("make", [lambda folder: ReplayBuffer(10, IMAGES, ACTIONS, spill_dir=folder), lambda folder: BufferManager(spill_dir=folder)])
@pytest.mark.parametrize("kind", ["missing", "a file"])
def test_a_spill_folder_that_cannot_be_written_to_is_refused(tmp_path, make, kind):
    folder = tmp_path / "folder"
    if kind == "a file":
        folder.write_text("")
    with pytest.raises(OSError, match="cannot write to the spill folder: .*folder"):
        make(folder)


@pytest.mark.parametrize(
    ("dtype", "value", "example"),
    [
        (np.uint8, 300, "300"),
        (np.uint8, -1, "-1"),
        (np.uint8, 2.5, "2.5"),
        (np.uint8, np.array([1, 256], np.int64), "256"),
        (np.int64, 2.7, "2.7"),
        (np.int64, float("nan"), "nan"),
        (np.int32, np.array([0, 1 << 40]), str(1 << 40)),
        (bool, 2, "2"),
        (np.float32, 1e300, ""),
        (np.int64, 1 << 70, ""),
    ],
)
def test_values_that_do_not_fit_are_refused(dtype, value, example):
    size = np.asarray(value).size
    buffer = ReplayBuffer(10, ((size,), dtype), ((size,), dtype))
    fits = np.ones(size, dtype)
    with pytest.raises(ValueError, match=f"observation has values that {np.dtype(dtype)} cannot hold.*{example}.*; convert them"):
        buffer.add(value, fits, fits, 0.0, False)
    with pytest.raises(ValueError, match="action has values that"):
        buffer.add(fits, fits, value, 0.0, False)
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(np.uint8, 255), (np.uint8, 3.0), (np.int64, np.uint8(7)), (np.float32, 0.1), (np.float32, float("inf")), (np.float16, 3), (bool, 1)],
)
def test_values_that_fit_are_taken_from_other_dtypes(dtype, value):
    buffer = ReplayBuffer(10, ((1,), dtype), ((1,), np.dtype(dtype).newbyteorder(">")))
    buffer.add(value, value, value, 0.0, False)
    assert buffer.get([0]).observations == buffer.get([0]).actions == np.asarray(value).astype(dtype)


def test_wrong_numbers_are_refused_in_one_sentence():
    buffer = ReplayBuffer(10, ((1,), np.float32), ACTIONS, prioritized=True)
    buffer.add(0.0, 0.0, 0, 0.0, False)
    with pytest.raises(ValueError, match="^batch_size is -1; it must be a whole number, 0 or more$"):
        buffer.sample(-1)
    for indices in ([-3], np.array([-3]), [0.5]):
        with pytest.raises(ValueError, match="^indices must be whole numbers, 0 or more, as batch.indices has them$"):
            buffer.update_priorities(indices, [1.0])
        with pytest.raises(ValueError, match="^indices must be whole numbers"):
            buffer.get(indices)
    buffer.update_priorities([], [])
