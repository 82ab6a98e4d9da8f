"""DataLoader workers over several epochs by the kernel's own figures: a list of objects is copied into each worker, a SharedList is not."""

import multiprocessing
import os
import random
import re
import time

import numpy
import pytest
import torch
from conftest import ROOT
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

import nilometer
from nilometer.optimize import LoaderReport, SharedList, inspect_loader, share_dataset
from nilometer.optimize.live_facts import known_facts, recommendations

MIB, GIB = 1 << 20, 1 << 30
NUMBER = 120_000


class Records(Dataset):
    def __init__(self, number=NUMBER):
        self.items = [{"id": index, "name": f"file-{index}"} for index in range(number)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return float(self.items[index]["id"])


class Sentences(Dataset):
    """Of 2 to 32 tokens, padded to 32."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        length = 2 + 30 * (index % 2)
        return {"input_ids": torch.ones(32, dtype=torch.long), "attention_mask": (torch.arange(32) < length).long()}


def pages(worker, name):
    """What the kernel says of a worker's pages, in bytes."""
    with open(f"/proc/{worker.pid}/smaps_rollup") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{name}:"))


def epochs(dataset, method, number=3):
    """Private dirty memory of all workers after the first batch and after each epoch, and their PSS at the end; what was read is checked."""
    loader = DataLoader(
        dataset, batch_size=500, num_workers=2, shuffle=True, persistent_workers=True, prefetch_factor=1, multiprocessing_context=method
    )
    private, workers = [], []
    for _ in range(number):
        total = 0.0
        iterator = iter(loader)
        workers = iterator._workers
        for batch in iterator:
            total += float(batch.sum())
            if not private:
                private.append(sum(pages(worker, "Private_Dirty") for worker in workers))
        assert total == sum(range(NUMBER))
        private.append(sum(pages(worker, "Private_Dirty") for worker in workers))
    pss = sum(pages(worker, "Pss") for worker in workers)
    iterator._shutdown_workers()
    return private, pss


def test_forked_workers_copy_a_list_and_not_a_shared_list():
    dataset = Records()
    listed, listed_pss = epochs(dataset, "fork")
    shared = share_dataset(dataset)
    assert isinstance(dataset.items, SharedList)
    kept, kept_pss = epochs(dataset, "fork")
    shared.undo()
    # 120,000 dictionaries with their texts and numbers take some 35 MiB, and each of two workers has touched all of them.
    assert listed[-1] - listed[0] > 25 * MIB
    assert kept[-1] - kept[0] < (listed[-1] - listed[0]) / 4
    assert kept_pss < listed_pss - 20 * MIB


def test_spawned_workers_get_the_buffer_and_not_a_copy():
    dataset = Records()
    listed, listed_pss = epochs(dataset, "spawn", number=1)
    share_dataset(dataset)
    kept, kept_pss = epochs(dataset, "spawn", number=1)
    assert kept[-1] < listed[-1] - 40 * MIB
    assert kept_pss < listed_pss - 30 * MIB


def test_a_report_says_that_workers_copy_the_dataset():
    dataset = Records()
    loader = DataLoader(dataset, batch_size=2000, num_workers=2, shuffle=True, multiprocessing_context="fork")
    report = inspect_loader(loader, batches=60)
    facts = report.facts
    assert facts["cpus"] == len(os.sched_getaffinity(0)) and facts["persistent_workers"] is False
    assert facts["start_method"] == "fork" and facts["workers"] == 2 and facts["prefetch_factor"] == 2
    assert facts["dataset_objects"] == 3 * NUMBER
    assert facts["batch_bytes"] == 2000 * 8 and report.prefetched_bytes == 4 * 2000 * 8
    assert facts["worker_private_growth_bytes"] > 8 * MIB and report.growth_per_batch_bytes > 0.1 * MIB
    assert report.copies_dataset and "SharedList(dataset.items)" in str(report)
    share = share_dataset(dataset)
    assert facts["serialized_bytes"] == pytest.approx(share.nbytes, rel=0.1)
    after = inspect_loader(loader, batches=60)
    assert not after.copies_dataset and "SharedList" not in str(after)
    assert after.facts["worker_private_growth_bytes"] < facts["worker_private_growth_bytes"] / 4


def test_a_report_recommends_what_nilo_optimize_does_of_the_same_facts():
    """One judge: what is printed of a loader is not decided a second time."""
    facts = inspect_loader(DataLoader(TensorDataset(torch.zeros(64, 10)), batch_size=8)).facts
    told = {"host": {"limit_bytes": GIB}}

    def recommended(limit_bytes=GIB, **changed):
        report = LoaderReport(facts | changed, 8, None, None, 0.0, limit_bytes)
        rules = [one["rule"] for one in recommendations(known_facts({"loader": facts | changed, **told}))]
        assert [one["rule"] for one in report.recommendations] == rules
        assert str(report).count("change: ") == len(rules)
        return rules

    assert recommended() == []
    # Padding of equal lengths cannot be avoided by sorting.
    assert recommended(padding_ratio=0.4, length_variation=0.1) == []
    assert recommended(padding_ratio=0.4, length_variation=0.9) == ["batch-by-tokens"]
    # Workers that are started afresh have copies of a small dataset, which is no matter.
    assert recommended(start_method="spawn", workers=2, dataset_objects=60_000, serialized_bytes=float(MIB)) == []
    assert recommended(workers=4, prefetch_factor=4, batch_bytes=20.0 * MIB) == ["prefetch-less"]


def test_a_shared_list_is_a_dataset_and_can_be_split():
    shared = SharedList(torch.tensor([float(index)]) for index in range(100))
    assert torch.cat(list(DataLoader(shared, batch_size=10, num_workers=2))).flatten().tolist() == list(range(100))
    assert [float(one) for one in Subset(shared, [3, 5])] == [3.0, 5.0]
    assert torch.cat(list(DataLoader(shared[90:], batch_size=5))).flatten().tolist() == list(range(90, 100))


@pytest.mark.parametrize("workers", [0, 2])
def test_inspecting_changes_nothing(workers):
    class Noisy(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            return torch.rand(3) + random.random() + numpy.random.rand()

    generator = torch.Generator().manual_seed(3)
    loader = DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=workers, generator=generator, persistent_workers=workers > 0)

    def states():
        return torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist(), generator.get_state().tolist()

    before = states()
    report = inspect_loader(loader, batches=4)
    assert report.batches == 4 and states() == before
    # A child that is ending is reaped by whoever asks.
    deadline = time.monotonic() + 30
    while multiprocessing.active_children() and time.monotonic() < deadline:
        pass
    assert multiprocessing.active_children() == []
    assert len(list(loader)) == 8
    if workers:
        with pytest.raises(ValueError, match="the loader is in use already: call inspect_loader before the first epoch"):
            inspect_loader(loader)
        loader._iterator._shutdown_workers()


def test_without_workers_nothing_waits_and_nothing_is_copied():
    report = inspect_loader(DataLoader(TensorDataset(torch.zeros(64, 1000)), batch_size=8))
    assert report.facts["workers"] == 0 and report.facts["batch_bytes"] == 8 * 1000 * 4
    assert report.facts["worker_private_growth_bytes"] is None and report.facts["start_method"] is None
    assert report.prefetched_bytes == 0 and "no workers" in str(report)


def test_padding_and_lengths_are_those_of_the_attention_mask():
    report = inspect_loader(DataLoader(Sentences(), batch_size=8))
    # Half of the sentences have 2 tokens of 32, half have all.
    assert report.facts["padding_ratio"] == pytest.approx(30 / 64)
    assert report.facts["length_variation"] == pytest.approx(15 / 17)
    assert "47% of the tokens are padding" in str(report)


def test_pinned_memory_is_rounded_up_to_powers_of_two():
    from nilometer.optimize.loading.loader_report import _pinned

    assert _pinned([1025, 4096, 0], 2) == (2 * (1025 + 4096), 2 * (2048 + 4096))
    loader = DataLoader(TensorDataset(torch.zeros(64, 1000)), batch_size=8)
    assert inspect_loader(loader).facts["pinned_requested_bytes"] is None


def test_shared_memory_of_batches_is_measured():
    loader = DataLoader(TensorDataset(torch.zeros(64, 100_000)), batch_size=8, num_workers=2)
    facts = inspect_loader(loader, batches=6).facts
    # Batches of 3 MiB travel through /dev/shm.
    assert facts["shm_size_bytes"] > 0 and facts["shm_peak_bytes"] > 3 * MIB


def test_facts_are_those_that_the_rules_know_and_go_into_the_run(recorded):
    known = set(re.findall(r"pub (\w+): ", (ROOT / "crates/nilo-advice/src/facts/loader.rs").read_text()))
    nilometer.init(memory=False)
    facts = inspect_loader(DataLoader(TensorDataset(torch.zeros(64, 10)), batch_size=8)).facts
    assert set(facts) <= known
    path = recorded().path
    assert b"dataset_objects" in b"".join(file.read_bytes() for file in path.iterdir() if file.is_file())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1, 2],), "loader must be a torch.utils.data.DataLoader, not list"),
        ((DataLoader([1, 2]), 1), "batches must be at least 2, not 1"),
        ((DataLoader([1, 2]), "all"), "batches must be int, not str"),
        ((DataLoader([]),), "the loader gave no batch: its dataset is empty, or smaller than one batch with drop_last=True"),
        ((DataLoader([1, 2], batch_size=4, drop_last=True),), "the loader gave no batch"),
    ],
)
def test_wrong_arguments_raise_at_once(arguments, said):
    loader, *batches = arguments
    with pytest.raises((TypeError, ValueError), match=re.escape(said)):
        inspect_loader(loader, **({"batches": batches[0]} if batches else {}))
