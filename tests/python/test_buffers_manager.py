"""The cache of arrays from Python: what is got is what was put, within the budget."""

import os
import pickle
import threading

import numpy as np
import pytest

from nilometer.buffers import BufferManager, ReplayBuffer


def noise(key):
    return np.random.default_rng(key).integers(0, 255, 1000, dtype=np.uint8)


def test_what_is_got_is_what_was_put():
    manager = BufferManager(max_bytes=1 << 20)
    arrays = {
        "floats": np.linspace(0, 1, 1000, dtype=np.float32).reshape(10, 100),
        ("a", 1): np.arange(50)[::2],
        "empty": np.empty((0, 3)),
        7: np.array(3.5),
        "flags": np.array([True, False]),
    }
    for key, array in arrays.items():
        assert manager.put(key, array)
    for key, array in arrays.items():
        found = manager.get(key)
        assert found.dtype == array.dtype and np.array_equal(found, array) and key in manager
    assert manager.get("missing") is None
    assert manager.get("missing", 3) == 3
    assert len(manager) == 5
    assert manager.remove("floats") and not manager.remove("floats")
    assert manager.get("floats") is None
    stats = manager.stats()
    assert (stats["hits"], stats["misses"]) == (5, 3)
    assert stats["hit_rate"] == 5 / 8


def test_compressible_arrays_take_less_and_noise_as_much():
    manager = BufferManager(buffer_size_limit_mb=8)
    manager.put("prices", np.round(np.cumsum(np.random.default_rng(0).normal(size=20_000)), 2))
    assert manager.stats()["compression_ratio"] > 1.3
    plain = BufferManager(enable_buffer_compression=False)
    plain.put("zeros", np.zeros(1000))
    assert plain.stats()["compression_ratio"] == 1.0
    assert plain.max_bytes == 1 << 30


def test_the_budget_holds_and_what_left_is_gone():
    manager = BufferManager(max_bytes=10_500, policy="lru")
    for key in range(30):
        manager.put(key, noise(key))
    assert [key for key in range(30) if manager.get(key) is not None] == list(range(20, 30))
    assert len(manager) == 10
    assert manager.stats()["evictions"] == 20
    assert not manager.put("large", np.frombuffer(np.random.default_rng(0).bytes(20_000), np.uint8))


def test_a_spill_folder_keeps_what_left(tmp_path):
    manager = BufferManager(max_bytes=10_500, policy="lru", spill_dir=tmp_path)
    for key in range(30):
        assert manager.put(key, noise(key))
    for key in range(30):
        assert np.array_equal(manager.get(key), noise(key))
    stats = manager.stats()
    assert stats["disk_entries"] == 20 and stats["disk_hits"] == 20 and stats["hit_rate"] == 1.0
    assert list(tmp_path.iterdir()) == []


def test_epochs_are_answered_by_keeping_what_is_there():
    manager = BufferManager(max_bytes=500_000)
    random = np.random.default_rng(0)
    arrays = [noise(key) for key in range(1000)]
    made = 0
    for epoch in range(40):
        before = manager.stats()["hits"]
        for key in random.permutation(1000):
            found = manager.get_or_make(int(key), lambda: arrays[key])
            made += 1
            assert np.array_equal(found, arrays[key])
    stats = manager.stats()
    assert stats["policy"] == "pin"
    assert stats["hits"] - before >= 450
    assert stats["memory_bytes"] <= 500_000


def test_threads_share_a_manager():
    manager = BufferManager(max_bytes=30_000, policy="tinylfu")
    failures = []

    def work(seed):
        random = np.random.default_rng(seed)
        try:
            for key in random.integers(0, 60, 400):
                assert np.array_equal(manager.get_or_make(int(key), lambda: noise(key)), noise(key))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert manager.stats()["memory_bytes"] <= 30_000


def test_a_thread_reads_while_another_replaces():
    manager = BufferManager(max_bytes=1 << 20)
    short, long = np.arange(10, dtype=np.uint8), np.arange(4000, dtype=np.float64)
    stop = threading.Event()

    def replace():
        while not stop.is_set():
            for array in (short, long):
                manager.put("key", array)
            manager.remove("key")

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(20_000):
            found = manager.get("key")
            assert found is None or np.array_equal(found, short if len(found) == 10 else long)
    finally:
        stop.set()
        writer.join()


