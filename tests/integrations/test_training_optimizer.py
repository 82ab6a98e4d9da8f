"""Training by the optimizer: equal to a plain loop where nothing is switched on, and surviving what a plain loop does not."""

import json
import os
import subprocess
import sys
import types
import warnings

import pytest
import torch
from conftest import ROOT, subprocess_environment
from tiny import Sentences, language_model
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import nilometer
from nilometer.optimize import NoBatchFits, TensorMeter, TrainingMemoryConfig, TrainingMemoryOptimizer
from nilometer.optimize.batches import adaptive_batches
from nilometer.optimize.measuring.trial import Trial
from nilometer.optimize.model.optimization import MARGIN
from nilometer.optimize.model.segments import checkpoint_step
from nilometer.optimize.training import optimizer as training_optimizer
from nilometer.optimize.training.data import make_loader

PLAIN = {"num_workers": 0, "enable_mixed_precision": False, "enable_gradient_checkpointing": False, "shuffle": False}


def blocks(width=64, count=4, classes=10):
    torch.manual_seed(2)
    parts = [nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(count)]
    return nn.Sequential(*parts, nn.Linear(width, classes))


def labelled(count=100, width=64, classes=10):
    generator = torch.Generator().manual_seed(5)
    return TensorDataset(torch.randn(count, width, generator=generator), torch.randint(0, classes, (count,), generator=generator))


def plainly_trained(model, dataset, batch_size, num_epochs, loss_fn, rate=0.05):
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for _ in range(num_epochs):
        for inputs, target in DataLoader(dataset, batch_size=batch_size):
            optimizer.zero_grad()
            loss_fn(model(inputs), target).backward()
            optimizer.step()
    return model


def trained(model, dataset, config, num_epochs=2, loss_fn=None, rate=0.05, kind=torch.optim.AdamW, **more):
    loss_fn = nn.CrossEntropyLoss() if loss_fn is None else loss_fn
    optimizer = kind(model.parameters(), lr=rate)
    with TrainingMemoryOptimizer(config) as training:
        results = training.optimize_training_loop(
            model=model, dataset=dataset, optimizer=optimizer, num_epochs=num_epochs, loss_fn=loss_fn, **more
        )
    return results


def differences(ours, theirs):
    return [name for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values()) if not torch.equal(a, b)]


@pytest.mark.parametrize("batch_size", [32, 24, 7])
@pytest.mark.parametrize("loss_fn", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(reduction="sum")])
def test_with_nothing_switched_on_the_weights_are_those_of_a_plain_loop(batch_size, loss_fn):
    config = TrainingMemoryConfig(initial_batch_size=batch_size, min_batch_size=1, **PLAIN)
    ours, theirs = blocks(), blocks()
    results = trained(ours, labelled(), config, loss_fn=loss_fn)
    plainly_trained(theirs, labelled(), batch_size, 2, loss_fn)
    assert differences(ours, theirs) == []
    assert results["steps"] == 2 * -(-100 // batch_size) and results["samples"] == 200
    assert results["oom_events"] == 0 and results["batch_sizes"] == [batch_size] and results["optimizations"] == []


def test_shuffling_draws_as_a_plain_loader_does():
    config = TrainingMemoryConfig(**PLAIN | {"shuffle": True})
    ours, theirs = blocks(), blocks()
    torch.manual_seed(11)
    trained(ours, labelled(), config)
    torch.manual_seed(11)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.05)
    loader = DataLoader(labelled(), batch_size=32, shuffle=True)
    for _ in range(2):
        for inputs, target in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(theirs(inputs), target).backward()
            optimizer.step()
    assert differences(ours, theirs) == []


