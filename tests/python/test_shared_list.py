"""SharedList: a sequence as a list is, in one buffer that processes share and that no kill leaves behind."""

import contextlib
import copy
import gc
import multiprocessing
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys

import pytest

import nilometer
from nilometer.optimize import SharedList, share_dataset

ITEMS = [{"id": index, "text": "x" * (index % 50), "numbers": [index, float(index)]} for index in range(500)]


@pytest.fixture
def shared():
    return SharedList(ITEMS)


def test_it_reads_as_the_list_does(shared):
    assert len(shared) == len(ITEMS) and list(shared) == ITEMS and shared == ITEMS
    for index in (0, 1, 499, -1, -500):
        assert shared[index] == ITEMS[index]
    assert shared.__getitems__([3, 1, 3]) == [ITEMS[3], ITEMS[1], ITEMS[3]]
    assert list(reversed(shared)) == ITEMS[::-1]
    assert ITEMS[7] in shared and shared.index(ITEMS[7]) == 7 and shared.count(ITEMS[7]) == 1
    assert shared != ITEMS[:-1] and shared != "text"


@pytest.mark.parametrize("part", [slice(3, 20), slice(None, None, -3), slice(-5, None), slice(10, 5), slice(0, 10_000, 7)])
def test_slices_are_views(shared, part):
    view = shared[part]
    assert isinstance(view, SharedList) and view == ITEMS[part] and view.nbytes == shared.nbytes
    if view:
        assert view[-1] == ITEMS[part][-1] and view[1:] == ITEMS[part][1:]
    with pytest.raises(IndexError):
        view[len(view)]


def test_an_empty_list_and_odd_items():
    assert len(SharedList([])) == 0 and list(SharedList([])) == []
    odd = [None, b"", "", [], (1,), 1 << 100, float("inf"), {1: {2: {3: ()}}}]
    assert list(SharedList(iter(odd))) == odd


def test_an_item_is_a_new_object_each_time(shared):
    shared[0]["id"] = "changed"
    assert shared[0] == ITEMS[0]


def test_wrong_use_is_one_clear_sentence(shared):
    with pytest.raises(IndexError, match="index 500 is out of range of 500 items"):
        shared[500]
    with pytest.raises(TypeError, match="an index must be a whole number or a slice, not str"):
        shared["id"]
    with pytest.raises(TypeError, match="items must be a list or another iterable, not int"):
        SharedList(3)
    with pytest.raises(TypeError, match=re.escape("item 1 (function) cannot be pickled: ")):
        SharedList([1, lambda: None])
    with pytest.raises(TypeError):
        shared[0] = 1
    with pytest.raises(TypeError):
        hash(shared)


def open_lists():
    """Descriptors of files that lists lie in. What other tests left behind may be closed at any time, so nothing else counts."""
    targets = {}
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            targets[descriptor] = os.readlink(f"/proc/self/fd/{descriptor}")
    return {descriptor for descriptor, target in targets.items() if "nilometer-shared-list" in target}


def test_nothing_of_a_failed_or_dropped_list_stays_open():
    gc.collect()
    before = open_lists()
    with pytest.raises(TypeError):
        SharedList([1, lambda: None])
    assert open_lists() == before
    made = SharedList(ITEMS)
    view = made[3:5]
    # Its own, and the one that its map holds.
    assert 1 <= len(open_lists() - before) <= 2
    del made
    assert view[0] == ITEMS[3]
    del view
    assert open_lists() == before


def test_the_buffer_cannot_be_changed(shared):
    descriptor = shared._buffer._descriptor
    with pytest.raises(PermissionError):
        os.pwrite(descriptor, b"x", 0)
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)


def test_copies_share_and_pickles_hold_the_contents(shared):
    assert copy.copy(shared) is shared and copy.deepcopy({"a": shared})["a"] is shared
    assert pickle.loads(pickle.dumps(shared)) == ITEMS
    part = pickle.dumps(shared[:3])
    assert pickle.loads(part) == ITEMS[:3] and len(part) < shared.nbytes / 10


