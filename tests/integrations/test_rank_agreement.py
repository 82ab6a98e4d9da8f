"""Real processes over gloo, one of which runs out of memory: all take the same step again, and nobody waits for ever."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch
from conftest import subprocess_environment
from rank_program import loss_sum, make_model, shares

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
    assert all("32 is the least" in rank["error"] for rank in seen)
    assert "on another rank" in seen[0]["error"] and "out of memory" in seen[-1]["error"]
    assert all(rank["weights"] == seen[0]["weights"] and rank["sizes"] == [] for rank in seen)


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_batch_size_is_that_of_the_smallest_rank(world_size, tmp_path):
    seen = run_ranks("find", world_size, tmp_path)
    assert len({rank["batch_size"] for rank in seen}) == 1
    assert seen[0]["batch_size"] == seen[1]["own"] < seen[0]["own"]


def test_a_rank_on_which_nothing_fits_leaves_nobody_waiting(tmp_path):
    seen = run_ranks("nothing-fits", 2, tmp_path)
    assert "another rank" in seen[0]["error"] and "a batch of 1 does not fit" in seen[1]["error"]