def test_running_out_of_memory_is_recovered_from_with_the_same_result(recorded):
    def with_limit(limit_bytes):
        model = blocks(count=2)
        meter = TensorMeter(limit_bytes=limit_bytes)
        meter.adopt(list(model.parameters()))
        config = TrainingMemoryConfig(initial_batch_size=512, min_batch_size=8, **PLAIN)
        results = trained(model, labelled(1024), config, num_epochs=1, kind=torch.optim.SGD, meter=meter)
        return model, results, meter.peak

    whole, results, peak = with_limit(None)
    assert results["oom_events"] == 0
    nilometer.init(name="short of memory")
    split, results, _ = with_limit(int(0.6 * peak))
    assert results["oom_events"] == results["oom_recoveries"] > 0
    assert results["batch_sizes"][0] < 512 and results["batch_size_changes"][0]["micro_batch"] == 512
    assert results["steps"] == 2 and results["effective_batch_size"] == 512
    for ours, theirs in zip(split.parameters(), whole.parameters()):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    run = recorded()
    assert any("out of memory with 512 samples" in str(mark) for mark in run.marks), run.marks
    assert list(run.series("batch/size").step) == [0, 1]
    assert run.series("batch/size").value[-1] == results["batch_size_changes"][-1]["micro_batch"]
    assert list(run.series("train/loss").step) == [0, 1]


def test_memory_that_no_batch_fits_into_is_refused_and_reported(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(adaptive_batches, "tell_facts", lambda subject, values: told.append((subject, values)))
    model = blocks()
    held = sum(parameter.numel() * 4 for parameter in model.parameters())
    meter = TensorMeter(limit_bytes=held + (100 << 10))
    meter.adopt(list(model.parameters()))
    config = TrainingMemoryConfig(initial_batch_size=32, min_batch_size=8, **PLAIN)
    with TrainingMemoryOptimizer(config) as training:
        with pytest.raises(NoBatchFits, match="the minimum is 8"):
            training.optimize_training_loop(model, labelled(), torch.optim.SGD(model.parameters()), 1, nn.CrossEntropyLoss(), meter=meter)
        report = training.export_report(tmp_path / "report.md")
    training = report["trainings"][0]
    assert (training["oom_events"], training["oom_recoveries"]) == (3, 0)
    assert training["batch_sizes"] == [8, 16, 32]
    assert [(change["step"], change["micro_batch"]) for change in training["batch_size_changes"]] == [(0, 32), (1, 16), (1, 8)]
    failure = training["failure"]
    assert failure["type"] == "NoBatchFits" and "the minimum is 8" in failure["message"]
    text = (tmp_path / "report.md").read_text()
    # What it did not come to is left out.
    assert text.index("Failed: NoBatchFits: ") < text.index("\nNo step was finished on cpu, for batches of 32\n")
    assert "\n3 out-of-memory errors, with micro-batches of 32, 16, 8\n" in text
    assert "0 steps" not in text and "| epoch |" not in text
    assert told == [("batch", {"failed_micro_batch": 8})], "advice names nothing that has failed"


def test_what_ended_a_training_is_in_its_report():
    def loss_fn(output, target):
        if target.sum() >= 0:
            raise KeyError("no such class")

    with TrainingMemoryOptimizer(TrainingMemoryConfig(**PLAIN)) as training:
        model = blocks()
        with pytest.raises(KeyError):
            training.optimize_training_loop(model, labelled(), torch.optim.SGD(model.parameters()), 1, loss_fn)
        good = nn.Linear(64, 10)
        results = training.optimize_training_loop(good, labelled(), torch.optim.SGD(good.parameters()), 1, nn.CrossEntropyLoss())
        failed, fine = training.get_optimization_report()["trainings"]
    assert (failed["failure"]["type"], failed["failure"]["message"]) == ("KeyError", "'no such class'")
    assert failed["failure"]["where"].startswith(f"{__file__}:") and failed["failure"]["where"].endswith(" in loss_fn")
    assert fine["failure"] is results["failure"] is None


def test_a_larger_effective_batch_runs_in_micro_batches_that_grow():
    config = TrainingMemoryConfig(initial_batch_size=8, min_batch_size=1, effective_batch_size=64, **PLAIN)
    ours, theirs = blocks(), blocks()
    results = trained(ours, labelled(128), config, num_epochs=60, rate=1e-3)
    plainly_trained(theirs, labelled(128), 64, 60, nn.CrossEntropyLoss(), rate=1e-3)
    assert results["effective_batch_size"] == 64 and results["steps"] == 120
    assert results["batch_sizes"] == [8, 16], "after a hundred steps without trouble the size grows"
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=2e-2)


@pytest.fixture
def equally_fast(monkeypatch):
    """Every step takes the same time, however busy the machine is."""
    monkeypatch.setattr("nilometer.optimize.measuring.trial._timed", lambda trial: 1.0)


