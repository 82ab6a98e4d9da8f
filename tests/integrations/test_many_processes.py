"""Training in several processes: one run that knows its ranks."""

import json
import socket
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


SLOW_DATA = """
import time, torch.distributed as dist, nilometer
dist.init_process_group("gloo")
with nilometer.init(name="slow data") as run:
    for _ in range(6):
        with run.phase("data"):
            time.sleep(0.2 if dist.get_rank() == 1 else 0.0)
        with run.phase("backward"):
            dist.barrier()
            time.sleep(0.05)
dist.destroy_process_group()
"""


def test_the_rank_of_torchrun_that_waits_for_data_is_advised_of(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW_DATA)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "slow.py"]
    environment = subprocess_environment(NILO_DIR=str(tmp_path / "runs"))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    told = nilometer.read_run("last", dir=tmp_path / "runs").summary()
    # The first rank is in the backward pass meanwhile.
    assert told["bottleneck"]["part"] == "backward"
    assert [one["rule"] for one in told["recommendations"]] == ["load-data-faster"]
    assert "of the step waits for data" in json.dumps(told["recommendations"])


UNEVEN = """
import torch, torch.distributed as dist, nilometer, time
dist.init_process_group("gloo")
rank = dist.get_rank()
# The first rank begins the run, and with it the recording.
if rank:
    dist.barrier()
run = nilometer.init(name="uneven", interval=0.02)
if not rank:
    dist.barrier()
run.log({"loss": float(rank)}, step=0)
dist.barrier()
dist.destroy_process_group()

def last(column):
    values = nilometer.read_run(run.path).memory(column).value
    return values[-1] if len(values) else 0

def wait_for(condition):
    while not condition():
        time.sleep(0.01)

if rank == 0:
    wait_for(lambda: last("processes") == 2)
else:
    # Until the first rank has gone, and another records.
    wait_for(lambda: last("processes") == 1)
    before = last("memory_bytes")
    held = [torch.ones(50 << 20)]
    wait_for(lambda: last("memory_bytes") > before + (195 << 20))
    run.mark("held")
    held.append(torch.ones(25 << 20))
    wait_for(lambda: last("memory_bytes") > before + (295 << 20))
    run.mark("more")
"""


def test_memory_goes_on_after_the_first_rank_of_torchrun_has_ended(tmp_path):
    (tmp_path / "uneven.py").write_text(UNEVEN)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "uneven.py"]
    environment = subprocess_environment(NILO_DIR=str(tmp_path / "runs"))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    run = nilometer.read_run("uneven", dir=tmp_path / "runs")
    told, marks = run.summary(), {text: seconds for seconds, text in run.marks}
    assert run.ranks == [0, 1] and (told["status"], told["exit_code"]) == ("exited", 0)
    curve = run.memory()
    levels = {text: [value for at, value in zip(curve.seconds, curve.value) if at <= seconds][-1] for text, seconds in marks.items()}
    assert levels["more"] > levels["held"] + (90 << 20) and curve.seconds[-1] >= marks["more"]
    assert told["duration_secs"] >= marks["more"]
    assert "memory-ends-early" not in [finding["kind"] for finding in told["findings"]]


FAILING_ATTEMPT = """
import os, pathlib, sys, time, nilometer
rank, attempt = int(os.environ["RANK"]), os.environ["TORCHELASTIC_RESTART_COUNT"]
run = nilometer.init(name="elastic", config={"attempt": attempt})
for step in range(5):
    run.log({"loss": 10.0 * rank + step}, step=step)
pathlib.Path(f"logged-{attempt}-{rank}").touch()
while not pathlib.Path(f"logged-{attempt}-{1 - rank}").exists():
    time.sleep(0.01)
if attempt == "0":
    if rank == 1:
        sys.exit(9)
    time.sleep(100)
"""