def test_without_anonymous_memory_a_file_without_a_name_serves(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    assert SharedList(ITEMS) == ITEMS


def read_there(shared, answer):
    mapped = [line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "nilometer-shared-list" in line]
    answer.put((shared[3], list(shared[-2:]), len(shared), [line.split()[4] for line in mapped]))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_other_processes_map_the_same_buffer(shared, method):
    context = multiprocessing.get_context(method)
    answer = context.Queue()
    process = context.Process(target=read_there, args=(shared, answer))
    process.start()
    third, last, number, inodes = answer.get(timeout=60)
    process.join(60)
    assert (third, last, number, process.exitcode) == (ITEMS[3], ITEMS[-2:], 500, 0)
    # The same file in memory, not a copy of it.
    assert str(os.fstat(shared._buffer._descriptor).st_ino) in inodes


def test_a_kill_leaves_nothing_behind():
    code = """
import os, sys
from nilometer.optimize import SharedList
shared = SharedList(range(100_000))
print(os.getpid(), flush=True)
sys.stdin.read()
"""
    before = sorted(os.listdir("/dev/shm"))
    package = str(pathlib.Path(nilometer.__file__).resolve().parents[1])
    program = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": package}
    )
    assert int(program.stdout.readline()) == program.pid
    while_alive = [name for name in os.listdir("/dev/shm") if "nilometer" in name]
    program.send_signal(signal.SIGKILL)
    program.communicate()
    assert while_alive == [] and not [name for name in os.listdir("/dev/shm") if "nilometer" in name and name not in before]


def test_a_list_is_closed_when_the_interpreter_ends(monkeypatch):
    # What other tests left in cycles closes its files now and not below.
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    made = SharedList(ITEMS)
    # As at the end: a module's names are None before the last objects go.
    monkeypatch.setattr("nilometer.optimize.loading.shared_list.os", None)
    del made
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) == before


class Dataset:
    def __init__(self, items):
        self.items = items
        self.short = [1, 2, 3]
        self.table = {index: index for index in range(2000)}

    def __getitem__(self, index):
        return self.items[index]


class Wrapper:
    def __init__(self, *datasets):
        self.datasets = list(datasets)

    def __getitem__(self, index):
        return self.datasets[0][index]


def test_long_lists_of_a_dataset_are_replaced_and_put_back():
    dataset = Dataset(list(range(2000)))
    undo = share_dataset(dataset)
    assert isinstance(dataset.items, SharedList) and undo.names == ["Dataset.items"] and dataset[7] == 7
    assert dataset.short == [1, 2, 3] and type(dataset.table) is dict
    assert str(undo).startswith("Dataset.items shared in ")
    undo()
    assert type(dataset.items) is list and dataset.items == list(range(2000))
    undo()


def test_datasets_within_a_dataset_are_found():
    inner = Dataset(list(range(3000)))
    undo = share_dataset(Wrapper(inner, Dataset([1])))
    assert isinstance(inner.items, SharedList) and undo.names == ["Dataset.items"]


def test_what_the_program_put_there_meanwhile_stays():
    dataset = Dataset(list(range(2000)))
    undo = share_dataset(dataset)
    dataset.items = ["other"]
    undo()
    assert dataset.items == ["other"]


def test_a_list_that_cannot_be_pickled_stays_with_the_reason():
    dataset = Dataset([lambda: None] * 2000)
    undo = share_dataset(dataset)
    assert type(dataset.items) is list and undo.names == []
    assert "Dataset.items stays: item 0 (function) cannot be pickled" in str(undo)


def test_what_share_dataset_refuses():
    with pytest.raises(TypeError, match=re.escape("a list has no attributes to replace: give the loader SharedList(items) instead")):
        share_dataset([1, 2])
    with pytest.raises(ValueError, match="min_items must be at least 1, not 0"):
        share_dataset(Dataset([]), min_items=0)


def test_the_run_has_what_was_shared(run):
    share_dataset(Dataset(list(range(2000))))
    path = run.path
    run.finish(0)
    stored = b"".join(file.read_bytes() for file in path.iterdir() if file.is_file())
    assert b"shared dataset" in stored


def test_a_slice_says_that_the_bytes_are_those_of_the_whole_list():
    shared = SharedList([1, 2, 3, 4])
    assert repr(shared) == f"SharedList of 4 items in {shared.nbytes} bytes"
    assert repr(shared[2:4]) == f"SharedList of 2 of the 4 items in {shared.nbytes} bytes"
