"""Training in two processes: one run, metrics once, and phases of both where both are in the run."""

import subprocess
import sys

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


def test_two_processes_make_one_run(tmp_path):
    train(tmp_path, NILO_DIR=str(tmp_path / "runs"))
    (folder,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    run = nilometer.read_run(folder)
    assert run.series("train/loss").step.tolist() == [1, 2, 3]
    assert run.phase("step").step.tolist() == [1, 2, 3]
    # Two samples in each of the two processes.
    assert run.throughput("samples").value.tolist() == [4, 8, 12]


def test_below_a_run_every_process_adds_its_phases_and_one_its_metrics(tmp_path):
    outer = nilometer.init()
    train(tmp_path, NILO_RUN_DIR=str(outer.path))
    outer.finish()
    run = nilometer.read_run(outer.path)
    assert run.series("train/loss").step.tolist() == [1, 2, 3]
    assert sorted(run.phase("step").step.tolist()) == [1, 1, 2, 2, 3, 3]
    assert run.throughput("samples").value.tolist() == [4, 8, 12]