@pytest.mark.parametrize("below", [True, False])
def test_an_attempt_of_torchrun_that_fails_has_the_exit_code_of_its_rank(tmp_path, below):
    (tmp_path / "elastic.py").write_text(FAILING_ATTEMPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1", "elastic.py"]
    outer = nilometer.init() if below else None
    where = {"NILO_RUN_DIR": str(outer.path)} if outer else {"NILO_DIR": str(tmp_path / "runs")}
    done = subprocess.run(command, cwd=tmp_path, env=subprocess_environment(**where), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    if outer:
        outer.finish()
        runs = nilometer.read_run(outer.path).runs
    else:
        runs = [nilometer.read_run(path) for path in sorted((tmp_path / "runs").iterdir()) if path.is_dir()]
    ended = [(told["status"], told["exit_code"], told.get("failed_rank", {}).get("rank")) for told in (run.summary() for run in runs)]
    assert ended == [("exited", 9, 1), ("exited", 0, None)]
    assert [len(run.series("loss").value) for run in runs] == [10, 10]


LIGHTNING = """
import sys, warnings
warnings.simplefilter("ignore")
import lightning.pytorch as pl, torch
from torch.utils.data import DataLoader, TensorDataset
from nilometer.integrations.lightning import NiloCallback, NiloLogger

class Model(pl.LightningModule):
    def __init__(self, rate):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(3, 1)

    def training_step(self, batch, index):
        loss = self.layer(batch[0]).square().mean()
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.rate)

if __name__ == "__main__":
    trainer = pl.Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy=sys.argv[1], logger=NiloLogger("ddp"), callbacks=[NiloCallback()], log_every_n_steps=1,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )
    trainer.fit(Model(0.05), DataLoader(TensorDataset(torch.ones(16, 3)), batch_size=2))
"""


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn", "ddp_fork"])
def test_lightnings_own_launchers_make_one_run(tmp_path, strategy, below):
    (tmp_path / "ddp.py").write_text(LIGHTNING)
    outer = nilometer.init(memory=False) if below else None
    more = {"NILO_DIR": str(tmp_path / "ddp")} | ({"NILO_RUN_DIR": str(outer.path)} if outer else {})
    done = subprocess.run(
        [sys.executable, "ddp.py", strategy], cwd=tmp_path, env=subprocess_environment(**more), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    if outer is not None:
        outer.finish()
        (run,) = nilometer.read_run(outer.path).runs
    else:
        (folder,) = [path for path in (tmp_path / "ddp").iterdir() if path.is_dir()]
        run = nilometer.read_run(folder)
    assert run.description["name"] == "ddp"
    assert run.ranks == [0, 1]
    assert run.description["provenance"]["world_size"] == 2
    assert run.config["rate"] == 0.05
    assert run.series("train/loss").step.tolist() == [0, 1, 2, 3]
    assert sorted(run.phase("forward").step.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]


TWO_TRAININGS = LIGHTNING.replace(
    "    trainer.fit(",
    "    trainer.fit(Model(0.05), DataLoader(TensorDataset(torch.ones(16, 3)), batch_size=2))\n"
    "    trainer = pl.Trainer(\n"
    "        max_epochs=1, accelerator='cpu', devices=2, strategy=sys.argv[1], logger=NiloLogger('ddp'), callbacks=[NiloCallback()],\n"
    "        log_every_n_steps=1, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,\n"
    "    )\n"
    "    trainer.fit(",
)


# One logger in both.
ONE_LOGGER = TWO_TRAININGS.replace("    trainer = pl.Trainer(", "    logger = NiloLogger('ddp')\n    trainer = pl.Trainer(", 1)
ONE_LOGGER = ONE_LOGGER.replace('logger=NiloLogger("ddp")', "logger=logger").replace("logger=NiloLogger('ddp'),", "logger=logger,")


@pytest.mark.parametrize("program", [TWO_TRAININGS, ONE_LOGGER], ids=["two loggers", "one logger"])
def test_the_ranks_of_a_second_lightning_trainer_share_a_run_too(tmp_path, program):
    (tmp_path / "ddp.py").write_text(program)
    environment = subprocess_environment(NILO_DIR=str(tmp_path / "ddp"))
    done = subprocess.run([sys.executable, "ddp.py", "ddp"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    runs = [nilometer.read_run(path) for path in sorted((tmp_path / "ddp").iterdir()) if path.is_dir()]
    assert [run.ranks for run in runs] == [[0, 1], [0, 1]]
    for run in runs:
        assert run.series("train/loss").step.tolist() == [0, 1, 2, 3]
        assert sorted(run.phase("forward").step.tolist()) == [0, 0, 1, 1, 2, 2, 3, 3]
        counted = run.summary()["throughput"]
        assert (counted["batches"]["total"], counted["samples"]["total"]) == (4, 16), "ranks take their batches together"


@pytest.mark.parametrize("folders", [["shared", "shared"], ["first", "second"]])
def test_torchrun_over_two_machines_keeps_the_points_of_every_rank(tmp_path, folders):
    (tmp_path / "plain.py").write_text(GLOO)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    agents = []
    for node, folder in enumerate(folders):
        command = [
            sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=2", f"--node-rank={node}",
            "--master-addr=127.0.0.1", f"--master-port={port}", "plain.py",
        ]  # fmt: skip
        environment = subprocess_environment(NILO_DIR=str(tmp_path / folder))
        agents.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True))
    for agent in agents:
        error = agent.communicate(timeout=300)[1]
        assert agent.returncode == 0, error[-3000:]
    # One run where the folder is shared, else one on each machine with the ranks that are there.
    ranks = {"shared": [0, 1, 2, 3], "first": [0, 1], "second": [2, 3]}
    for folder in set(folders):
        (path,) = [path for path in (tmp_path / folder).iterdir() if path.is_dir()]
        run = nilometer.read_run(path)
        assert run.ranks == ranks[folder]
        assert run.summary()["status"] == "exited"
        assert run.description["provenance"]["world_size"] == 4
        for rank in run.ranks:
            assert run.series("loss", rank=rank).value.tolist() == [10.0 * rank + step for step in range(4)]


ACCELERATE = """
import time
from accelerate import Accelerator
import nilometer
from nilometer.integrations.accelerate import NiloTracker

accelerator = Accelerator(cpu=True, log_with=[NiloTracker("tracked")])
accelerator.init_trackers("project", config={"rate": 0.1})
assert accelerator.num_processes == 2
if accelerator.is_main_process:
    path = accelerator.get_tracker("nilo", unwrap=True).path
    until = time.monotonic() + 60
    while len(nilometer.read_run(path).summary()["processes"]) < 2 and time.monotonic() < until:
        time.sleep(0.05)
accelerator.wait_for_everyone()
accelerator.log({"loss": 1.0}, step=1)
accelerator.end_training()
"""


def test_accelerates_main_process_records_the_memory_of_all(tmp_path):
    (tmp_path / "tracked.py").write_text(ACCELERATE)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "tracked.py"]
    environment = subprocess_environment(NILO_DIR=str(tmp_path / "runs"))
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (folder,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    run = nilometer.read_run(folder)
    assert run.series("loss").value.tolist() == [1.0]
    processes = run.summary()["processes"]
    assert len(processes) == 2 and len({process["parent"] for process in processes}) == 1
