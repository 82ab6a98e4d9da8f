"""Tensors wherever numbers are taken."""

import torch

import nilometer
from nilometer.metrics import GRPOMetricsTracker


def test_scalars_of_torch_are_numbers(recorded):
    weight = torch.ones((), requires_grad=True)
    values = {"plain": torch.tensor(1.5), "one": torch.ones(1), "graph": weight * 2, "half": torch.tensor(0.5, dtype=torch.bfloat16)}
    nilometer.log(values, step=0)
    nilometer.log({"loss": 3.0, **values}, step=1)
    run = recorded()
    assert {name: run.series(name).value.tolist() for name in values} == {
        "plain": [1.5, 1.5], "one": [1.0, 1.0], "graph": [2.0, 2.0], "half": [0.5, 0.5],
    }  # fmt: skip


def test_torch_tensors_are_groups():
    tracker = GRPOMetricsTracker()
    rewards = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.bfloat16, requires_grad=True)
    tracker.update_group_rewards(rewards)
    tracker.update_group_rewards([torch.tensor(1.0), torch.tensor(0.0)])
    assert tracker.get_reward_distribution()["groups"] == 3