def test_checkpoints_and_precision_are_measured_on_the_first_batch_and_taken_off_at_the_end(equally_fast, recorded):
    nilometer.init(name="measured")
    model = blocks(count=8)
    config = TrainingMemoryConfig(initial_batch_size=512, num_workers=0)
    results = trained(model, labelled(1024), config, rate=1e-3)
    rows = {row["name"]: row for row in results["optimizations"]}
    assert results["optimizations_applied"] == ["bfloat16 autocast", "checkpoint plan"]
    assert all(row["peak_after_mb"] < row["peak_before_mb"] and row["saved_mb"] > 0 for row in rows.values())
    assert "forward" not in vars(model) and not any("forward" in vars(module) for module in model.modules())
    assert results["epoch_losses"][1] < results["epoch_losses"][0]
    told = {one["name"]: one["applied"] for one in recorded().summary()["optimizations"]}
    assert told == {"bfloat16 autocast": True, "checkpoint plan": True}, "of the training, which had them to its end"


def test_what_is_slow_is_kept_only_where_memory_is_short(monkeypatch):
    times = iter(range(1, 1000))
    monkeypatch.setattr("nilometer.optimize.measuring.trial._timed", lambda trial: float(2 ** next(times)))
    config = TrainingMemoryConfig(initial_batch_size=512, num_workers=0, enable_mixed_precision=False)
    with_room = trained(blocks(count=8), labelled(512), config, num_epochs=1)
    assert with_room["optimizations_applied"] == [] and "not worth it" in with_room["optimizations"][0]["reason"]
    model = blocks(count=8)
    meter = TensorMeter(limit_bytes=10 << 20)
    meter.adopt(list(model.parameters()))
    short = trained(model, labelled(512), config, num_epochs=1, meter=meter)
    assert short["optimizations_applied"] == ["checkpoint plan"], short["optimizations"]


def test_blocks_that_differ_are_checkpointed_in_segments(equally_fast):
    torch.manual_seed(4)
    parts = [nn.Linear(32, 512), nn.GELU(), nn.Linear(512, 384), nn.Tanh(), nn.Dropout(0.2), nn.Linear(384, 256), nn.ReLU(), nn.Linear(256, 10)]
    config = TrainingMemoryConfig(initial_batch_size=1024, max_batch_size=1024, checkpoint_segments=3, num_workers=0, enable_mixed_precision=False, shuffle=False)
    results = trained(nn.Sequential(*parts), labelled(1024, width=32), config, num_epochs=1)
    assert results["optimizations_applied"] == ["checkpoint plan"], results["optimizations"]
    model = nn.Sequential(nn.Linear(32, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 10))
    with warnings.catch_warnings():
        # Its batches are not split, so that there is nothing to warn of.
        warnings.simplefilter("error", nilometer.NilometerWarning)
        results = trained(model, labelled(1024, width=32), config, num_epochs=1)
    assert results["optimizations_applied"] == [] and "batch normalization" in results["optimizations"][0]["reason"]


def test_a_language_model_computes_its_own_loss():
    config = TrainingMemoryConfig(initial_batch_size=8, min_batch_size=1, **PLAIN)
    ours, theirs = language_model().eval(), language_model().eval()
    for model in (ours, theirs):
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    with TrainingMemoryOptimizer(config) as training:
        results = training.optimize_training_loop(ours, Sentences(20), optimizer, 1)
    theirs.train()
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    losses = []
    for batch in DataLoader(Sentences(20), batch_size=8):
        loss = theirs(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() * len(batch["labels"]))
    assert differences(ours, theirs) == []
    assert results["epoch_losses"][0] == pytest.approx(sum(losses) / 20, rel=1e-6)


def test_targets_that_are_ignored_and_weighted_count_as_in_the_whole_batch():
    dataset = labelled(64)
    dataset.tensors[1][::3] = -100
    dataset.tensors[1][16:32] = -100
    loss_fn = nn.CrossEntropyLoss(weight=torch.linspace(0.1, 2, 10))
    config = TrainingMemoryConfig(initial_batch_size=16, min_batch_size=1, effective_batch_size=64, **PLAIN)
    ours, theirs = blocks(), blocks()
    optimizer = torch.optim.SGD(ours.parameters(), lr=0.1)
    with TrainingMemoryOptimizer(config) as training:
        training.optimize_training_loop(ours, dataset, optimizer, 1, loss_fn)
    loss_fn(theirs(dataset.tensors[0]), dataset.tensors[1]).backward()
    torch.optim.SGD(theirs.parameters(), lr=0.1).step()
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.full((4,), float(number)), torch.zeros(1)) for number in range(10)])


