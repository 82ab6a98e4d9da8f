"""What a training program logged, as other programs get it: TensorBoard itself, CSV, JSON and Parquet."""

import csv
import json
import math
import os
import shutil
import subprocess

import pyarrow.parquet
import pytest
from conftest import ROOT, Nilo
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

EVERYTHING = {"scalars": 0}


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """The runs of crates/nilo-cli/tests/support, written by the real writer."""
    folder = tmp_path_factory.mktemp("made-up")
    program = os.environ.get("NILO_MADE_UP_RUNS")
    cargo = ["cargo", "run", "--quiet", "--locked", "-p", "nilo-cli", "--example", "made_up_runs", "--"]
    command = [program] if program else cargo
    subprocess.run([*command, folder / ".nilo"], cwd=ROOT, check=True)
    return Nilo(folder)


def events(nilo, run, *arguments):
    """Exports a run and reads it back with TensorBoard."""
    folder = f"logs-{run}"
    if not (nilo.folder / folder).exists():
        result = nilo("export", run, "--format", "tensorboard", "-o", folder, *arguments)
        assert result.returncode == 0, result.stderr
    accumulator = EventAccumulator(str(nilo.folder / folder), size_guidance=EVERYTHING)
    accumulator.Reload()
    return accumulator


def test_tensorboard_has_the_metrics_by_step(made_up):
    read = events(made_up, "base")
    tags = set(read.Tags()["scalars"])
    assert {"loss", "lr", "grad_norm", "eval/loss", "eval/accuracy"} <= tags
    loss = read.Scalars("loss")
    assert [event.step for event in loss] == list(range(50))
    summary = next(metric for metric in made_up.show("base")["metrics"] if metric["name"] == "loss")
    assert loss[-1].value == pytest.approx(summary["last"]["value"], rel=1e-6)
    assert min(event.value for event in loss) == pytest.approx(summary["min"]["value"], rel=1e-6)
    assert loss[0].wall_time == pytest.approx(1794729330.417 + 8.95, abs=1e-3)
    norms = {event.step: event.value for event in read.Scalars("grad_norm")}
    assert math.isnan(norms[41]) and sum(map(math.isnan, norms.values())) == 1


def test_tensorboard_has_phases_throughput_and_memory(made_up):
    read = events(made_up, "base")
    forward = read.Scalars("phase/step/forward_seconds")
    assert len(forward) == 50 and 0.2 <= forward[0].value < 0.21 and forward[-1].step == 49
    tokens = read.Scalars("throughput/tokens_per_second")
    assert tokens[-1].value == pytest.approx(16384, rel=1e-3)
    memory = read.Scalars("memory/tree_gib")
    assert len(memory) == 600
    peak = max(event.value for event in memory)
    assert peak * 2**30 == pytest.approx(made_up.show("base")["memory"]["sampled_peak_bytes"], rel=1e-6)
    steps = [event.step for event in memory]
    assert steps == sorted(steps) and (steps[0], steps[-1]) == (0, 49)
    assert read.Scalars("memory/cuda0_reserved_gib")[-1].value == pytest.approx(4.8, rel=1e-6)


def test_tensorboard_gets_every_point_of_steps_that_were_logged_twice(made_up):
    loss = events(made_up, "resumed").Scalars("loss")
    # Steps 30 to 39 were logged again, after the 45th second.
    assert [event.step for event in loss] == sorted([*range(60), *range(30, 40)])
    again = [event.wall_time - 1794729330.417 for event in loss if event.step == 30]
    assert again[0] < 40 and again[1] > 44.9


def test_hostile_keys_and_steps_reach_tensorboard(made_up):
    read = events(made_up, "hostile")
    tags = set(read.Tags()["scalars"])
    assert {"損失/平均 🚀", "only nan", "\x1b[2J\x1b]0;x\x07red\nnew line\u202e"} <= tags
    assert 2**63 - 1 in [event.step for event in read.Scalars("edges")]
    assert all(math.isnan(event.value) for event in read.Scalars("only nan"))


def test_a_crashed_run_is_exported_as_far_as_it_goes(made_up):
    whole = made_up.folder / ".nilo" / "20261115-075530-417-base"
    torn = made_up.folder / ".nilo" / "20261115-075530-417-torn"
    shutil.copytree(whole, torn)
    description = json.loads((torn / "run.json").read_text())
    del description["ending"]
    description |= {"id": torn.name, "name": "torn"}
    (torn / "run.json").write_text(json.dumps(description))
    for stream in torn.glob("*.nilo"):
        os.truncate(stream, stream.stat().st_size * 2 // 3)
    read = events(made_up, "torn")
    assert 10 < len(read.Scalars("loss")) < 50
    assert 100 < len(read.Scalars("memory/tree_gib")) < 600


def test_a_folder_with_events_is_refused(made_up):
    events(made_up, "base")
    before = sorted((made_up.folder / "logs-base").iterdir())
    result = made_up("export", "base", "--format", "tensorboard", "-o", "logs-base")
    assert result.returncode == 2 and "already" in result.stderr and "hint:" in result.stderr
    assert sorted((made_up.folder / "logs-base").iterdir()) == before
    assert made_up("export", "base", "--format", "tensorboard").returncode == 2


def test_long_csv_json_and_parquet_carry_steps_and_writers(made_up):
    rows = list(csv.DictReader(made_up("export", "resumed", "--long").stdout.splitlines()))
    loss = [row for row in rows if row["table"] == "metrics:metrics" and row["column"] == "loss"]
    # Nothing is overwritten here: both attempts are there, told apart by their writer.
    assert len(loss) == 70 and len({row["writer"] for row in loss}) == 2
    assert [int(row["step"]) for row in loss] == [*range(40), *range(30, 60)]
    assert {"phase:step/forward", "throughput", "torch-memory:0"} <= {row["table"] for row in rows}

    made_up("export", "resumed", "-o", "resumed.parquet")
    table = pyarrow.parquet.read_table(made_up.folder / "resumed.parquet")
    read = [row for row in table.to_pylist() if row["column"] == "loss"]
    assert [(row["step"], row["value"], row["writer"]) for row in read] == [
        (int(row["step"]), float(row["value"]), row["writer"]) for row in loss
    ]

    data = json.loads(made_up("export", "hostile", "--format", "json").stdout)
    unstepped = [table for table in data["tables"] if table["columns"][0]["name"] == "no step"]
    assert unstepped[0]["steps"] == []
    edges = next(table for table in data["tables"] if table["columns"][0]["name"] == "edges")
    assert edges["steps"] == [None, 2**63 - 1, -1, 0]


def test_show_as_csv_says_where_the_metrics_are(made_up):
    shown = made_up("show", "base", "--format", "csv")
    assert shown.stdout.startswith("pid,name,")
    assert "for the metrics use `nilo export" in shown.stderr and "--long" in shown.stderr


def test_plain_csv_of_a_run_with_metrics_says_where_they_are(made_up):
    assert "--long writes the metrics too" in made_up("export", "base").stderr
    assert made_up("export", "base", "--long").stderr == ""


def test_plain_csv_of_a_run_without_memory_says_where_the_rest_is(made_up):
    result = made_up("export", "resumed")
    assert len(result.stdout.splitlines()) == 1 and "--long" in result.stderr
