"""Loops of Hugging Face and Lightning over two real processes: one runs out of memory, both run their batches again, and nobody waits for ever."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from conftest import ROOT, subprocess_environment

import nilometer.optimize.batches.gradient_exchange as gradient_exchange
from nilometer.optimize.batches.gradient_exchange import GradientExchange

# Who waits longer has been left alone: the test fails instead of standing still.
PATIENCE_SECS = 300


def ranks(folder, loop, accumulation=1, most=0, minimum=1, times=0):
    """What both ranks saw."""
    folder.mkdir()
    program = [str(ROOT / "tests/integrations/recovery_rank.py"), loop, str(accumulation), str(most), str(minimum), str(folder), str(times)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *program]
    environment = subprocess_environment(OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    try:
        said, _ = process.communicate(timeout=PATIENCE_SECS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        pytest.fail(f"the ranks wait for each other: {process.communicate()[0]}")
    assert process.returncode == 0, said
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("loop", ["trainer", "lightning"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_rank_that_runs_out_takes_the_others_along_to_the_same_weights(tmp_path, loop, accumulation):
    theirs = ranks(tmp_path / "plain", loop, accumulation)
    ours = ranks(tmp_path / "recovered", loop, accumulation, most=3)
    assert [seen["ranks"] for seen in theirs + ours] == [2] * 4
    # Two halvings, from 8 to 2, on both ranks: only one of them ran out.
    assert [(seen["ooms"], seen["micro_batch"], seen["error"]) for seen in ours] == [(2, 2, "")] * 2
    for seen in ours:
        assert [size for size in seen["sizes"] if size > 2][:2] == [8, 4] and set(seen["sizes"]) == {8, 4, 2, 1} - ({1} if loop == "lightning" else set())
    for seen in ours:
        for mine, whole in zip(seen["weights"], theirs[0]["weights"], strict=True):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(whole), atol=1e-5, rtol=1e-4)
    assert ours[0]["weights"] == ours[1]["weights"]


@pytest.mark.parametrize("loop", ["trainer", "lightning"])
def test_where_nothing_fits_on_one_rank_all_stop_with_the_reason(tmp_path, loop):
    first, last = ranks(tmp_path / "hopeless", loop, most=1, minimum=4)
    assert "memory ran out with 4 samples, and the minimum is 4: on another rank" in first["error"]
    assert "memory ran out with 4 samples, and the minimum is 4: out of memory with 4 samples" in last["error"]


@pytest.mark.parametrize("loop", ["trainer", "lightning"])
def test_a_rank_without_memory_for_the_exchange_of_gradients_takes_the_other_along(tmp_path, loop):
    theirs = ranks(tmp_path / "plain", loop)
    ours = ranks(tmp_path / "recovered", loop, most=1000, times=1)
    assert [(seen["ooms"], seen["micro_batch"], seen["error"]) for seen in ours] == [(1, 4, "")] * 2
    for seen in ours:
        for mine, whole in zip(seen["weights"], theirs[0]["weights"], strict=True):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(whole), atol=1e-5, rtol=1e-4)
    assert ours[0]["weights"] == ours[1]["weights"]


@pytest.mark.parametrize("loop", ["trainer", "lightning"])
def test_a_rank_that_never_has_memory_for_the_exchange_leaves_nobody_waiting(tmp_path, loop):
    first, last = ranks(tmp_path / "hopeless", loop, most=1000, minimum=4, times=1000)
    assert "memory ran out with 4 samples, and the minimum is 4: on another rank" in first["error"]
    assert "memory ran out with 4 samples, and the minimum is 4: out of memory" in last["error"]


def test_models_that_exchange_gradients_otherwise_are_refused(monkeypatch):
    monkeypatch.setattr(gradient_exchange, "world_size", lambda: 2)
    with pytest.raises(ValueError, match="needs a model in DistributedDataParallel, not Linear: use TrainingMemoryOptimizer or AdaptiveBatches"):
        GradientExchange(torch.nn.Linear(1, 1))