def test_a_function_that_is_no_mean_over_samples_is_warned_of_where_batches_are_split():
    def without_the_first_class(output, target):
        return nn.functional.cross_entropy(output, target, ignore_index=0)

    split = TrainingMemoryConfig(initial_batch_size=8, min_batch_size=1, effective_batch_size=32, **PLAIN)
    whole = TrainingMemoryConfig(initial_batch_size=32, min_batch_size=1, **PLAIN)
    with pytest.warns(nilometer.NilometerWarning, match="not a mean over samples"):
        trained(blocks(), labelled(), split, loss_fn=without_the_first_class)
    with warnings.catch_warnings():
        warnings.simplefilter("error", nilometer.NilometerWarning)
        trained(blocks(), labelled(96), whole, loss_fn=without_the_first_class)
        trained(blocks(), labelled(), split, loss_fn=nn.functional.cross_entropy)


def test_streams_loaders_and_mappings_are_taken():
    config = TrainingMemoryConfig(initial_batch_size=4, min_batch_size=1, **PLAIN)
    model = nn.Linear(4, 1)
    assert trained(model, Stream(), config, 1, nn.MSELoss())["samples"] == 10
    assert trained(model, DataLoader(Stream(), batch_size=5), config, 1, nn.MSELoss())["steps"] == 2
    rows = [{"input": torch.ones(4), "target": torch.zeros(1)} for _ in range(8)]
    assert trained(model, rows, config, 1, nn.MSELoss())["steps"] == 2
    with pytest.raises(ValueError, match="has no target for loss_fn"):
        trained(model, [{"input": torch.ones(4)}], config, 1, nn.MSELoss())
    with pytest.raises(TypeError, match="dataset must be"):
        trained(model, iter([]), config, 1, nn.MSELoss())
    with pytest.raises(ValueError, match="reduction is 'none'"):
        trained(model, rows, config, 1, nn.MSELoss(reduction="none"))
    with pytest.raises(ValueError, match="num_epochs must be at least 1"):
        trained(model, rows, config, 0, nn.MSELoss())


class Nothing(IterableDataset):
    def __iter__(self):
        return iter([])


def test_a_dataset_without_samples_is_refused():
    config = TrainingMemoryConfig(initial_batch_size=4, min_batch_size=1, **PLAIN)
    model = nn.Linear(4, 1)
    with pytest.raises(ValueError, match="the dataset is empty: it has no samples"):
        trained(model, [], config, 1, nn.MSELoss())
    for nothing in (Nothing(), DataLoader([torch.ones(4)], batch_size=2, drop_last=True)):
        with pytest.raises(ValueError, match="the dataset gave no batch: nothing was trained"):
            trained(model, nothing, config, 1, nn.MSELoss())
    empty = DataLoader([0], collate_fn=lambda _: (torch.zeros(0, 4), torch.zeros(0, 1)))
    with pytest.raises(ValueError, match="the batch is empty: it has no samples"):
        trained(model, empty, config, 1, nn.MSELoss())


def test_workers_serve_the_loader_and_schedulers_and_callbacks_are_called():
    config = TrainingMemoryConfig(initial_batch_size=8, **PLAIN | {"num_workers": 2})
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    epochs = []
    with TrainingMemoryOptimizer(config) as training:
        results = training.optimize_training_loop(
            model, labelled(24), optimizer, 2, nn.CrossEntropyLoss(), scheduler=scheduler, on_epoch=lambda *both: epochs.append(both)
        )
    assert optimizer.param_groups[0]["lr"] == 1.0 * 0.5**6
    loader = {"workers": 2, "cpus": len(os.sched_getaffinity(0)), "persistent_workers": True, "prefetch_factor": 2, "batch_bytes": 8 * (64 * 4 + 8), "pin_memory": False}
    assert training._facts["loader"] == loader
    assert epochs == [(0, results["epoch_losses"][0]), (1, results["epoch_losses"][1])]


