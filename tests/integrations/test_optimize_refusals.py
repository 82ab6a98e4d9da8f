"""What cannot be worked on is refused at once, in one sentence that names the argument."""

import pytest
import torch
from torch import nn

from nilometer.optimize import (
    AdaptiveBatches,
    MemoryOptimizationSystem,
    TensorMeter,
    TrainingMemoryConfig,
    TrainingMemoryOptimizer,
    apply_steps,
    checkpoint_model,
    checkpoint_plans,
    estimate_memory_requirements,
)

EMPTY = "the sample is empty: its tensors have no elements"


def small():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def measuring():
    system = MemoryOptimizationSystem()
    return [system.optimize_model_architecture, system.optimize_training_pipeline, apply_steps, checkpoint_model, checkpoint_plans]


@pytest.mark.parametrize("measure", measuring(), ids=lambda function: function.__name__)
def test_no_model_and_an_empty_sample_are_refused_before_anything_is_changed(measure):
    with pytest.raises(TypeError, match="^model must be Module, not NoneType$"):
        measure(None, torch.ones(4, 8))
    for empty in (torch.zeros(0, 8), {"input": torch.zeros(0, 8)}, (torch.zeros(0, 8), torch.zeros(0))):
        with pytest.raises(ValueError, match=f"^{EMPTY}$"):
            measure(small(), empty)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "8 GB", True])
@pytest.mark.parametrize("measure", [MemoryOptimizationSystem().optimize_training_pipeline, apply_steps, checkpoint_model], ids=lambda function: function.__name__)
def test_budgets_that_are_no_bytes_are_refused(measure, wrong):
    with pytest.raises((ValueError, TypeError), match="^budget_bytes must be"):
        measure(small(), torch.ones(4, 8), budget_bytes=wrong)


def test_a_budget_may_be_a_share_of_a_whole():
    def blocks():
        return nn.Sequential(*[nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(6)])

    share, sample = 0.7 * 12_000_001, torch.randn(512, 64)
    assert checkpoint_model(blocks(), sample, budget_bytes=share).applied
    assert [outcome.name for outcome in apply_steps(blocks(), sample, budget_bytes=share) if outcome.applied] == ["checkpoint plan"]
    found = MemoryOptimizationSystem().optimize_training_pipeline(blocks(), sample, budget_bytes=share)["batch_size"]
    assert found["budget_mb"] == pytest.approx(8.01, abs=0.01)


def test_a_limit_that_is_no_bytes_is_refused():
    for wrong in (-1, "8 GB", True, float("nan")):
        with pytest.raises((ValueError, TypeError), match="^limit_bytes must be"):
            TensorMeter(limit_bytes=wrong)
    # A share of a whole, as people write it.
    assert TensorMeter(limit_bytes=0.75 * 1001).limit_bytes == 750


@pytest.mark.parametrize(("arguments", "said"), [((0,), "batch_size"), ((2.5,), "batch_size"), ((2, True), "seq_len"), ((2, 1.5), "seq_len"), ((2, 0), "seq_len")])
def test_estimates_of_no_batch_are_refused(arguments, said):
    with pytest.raises((ValueError, TypeError), match=f"^{said} must be"):
        estimate_memory_requirements(small(), *arguments)


def test_training_that_would_train_nothing_is_refused():
    model, other = small(), small()
    data = torch.utils.data.TensorDataset(torch.ones(16, 8), torch.ones(16, 8))
    of_other = torch.optim.SGD(other.parameters(), lr=0.1)

    def train(**options):
        settings = {"dataset": data, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "num_epochs": 1, "loss_fn": nn.MSELoss()} | options
        TrainingMemoryOptimizer(TrainingMemoryConfig(num_workers=0)).optimize_training_loop(model, **settings)

    with pytest.raises(ValueError, match="^the optimizer has none of the model's parameters: make it from"):
        train(optimizer=of_other)
    with pytest.raises(ValueError, match="^the optimizer has none"):
        AdaptiveBatches(model, of_other, lambda model, x: model(x).sum(), micro_batch=4)
    with pytest.raises(ValueError, match="^loss_fn must be a function of output and target, not str$"):
        train(loss_fn="mse")
    with pytest.raises(ValueError, match=r"^scheduler must have a step\(\) method; int has none$"):
        train(scheduler=3)
