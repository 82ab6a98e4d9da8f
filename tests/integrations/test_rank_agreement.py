"""Real processes over gloo, one of which runs out of memory: all take the same step again, and nobody waits for ever."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch
from conftest import subprocess_environment
from rank_program import loss_sum, make_model, shares

from nilometer.optimize.batches import gradient_sum

PROGRAM = pathlib.Path(__file__).with_name("rank_program.py")


def run_ranks(scenario, world_size, folder):
    """Starts every rank, waits for all, and gives what each saw."""
    programs = [
        subprocess.Popen(
            [sys.executable, str(PROGRAM), scenario, str(rank), str(world_size), str(folder)],
            env=subprocess_environment(OMP_NUM_THREADS="1"),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]
    try:
        errors = [program.communicate(timeout=300)[1] for program in programs]
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert [program.returncode for program in programs] == [0] * world_size, errors
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(world_size)]


def trained_alone(world_size, steps=3):
    """The weights after the same steps on all samples in one process, and the losses of these steps."""
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.cat(shares(world_size))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_sum(model, x) / len(x)
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    return [parameter.detach().flatten() for parameter in model.parameters()], losses


@pytest.mark.parametrize("world_size", [2, 4])
def test_all_ranks_shrink_together_and_train_as_one(world_size, tmp_path):
    seen = run_ranks("train", world_size, tmp_path)
    assert seen[0]["sizes"] == [12, 12, 12] and seen[0]["retries"] == [2, 0, 0]
    expected, losses = trained_alone(world_size)
    assert seen[0]["losses"] == pytest.approx(losses, rel=1e-5)
    for rank in seen:
        assert rank["sizes"] == seen[0]["sizes"] and rank["retries"] == seen[0]["retries"]
        assert rank["weights"] == seen[0]["weights"] and rank["losses"] == seen[0]["losses"]
        for ours, theirs in zip(rank["weights"], expected, strict=True):
            torch.testing.assert_close(torch.tensor(ours), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("world_size", [2, 4])
def test_all_ranks_give_up_when_one_cannot_go_on(world_size, tmp_path):
    seen = run_ranks("hopeless", world_size, tmp_path)
    assert all("the minimum is 32" in rank["error"] for rank in seen)
    assert "on another rank" in seen[0]["error"] and "out of memory" in seen[-1]["error"]
    assert all(rank["weights"] == seen[0]["weights"] and rank["sizes"] == [] for rank in seen)


def test_a_rank_without_memory_for_the_exchange_of_gradients_takes_the_others_along(tmp_path):
    seen = run_ranks("exchange", 2, tmp_path)
    expected, losses = trained_alone(2)
    for rank in seen:
        # 54 samples of the last rank did not leave enough for the exchange; in halves they do.
        assert rank["sizes"] == [27, 27, 27] and rank["retries"] == [1, 0, 0] and rank["weights"] == seen[0]["weights"]
        assert rank["losses"] == pytest.approx(losses, rel=1e-5)
        for ours, theirs in zip(rank["weights"], expected, strict=True):
            torch.testing.assert_close(torch.tensor(ours), theirs, rtol=1e-5, atol=1e-6)


def test_a_rank_that_never_has_memory_for_the_exchange_leaves_nobody_waiting(tmp_path):
    seen = run_ranks("hopeless-exchange", 2, tmp_path)
    assert "micro-batches of 1, and the minimum is 1: on another rank" in seen[0]["error"]
    assert "micro-batches of 1, and the minimum is 1: out of memory" in seen[1]["error"]
    assert seen[0]["weights"] == seen[1]["weights"]


def test_where_the_state_of_the_optimizer_does_not_fit_on_one_rank_all_stop_with_the_reason(tmp_path):
    first, last = run_ranks("exchange-optimizer", 2, tmp_path)
    assert first["error"] == "memory ran out in the first step of the optimizer: on another rank"
    assert last["error"].startswith("memory ran out in the first step of the optimizer: out of memory: tried to allocate")


@pytest.mark.parametrize("rows, width", [(1, 3_000), (700, 30), (3, 3), (2_000, 1)])
def test_gradients_of_any_shape_are_exchanged_in_pieces_that_the_buffer_holds(monkeypatch, rows, width):
    monkeypatch.setattr(gradient_sum, "_BUCKET_BYTES", 4_000)
    monkeypatch.setattr(gradient_sum, "world_size", lambda: 2)
    monkeypatch.setattr(gradient_sum, "least", lambda *values: values)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda buffer: buffer.mul_(2))
    model = torch.nn.ParameterList([torch.ones(rows, width), torch.ones(()), torch.ones(5, dtype=torch.float64), torch.ones(0), torch.ones(7)])
    model.append(torch.ones(4, 2, 9, 9).to(memory_format=torch.channels_last))
    for without in (None, 2, 4):
        for number, parameter in enumerate(model):
            parameter.grad = None if number == without else torch.randn_like(parameter)
        before = [None if parameter.grad is None else parameter.grad.clone() for parameter in model]
        gradients = gradient_sum.GradientSum(model)
        assert all(buffer.nbytes <= max(4_000, 4 * width) for buffer in gradients._buffers.values())
        gradients.exchange()
        for parameter, gradient in zip(model, before, strict=True):
            assert (parameter.grad is None) == (gradient is None) and (gradient is None or torch.equal(parameter.grad, 2 * gradient))


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_batch_size_is_that_of_the_smallest_rank(world_size, tmp_path):
    seen = run_ranks("find", world_size, tmp_path)
    assert len({rank["batch_size"] for rank in seen}) == 1
    assert seen[0]["batch_size"] == seen[1]["own"] < seen[0]["own"]


def test_a_rank_on_which_nothing_fits_leaves_nobody_waiting(tmp_path):
    seen = run_ranks("nothing-fits", 2, tmp_path)
    assert "another rank" in seen[0]["error"] and "a batch of 1 does not fit" in seen[1]["error"]
