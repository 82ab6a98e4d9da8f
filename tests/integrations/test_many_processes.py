"""Training in several processes: one run that knows its ranks."""

import subprocess
import sys

import pytest
from conftest import subprocess_environment

import nilometer

PROGRAM = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from tiny import Sentences, language_model
from transformers import Trainer, TrainingArguments
from nilometer.integrations.huggingface import NiloCallback

arguments = TrainingArguments(
    output_dir="out", max_steps=3, per_device_train_batch_size=2, logging_steps=1, report_to=[], use_cpu=True,
    ddp_backend="gloo", save_strategy="no", disable_tqdm=True,
)
trainer = Trainer(language_model(), arguments, train_dataset=Sentences(16), callbacks=[NiloCallback()])
trainer.train()
assert arguments.world_size == 2
# Without this, torch may abort at exit: its threads are still there when they are destroyed.
torch.distributed.destroy_process_group()
"""


def train(folder, **environment):
    program = folder / "train.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", program, ROOT_OF_TESTS]
    done = subprocess.run(
        command, cwd=folder, env=subprocess_environment(**environment), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]


ROOT_OF_TESTS = __file__.rpartition("/")[0]


def test_two_processes_make_one_run_with_the_phases_of_both(tmp_path):
    train(tmp_path, NILO_DIR=str(tmp_path / "runs"))
    (folder,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    check(nilometer.read_run(folder))


def test_below_a_job_two_processes_make_one_run_inside_it(tmp_path):
    outer = nilometer.init()
    train(tmp_path, NILO_RUN_DIR=str(outer.path))
    outer.finish()
    (run,) = nilometer.read_run(outer.path).runs
    check(run)


def check(run):
    assert run.ranks == [0, 1]
    assert run.series("train/loss").step.tolist() == [1, 2, 3]
    assert sorted(run.phase("step").step.tolist()) == [1, 1, 2, 2, 3, 3]
    # Two samples in each of the two processes.
    assert run.throughput("samples").value.tolist() == [4, 8, 12]


GLOO = """
import torch.distributed as dist, nilometer
dist.init_process_group("gloo")
with nilometer.init(name="plain") as run:
    for step in range(4):
        run.log({"loss": 10.0 * dist.get_rank() + step}, step=step)
    dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("world", [2, 4])
def test_torchrun_without_a_framework_is_one_run(tmp_path, world):
    (tmp_path / "plain.py").write_text(GLOO)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}", "plain.py"]
    environment = subprocess_environment(NILO_DIR=str(tmp_path / "runs"))
    for launch in range(2):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        # A second launch is a second run.
        runs = sorted(path for path in (tmp_path / "runs").iterdir() if path.is_dir())
        assert len(runs) == launch + 1
        run = nilometer.read_run(runs[-1])
        assert run.ranks == list(range(world))
        for rank in range(world):
            assert run.series("loss", rank=rank).value.tolist() == [10.0 * rank + step for step in range(4)]