def test_the_report_has_every_training(tmp_path):
    config = TrainingMemoryConfig(initial_batch_size=32, **PLAIN)
    model = nn.Linear(64, 10)
    with TrainingMemoryOptimizer(config) as training:
        for _ in range(2):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            results = training.optimize_training_loop(model, labelled(), optimizer, 1, nn.CrossEntropyLoss())
        training.export_report(tmp_path / "report.json")
        training.export_report(tmp_path / "report.md")
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["trainings"]) == 2 and report["config"]["initial_batch_size"] == 32 and report["recommendations"] == []
    assert 0 < results["final_memory_usage"] <= results["peak_memory_usage"] < 64 and results["samples_per_second"] > 0
    assert (tmp_path / "report.md").read_text().count("| 1 | ") == 2


def test_ranks_train_together_as_one_process_would(tmp_path):
    program = str(ROOT / "tests/integrations/training_rank.py")
    ranks = [
        subprocess.Popen([sys.executable, program, str(rank), "2", str(tmp_path)], env=subprocess_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(2)
    ]
    for rank in ranks:
        output, _ = rank.communicate(timeout=240)
        assert rank.returncode == 0, output
    seen = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    weights = [torch.load(tmp_path / f"rank{rank}.pt") for rank in range(2)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert seen[0]["batch_sizes"] == seen[1]["batch_sizes"] and seen[0]["epoch_losses"] == seen[1]["epoch_losses"]
    assert seen[0]["ranks"] == 2 and seen[0]["oom_events"] > 0, "one rank ran out of memory, and both went on in smaller batches"
    # The same samples as one batch: rank 0 has the even ones of it, rank 1 the odd ones.
    model, dataset = blocks(count=2), labelled(1024)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for start in (0, 512):
        order = slice(start, start + 512)
        loss = nn.functional.cross_entropy(model(dataset.tensors[0][order]), dataset.tensors[1][order])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(weights[0][name], tensor, atol=1e-5, rtol=1e-4)


def test_workers_pinned_memory_and_their_persistence_are_those_of_the_settings():
    def loader(device, **settings):
        made = make_loader(labelled(), TrainingMemoryConfig(**settings), torch.device(device), None)
        return made.num_workers, made.pin_memory, made.persistent_workers

    assert loader("cuda", num_workers=2) == (2, True, True)
    assert loader("cuda", num_workers=2, pin_memory=False, persistent_workers=False) == (2, False, False)
    assert loader("cpu", num_workers=0) == (0, False, False), "heeded where there is a GPU, and where there are workers"


def test_gradients_are_clipped_to_the_norm_of_the_settings():
    def moved(**settings):
        model = blocks()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        trained(model, labelled(32), TrainingMemoryConfig(**PLAIN, **settings), num_epochs=1, rate=1.0, kind=torch.optim.SGD)
        return sum(float((parameter - old).square().sum()) for parameter, old in zip(model.parameters(), before)) ** 0.5

    assert moved(max_grad_norm=1e-3) == pytest.approx(1e-3, rel=0.01) and moved() > 0.01


def test_batches_grow_within_the_share_of_the_limit(monkeypatch):
    budgets = []

    def predicted(trial_of, budget):
        budgets.append(budget)
        return 32, 1.0

    monkeypatch.setattr(training_optimizer, "predicted_batch", predicted)
    monkeypatch.setattr(training_optimizer, "_native", types.SimpleNamespace(memory_limit=lambda: (1 << 40, "a limit")))
    monkeypatch.setattr(training_optimizer.process_heap, "rss_bytes", lambda: 0)
    for share in (0.5, 0.9):
        trained(blocks(), labelled(), TrainingMemoryConfig(**PLAIN, memory_threshold=share, effective_batch_size=64), num_epochs=1)
    assert budgets == [pytest.approx(MARGIN * share * (1 << 40)) for share in (0.5, 0.9)]


@pytest.mark.parametrize("segments", [2, 3, 6])
def test_there_are_as_many_segments_as_the_settings_say(segments):
    layers = [nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid()]
    model = nn.Sequential(*layers)
    take_off = checkpoint_step(segments).apply(Trial(model, torch.randn(4, 8)))
    made = {id(vars(layer)["forward"].segment) for layer in layers if "forward" in vars(layer)}
    take_off()
    assert len(made) == segments - 1, "the last one keeps its activations"
