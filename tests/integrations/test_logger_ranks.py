"""TrainingLogger in the ranks of a real launch: each exports what it logged itself."""

import json
import subprocess
import sys

from conftest import subprocess_environment

import nilometer

PROGRAM = """
import sys
import torch.distributed as dist
from nilometer.metrics import TrainingLogger
dist.init_process_group("gloo")
rank = dist.get_rank()
logger = TrainingLogger("logs", "exp", resume=len(sys.argv) > 1)
first = 5 if len(sys.argv) > 1 else 0
for step in range(first, first + 5):
    logger.log_step(step, {"loss": 10.0 * rank + step}, scores=[float(rank)])
if rank == 1:
    logger.log_step(first + 4, {"only": 1.0})
dist.barrier()
logger.save_checkpoint_metrics("last")
logger.export_all()
dist.barrier()
dist.destroy_process_group()
"""


def launch(folder, *arguments):
    (folder / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py", *arguments]
    done = subprocess.run(command, cwd=folder, env=subprocess_environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def read(folder, name):
    return json.loads((folder / "logs" / name).read_text())


def test_each_rank_exports_its_own_points(tmp_path):
    launch(tmp_path)
    names = {"exp.attempts.json", "exp_metrics.json", "exp_last.json", "exp_rank1_metrics.json", "exp_rank1_last.json"}
    assert {path.name for path in (tmp_path / "logs").iterdir()} == names
    for rank, stem in enumerate(["exp", "exp_rank1"]):
        exported = read(tmp_path, f"{stem}_metrics.json")
        assert exported["raw_metrics"]["loss"] == [10.0 * rank + step for step in range(5)]
        assert exported["steps"]["loss"] == list(range(5))
        assert exported["metric_summaries"]["loss"]["count"] == 5
        assert exported["metric_summaries"]["loss"]["mean"] == 10.0 * rank + 2
        assert ("only" in exported["raw_metrics"]) == (rank == 1)
        assert exported["score_distribution"]["mean_score"] == float(rank)
        assert read(tmp_path, f"{stem}_last.json")["metric_summaries"]["loss"]["mean"] == 10.0 * rank + 2
    # The run has all of them.
    run = nilometer.read_run("exp")
    assert run.ranks == [0, 1] and len(run.series("loss").value) == 10

    launch(tmp_path, "resume")
    for rank, stem in enumerate(["exp", "exp_rank1"]):
        exported = read(tmp_path, f"{stem}_metrics.json")
        assert exported["raw_metrics"]["loss"] == [10.0 * rank + step for step in range(10)]
        assert [attempt["points"] for attempt in exported["attempts"]] == [5 + rank, 5 + rank]
        assert exported["score_distribution"]["mean_score"] == float(rank)