def test_replay_buffers_are_in_the_statistics():
    manager = BufferManager()
    buffer = manager.add_buffer("replay", ReplayBuffer(1000, ((8,), np.float32), ((1,), np.int64)))
    for step in range(1000):
        buffer.add(np.full(8, step), np.full(8, step + 1), 0, 0.0, False)
    stats = manager.stats()
    assert stats["buffers"]["replay"]["transitions"] == 1000
    assert stats["compression_ratio"] > 1.5


def test_what_is_not_taken_is_refused_and_not_evicted():
    manager = BufferManager(max_bytes=10_500, policy="pin")
    assert [manager.put(key, noise(key)) for key in range(30)] == [True] * 10 + [False] * 20
    stats = manager.stats()
    assert (stats["refused"], stats["evictions"], stats["entries"]) == (20, 0, 10)


def test_an_array_that_is_too_large_pushes_nothing_out():
    for policy in ("lru", "tinylfu", "pin", "auto"):
        manager = BufferManager(max_bytes=10_500, policy=policy, enable_buffer_compression=False)
        manager.put("small", noise(1))
        assert not manager.put("large", np.zeros(20_000, np.uint8))
        assert "small" in manager and manager.stats()["refused"] == 1


def in_child(work):
    """What `work` returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, repr(work()).encode())
        except BaseException as error:
            os.write(writing, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        found = answer.read()
    os.waitpid(child, 0)
    return found


def test_a_forked_child_has_a_copy_of_its_own():
    manager = BufferManager(max_bytes=1 << 20)
    manager.put("before", noise(1))

    def work():
        manager.put("child", noise(2))
        manager.remove("before")
        return len(manager), manager.stats()["entries"], bool(np.array_equal(manager.get("child"), noise(2)))

    assert in_child(lambda: bool(np.array_equal(manager.get("before"), noise(1)))) == "True"
    assert in_child(work) == "(1, 1, True)"
    assert "child" not in manager and np.array_equal(manager.get("before"), noise(1))


def test_forks_while_threads_change_a_manager_leave_it_whole():
    manager = BufferManager(max_bytes=1 << 20)
    arrays = [noise(key)[: 10 + key] for key in range(8)]
    stop = threading.Event()

    def change():
        number = 0
        while not stop.is_set():
            manager.put("key", arrays[number % 8])
            number += 1

    threads = [threading.Thread(target=change) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            assert in_child(lambda: (found := manager.get("key")) is None or bool(np.array_equal(found, arrays[len(found) - 10]))) == "True"
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_pickling_carries_the_settings_alone(tmp_path):
    manager = BufferManager(max_bytes=10_500, policy="lru", spill_dir=tmp_path, enable_buffer_compression=False)
    manager.put("key", noise(1))
    copy = pickle.loads(pickle.dumps(manager))
    assert (len(copy), copy.max_bytes) == (0, 10_500)
    for key in range(20):
        assert copy.put(key, noise(key))
    assert copy.stats()["disk_entries"] == 10 and copy.stats()["policy"] == "lru"
    assert len(manager) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_bytes": -1}, "max_bytes is -1; it must be a whole number, 1 or more"),
        ({"buffer_size_limit_mb": -1}, "buffer_size_limit_mb is -1; it must be a positive number of MiB"),
        ({"buffer_size_limit_mb": "512"}, "buffer_size_limit_mb is '512'; it must be a positive number of MiB"),
        ({"buffer_size_limit_mb": None}, "buffer_size_limit_mb is None; it must be a positive number of MiB"),
        ({"buffer_size_limit_mb": True}, "buffer_size_limit_mb is True; it must be a positive number of MiB"),
        ({"buffer_size_limit_mb": float("nan")}, "buffer_size_limit_mb is nan; it must be a positive number of MiB"),
        ({"max_disk_bytes": -1}, "max_disk_bytes is -1; it must be a whole number, 0 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        BufferManager(**options)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, complex), "complex128 is not supported; bool, integers and floats of up to 8 bytes are"),
        (np.zeros(3, ">f8"), "the byte order of >f8 is not supported; convert it with"),
        (np.array(["text"]), "<U4 is not supported"),
    ],
)
def test_arrays_that_cannot_be_cached_are_refused(array, message):
    manager = BufferManager()
    with pytest.raises(TypeError, match=message):
        manager.put("key", array)
    assert len(manager) == 0


@pytest.mark.parametrize("policy", ["fifo", ""])
def test_unknown_policies_are_refused(policy):
    with pytest.raises(ValueError, match="it must be auto, pin, lru or tinylfu"):
        BufferManager(policy=policy)
