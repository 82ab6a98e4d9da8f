"""Experiments stay apart: each training is a run of its own, linked to its job; nothing that was logged is hidden."""

import argparse
import asyncio
import collections
import csv
import dataclasses
import io
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import threading
import types

import numpy
import pytest
from conftest import MIB, NILO
from package import QUIET, only_run, run_program

import nilometer
from nilometer import NilometerWarning
from nilometer.metrics import MetricTracker, TrainingLogger

TRAINING = """
    import sys, time, nilometer
    name, mib, wait = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with nilometer.init(name=name, config={"lr": 0.1}, tags={"kind": name}) as run:
        held = bytearray(mib << 20)
        held[::4096] = b"x" * len(held[::4096])
        for step in range(5):
            run.log({"loss": mib / (step + 1)}, step=step)
            time.sleep(wait / 5)
"""


@pytest.fixture
def training(folder):
    (folder / "train.py").write_text(textwrap.dedent(TRAINING))
    return [sys.executable, "train.py"]


def inside(nilo, job="last"):
    """The runs inside a job, by name."""
    runs = nilo.runs()
    job = [run["run"] for run in runs if run.get("parent") is None][-1] if job == "last" else job
    return {run["name"]: run for run in runs if run.get("parent") == job}


def test_a_sweep_is_one_job_with_a_run_for_each_training(nilo, training):
    line = " && ".join(f"{' '.join(training)} lr-{mib} {mib} 0.6" for mib in (40, 120, 80))
    assert nilo("run", "--name", "sweep", "--", "sh", "-c", line).returncode == 0
    runs = inside(nilo)
    assert list(runs) == ["lr-40", "lr-120", "lr-80"]
    for mib in (40, 120, 80):
        told = nilo.show(f"lr-{mib}")
        assert told["tags"] == {"kind": f"lr-{mib}"} and told["config"] == {"lr": 0.1}
        assert [metric["count"] for metric in told["metrics"]] == [5]
        # The interpreter itself has some 15 MiB.
        assert mib * MIB < told["memory"]["peak_bytes"] < (mib + 30) * MIB
        # The list and the page agree.
        assert runs[f"lr-{mib}"]["peak_bytes"] == told["memory"]["peak_bytes"]
        assert told["status"] == "exited" and told["exit_code"] == 0
    text = nilo("show", "sweep").stdout
    assert all(f"lr-{mib}" in text for mib in (40, 120, 80))
    compared = nilo("compare", "lr-40", "lr-120").stdout
    assert "lr-40" in compared and "lr-120" in compared


def test_trainings_side_by_side_have_each_their_own_memory(nilo, training):
    line = " & ".join(f"{' '.join(training)} p-{mib} {mib} 1.5" for mib in (40, 160)) + " & wait"
    assert nilo("run", "--", "sh", "-c", line).returncode == 0
    for mib in (40, 160):
        assert mib * MIB < nilo.show(f"p-{mib}")["memory"]["peak_bytes"] < (mib + 30) * MIB


def test_a_job_with_one_training_is_shown_with_it(nilo, training):
    assert nilo("run", "--", *training, "only", "20", "0.2").returncode == 0
    told = nilo.show()
    assert told["name"] == "only" and told["config"] == {"lr": 0.1}
    assert [metric["name"] for metric in told["metrics"]] == ["loss"]


def test_text_json_and_csv_list_the_same_runs_with_their_names(nilo, training):
    assert nilo("run", "--name", "job", "--", *training, "inner", "20", "0.2").returncode == 0
    assert nilo("run", "--", *training, "only", "20", "0.2").returncode == 0
    listed = nilo.runs()
    assert [(run["name"], bool(run["parent"])) for run in listed] == [("job", False), ("inner", True), ("only", False), ("only", True)]
    head, *lines = nilo("runs").stdout.splitlines()
    assert head.split()[0] == "RUN" and len(lines) == len(listed)
    at = head.index("NAME")
    for line, run in zip(lines, listed):
        assert line.split()[0] == run["run"] and line[at:].split()[0] == run["name"]
        assert line.startswith("  ") == bool(run["parent"])
    rows = list(csv.DictReader(io.StringIO(nilo("runs", "--format", "csv").stdout)))
    assert [(row["run"], row["name"], row["parent"]) for row in rows] == [(run["run"], run["name"], run["parent"] or "") for run in listed]


def test_a_run_that_was_killed_in_its_job_is_told(nilo, folder):
    (folder / "killed.py").write_text(
        "import nilometer, os, signal\nnilometer.init(name='dies').log({'x': 1})\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    nilo("run", "--", sys.executable, "killed.py")
    assert nilo.show("dies")["status"] == "killed"


def test_three_trainings_in_one_process(nilo, folder):
    program = """
        import nilometer
        for number in range(3):
            run = nilometer.init(name=f"t{number}")
            nilometer.log({"loss": float(number)}, step=0)
    """
    run_program(program, folder)
    names = {run["name"]: nilo.show(run["run"]) for run in nilo.runs()}
    assert {name: told["metrics"][0]["last"]["value"] for name, told in names.items()} == {"t0": 0.0, "t1": 1.0, "t2": 2.0}


CHILDREN = """
    import multiprocessing, os, subprocess, sys, nilometer

    def train(name):
        run = nilometer.init(name=name)
        run.log({"loss": 1.0}, step=0)
        run.finish(0)

    if __name__ == "__main__":
        parent = nilometer.init(name="parent")
        parent.log({"loss": 5.0}, step=0)
        for method in ("fork", "spawn"):
            process = multiprocessing.get_context(method).Process(target=train, args=(method,))
            process.start()
            process.join()
        code = "import nilometer; nilometer.init(name='program').log({'loss': 2.0}, step=0)"
        subprocess.run([sys.executable, "-c", code], check=True)
        # Without init() a child adds to the run of its parent.
        code = "import nilometer; nilometer.log({'from_child': 3.0}, step=0)"
        subprocess.run([sys.executable, "-c", code], check=True)
        parent.log({"loss": 6.0}, step=1)
"""


def test_children_that_begin_a_run_have_their_own(nilo, folder):
    (folder / "program.py").write_text(textwrap.dedent(CHILDREN))
    done = subprocess.run([sys.executable, "program.py"], env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parent = only_run(folder)
    assert sorted(inside(nilo)) == ["fork", "program", "spawn"]
    recorded = nilometer.read_run(parent)
    assert recorded.series("loss").value.tolist() == [5.0, 6.0]
    assert recorded.series("from_child").value.tolist() == [3.0]
    assert nilometer.read_run("spawn", dir=folder / ".nilo").series("loss").value.tolist() == [1.0]
    assert [run.description["name"] for run in recorded.runs] == ["fork", "spawn", "program"]


def test_steps_that_restart_each_epoch_keep_all_fifteen_points(folder, monkeypatch):
    run = nilometer.init(memory=False)
    tracker = MetricTracker()
    monkeypatch.setattr(nilometer._trouble, "_said", set())
    with pytest.warns(NilometerWarning, match=r"went back from 4 to 0.*epoch \* len\(loader\)") as warned:
        for epoch in range(3):
            for step in range(5):
                tracker.update("loss", epoch + step / 10, step=step)
    assert len(warned) == 1
    run.finish(0)
    recorded = nilometer.read_run(run.path)
    assert recorded.series("loss").step.tolist() == [0, 1, 2, 3, 4] * 3
    (told,) = recorded.summary()["metrics"]
    assert told["count"] == 15 and told["step_restarts"] == 2
    path = recorded.export(folder / "all.csv")
    assert sum(",loss," in line for line in path.read_text().splitlines()) == 15


@pytest.mark.filterwarnings("ignore:.*the step went back")
def test_a_logger_exports_every_epoch(folder):
    logger = TrainingLogger("logs", "exp")
    for epoch in range(3):
        for step in range(5):
            logger.log_step(step, {"loss": float(epoch)})
    exported = logger.export_all()
    assert exported["metric_summaries"]["loss"]["count"] == 15
    assert exported["raw_metrics"]["loss"] == [float(epoch) for epoch in range(3) for _ in range(5)]


@pytest.mark.filterwarnings("ignore:.*the step went back")
def test_threads_that_share_a_metric_hide_nothing(folder):
    with nilometer.init(memory=False) as run:
        def work():
            for step in range(200):
                run.log({"loss": 1.0}, step=step)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    (told,) = nilometer.read_run(run.path).summary()["metrics"]
    assert told["count"] == 800


def test_a_logger_does_not_merge_with_an_earlier_program_of_its_name(nilo, folder):
    program = """
        import sys
        from nilometer.metrics import TrainingLogger
        logger = TrainingLogger("logs", "exp")
        logger.log_step(0, {"loss": float(sys.argv[1])})
        print(logger.export_all()["raw_metrics"], len(logger.export_all()["attempts"]))
    """
    run_program(program, folder, 1)
    assert run_program(program, folder, 2).stdout.strip() == "{'loss': [2.0]} 1"
    # Where `nilo show` looks.
    told = nilo.show()
    assert told["name"] == "exp" and told["metrics"][0]["last"]["value"] == 2.0
    assert len(nilo.runs()) == 2


def test_two_trackers_with_the_same_names_stay_apart(folder):
    with nilometer.init(memory=False) as run:
        train, valid = MetricTracker(), MetricTracker()
        for step in range(3):
            train.update("loss", 1.0, step=step)
            valid.update("loss", 9.0, step=step)
        del train
        again = MetricTracker()
        again.update("loss", 2.0, step=3)
    recorded = nilometer.read_run(run.path)
    assert recorded.metrics == ["loss", "tracker-2/loss"]
    # A tracker that takes the place of one that is gone goes on where that was.
    assert recorded.series("loss").value.tolist() == [1.0, 1.0, 1.0, 2.0]
    assert recorded.series("tracker-2/loss").value.tolist() == [9.0, 9.0, 9.0]
    assert set(recorded.series_many()) == {"loss", "tracker-2/loss"}


@pytest.mark.parametrize("first", ["log", "tracker"])
def test_a_tracker_and_log_with_the_same_name_stay_apart(nilo, folder, first):
    with nilometer.init(memory=False) as run:
        tracker = MetricTracker()
        for step in range(10):
            for source in ("log", "tracker") if first == "log" else ("tracker", "log"):
                if source == "log":
                    nilometer.log({"loss": float(step)}, step=step)
                elif step < 5:
                    tracker.update("loss", 100.0 + step, step=step)
        tracker.update("kl", 0.5, step=5)
    recorded = nilometer.read_run(run.path)
    # What only the tracker has keeps its plain name.
    assert recorded.metrics == ["kl", "loss", "tracker-1/loss"]
    assert recorded.series("loss").value.tolist() == [float(step) for step in range(10)]
    assert recorded.series("tracker-1/loss").value.tolist() == [100.0 + step for step in range(5)]
    assert {name: len(series.value) for name, series in recorded.series_many().items()} == {"kl": 1, "loss": 10, "tracker-1/loss": 5}
    counts = {metric["name"]: (metric["count"], metric["step_restarts"]) for metric in nilo.show(run.id)["metrics"]}
    assert counts == {"loss": (10, 0), "tracker-1/loss": (5, 0), "kl": (1, 0)}
    exported = list(csv.DictReader(nilo("export", run.id, "--long").stdout.splitlines()))
    tables = [row["table"] for row in exported if row["column"] == "loss"]
    assert (tables.count("metrics:metrics"), tables.count("metrics:tracker-1"), len(tables)) == (10, 5, 15)


def test_what_several_processes_log_under_one_name_is_told(nilo, folder):
    program = """
        import multiprocessing, nilometer
        def work(number):
            with nilometer.current_run().phase("work"):
                nilometer.log({"score": float(number)}, step=number)
        nilometer.init(name="pool", memory=False)
        nilometer.log({"loss": 1.0}, step=0)
        workers = [multiprocessing.get_context("fork").Process(target=work, args=(number,)) for number in range(3)]
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
    """
    run_program(program, folder)
    told = nilo.show("pool")
    assert {metric["name"]: (metric["count"], metric["processes"]) for metric in told["metrics"]} == {"loss": (1, 1), "score": (3, 3)}
    assert [(phase["count"], phase["processes"]) for phase in told["phases"]] == [(3, 3)]
    shown = nilo("show", "pool").stdout
    assert [line.split()[0] for line in shown.splitlines() if line.endswith("from 3 processes")] == ["score", "work"]


def test_a_ranks_metric_is_that_of_the_run(folder):
    # Rank 1 has only the tracker: `loss` is what `log` stored all the same.
    program = """
        import nilometer, pathlib, time
        from nilometer.metrics import MetricTracker
        run = nilometer.init(name="ranks", memory=False)
        rank = nilometer._native.own_rank()[0]
        pathlib.Path(f"begun-{rank}").touch()
        while not pathlib.Path(f"begun-{1 - rank}").exists():
            time.sleep(0.01)
        tracker = MetricTracker()
        tracker.update("loss", 100.0 + rank, step=0)
        if rank == 0:
            nilometer.log({"loss": 1.0}, step=0)
    """
    (folder / "ranked.py").write_text(textwrap.dedent(program))
    launch = "; ".join(f"RANK={rank} WORLD_SIZE=2 {sys.executable} ranked.py &" for rank in range(2)).replace("&;", "&")
    assert subprocess.run(["sh", "-c", f"{launch} wait"], env=QUIET | {"NILO_STRICT": "1"}).returncode == 0
    run = nilometer.read_run("ranks", dir=folder / ".nilo")
    assert run.series("loss").value.tolist() == [1.0]
    assert run.series("tracker-1/loss", rank=1).value.tolist() == [101.0]
    assert run.series("loss", rank=1).value.tolist() == []


def test_asyncio_tasks_time_their_own_phases(folder):
    program = """
        import asyncio, nilometer
        run = nilometer.init(memory=False)

        async def fetch():
            with run.phase("outer"):
                with run.phase("inner"):
                    await asyncio.sleep(0.02)

        async def main():
            await asyncio.gather(*(fetch() for _ in range(20)))

        asyncio.run(main())
    """
    run_program(program, folder)
    recorded = nilometer.read_run(only_run(folder))
    assert recorded.phases == ["outer", "outer/inner"]
    for phase in recorded.phases:
        seconds = recorded.phase(phase).value
        assert len(seconds) == 20 and min(seconds) >= 0.02


def test_threads_time_their_own_phases(folder):
    with nilometer.init(memory=False) as run:
        barrier = threading.Barrier(4)

        def work():
            with run.phase("load"):
                barrier.wait()

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert len(nilometer.read_run(run.path).phase("load").value) == 4


RANKED = """
    import time, nilometer
    run = nilometer.init(name="ranks")
    rank = nilometer._native.own_rank()[0]
    held = bytearray(30 << 20)
    held[::4096] = b"x" * len(held[::4096])
    for step in range(3):
        run.log({"loss": 10.0 * rank + step}, step=step)
    for _ in range(4 + rank):
        run.phase("load", 0.1 * (rank + 1))
    time.sleep(1.5)
"""


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("below", [True, False])
def test_ranks_share_one_run(nilo, folder, world, below):
    (folder / "ranked.py").write_text(textwrap.dedent(RANKED))
    # As torchrun starts them: one parent, RANK and WORLD_SIZE in the environment.
    launch = "; ".join(f"RANK={rank} WORLD_SIZE={world} {sys.executable} ranked.py &" for rank in range(world)).replace("&;", "&")
    command = ["sh", "-c", f"{launch} wait"]
    done = subprocess.run([NILO, "run", "-q", "--", *command] if below else command, env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    job = only_run(folder)
    run = nilometer.read_run("ranks", dir=folder / ".nilo")
    assert (run.path.parent.parent == job) is below
    assert run.ranks == list(range(world))
    assert run.series("loss", rank=1).value.tolist() == [10.0, 11.0, 12.0]
    assert len(run.series("loss").value) == 3 * world
    (told,) = run.summary()["metrics"]
    assert told["count"] == 3 and told["last"]["value"] == 2.0
    assert told["ranks"] == {"count": world, "last_min": 2.0, "last_max": 10.0 * (world - 1) + 2.0}
    (phase,) = run.summary()["phases"]
    assert phase["count"] == 4 and [(own["rank"], own["count"]) for own in phase["ranks"]] == [(rank, 4 + rank) for rank in range(world)]
    assert phase["total_secs"] == pytest.approx(0.4) and phase["ranks"][1]["mean_secs"] == pytest.approx(0.2)
    assert len(run.phase("load", rank=1).value) == 5
    assert len(run.phase("load").value) == sum(4 + rank for rank in range(world))
    shown = nilo("show", "ranks").stdout
    assert f"{world} ranks, mean 100 ms to {world * 100} ms, 4 to {world + 3} times" in shown, shown
    # All ranks' memory, whoever records it.
    assert run.summary()["memory"]["peak_bytes"] > world * 30 * MIB
    assert run.description["provenance"]["world_size"] == world


FAILING_RANK = """
    import pathlib, sys, time, nilometer
    rank, first = nilometer._native.own_rank()[0], sys.argv[1]

    def wait_for(name):
        while not pathlib.Path(name).exists():
            time.sleep(0.01)

    if str(rank) != first:
        wait_for(f"begun-{first}")
    run = nilometer.init(name="ranks")
    pathlib.Path(f"begun-{rank}").touch()
    wait_for("begun-0"), wait_for("begun-1")
    run.log({"loss": float(rank)}, step=0)
    if rank == 1:
        sys.exit(9)
    time.sleep(100)
"""
# As torchrun does: one rank that fails ends the others.
LAUNCHER = """
    import os, subprocess, sys
    def start(rank):
        return subprocess.Popen([sys.executable, "rank.py", sys.argv[1]], env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"})
    ranks = [start(0), start(1)]
    ranks[1].wait()
    ranks[0].terminate()
    ranks[0].wait()
    sys.exit(1)
"""


@pytest.mark.parametrize("first", ["0", "1"])
@pytest.mark.parametrize("below", [True, False])
def test_the_rank_that_fails_first_is_how_the_run_ended(nilo, folder, first, below):
    (folder / "rank.py").write_text(textwrap.dedent(FAILING_RANK))
    (folder / "launch.py").write_text(textwrap.dedent(LAUNCHER))
    command = [sys.executable, "launch.py", first]
    done = subprocess.run([NILO, "run", "-q", "--", *command] if below else command, env=QUIET | {"NILO_STRICT": "1"})
    assert done.returncode == 1
    run = nilometer.read_run("ranks", dir=folder / ".nilo")
    told = run.summary()
    assert (told["status"], told["exit_code"], told["signal"]) == ("exited", 9, None)
    failed = told["failed_rank"]
    assert (failed["rank"], failed["exit_code"]) == (1, 9) and "signal" not in failed
    if below:
        # The job ends as its command does, and says which rank failed.
        job = nilo.show()
        assert (job["exit_code"], job["failed_rank"]["rank"]) == (1, 1)
    assert re.search(r"First Failure: +rank 1 exited with 9 after", nilo("show", "ranks").stdout)
    assert {listed["name"]: listed["exit_code"] for listed in nilo.runs() if listed["name"] == "ranks"} == {"ranks": 9}


LATE_RANK = """
    import os, pathlib, time, nilometer
    rank = int(os.environ["RANK"])
    def wait_for(name):
        while not pathlib.Path(name).exists():
            time.sleep(0.01)
    if rank == 1:
        while time.process_time() < 2:
            pass
        pathlib.Path("burned").touch()
        wait_for("begun")
        nilometer.init(name="late")
        nilometer.log({"loss": 1.0}, step=0)
        wait_for("over")
    else:
        wait_for("burned")
        run = nilometer.init(name="late", interval=0.05)
        nilometer.log({"loss": 0.0}, step=0)
        def processes():
            return nilometer.read_run(run.path).memory("processes").value.tolist()
        while not processes():
            time.sleep(0.01)
        pathlib.Path("begun").touch()
        while max(processes()) < 2:
            time.sleep(0.01)
        pathlib.Path("over").touch()
"""


def test_what_a_rank_spent_before_it_joined_is_not_the_runs(folder):
    code = textwrap.dedent(LATE_RANK)
    environment = QUIET | {"WORLD_SIZE": "2", "NILO_STRICT": "1"}
    ranks = [subprocess.Popen([sys.executable, "-c", code], env=environment | {"RANK": str(rank)}) for rank in range(2)]
    assert [rank.wait(timeout=60) for rank in ranks] == [0, 0]
    # Waiting costs a little.
    assert nilometer.read_run("late", dir=folder / ".nilo").summary()["cpu"]["total_secs"] < 1.5


# As torchrun does on one machine; here one rank after the other.
ONE_BY_ONE = """
    import os, subprocess, sys
    told = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none"}
    for attempt in range(2):
        for rank in (1, 0):
            place = {"RANK": str(rank), "TORCHELASTIC_RESTART_COUNT": str(attempt)}
            subprocess.run([sys.executable, "rank.py", str(attempt)], env=os.environ | told | place)
"""
SHORT_RANK = """
    import os, sys, nilometer
    for _ in range(2):
        with nilometer.init(name="short", memory=False) as run:
            run.log({"loss": float(os.environ["RANK"])}, step=int(sys.argv[1]))
"""


@pytest.mark.parametrize("below", [True, False])
def test_a_rank_joins_the_run_of_its_launch_after_the_others_have_left_it(folder, below):
    (folder / "rank.py").write_text(textwrap.dedent(SHORT_RANK))
    command = [sys.executable, "-c", textwrap.dedent(ONE_BY_ONE)]
    done = subprocess.run([NILO, "run", "-q", "--", *command] if below else command, env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    job = only_run(folder) / "runs" if below else folder / ".nilo"
    runs = [nilometer.read_run(path) for path in sorted(job.glob("*/"))]
    # Two of that name in each of two attempts.
    assert [run.ranks for run in runs] == [[0, 1]] * 4
    assert [run.series("loss").value.tolist() for run in runs] == [[1.0, 0.0]] * 4
    assert [run.series("loss").step.tolist() for run in runs] == [[0, 0], [0, 0], [1, 1], [1, 1]]


# A launch over two machines: neither port nor name tell it from the launch before.
OF_TWO_MACHINES = {
    "RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none",
}  # fmt: skip
LOG_AND_DIE = """
import os, nilometer
nilometer.init(name="ranks", memory=False).log({"loss": 1.0}, step=0)
os.kill(os.getpid(), 9)
"""
LOG_AND_END = """
import nilometer
nilometer.init(name="ranks", memory=False).log({"loss": 2.0}, step=0)
"""


@pytest.mark.parametrize("machine", ["this", "another"])
def test_a_killed_launch_is_not_continued_by_the_next_one_with_its_port(folder, machine):
    run_program(LOG_AND_DIE, folder, expect=-9, **OF_TWO_MACHINES)
    if machine == "another":
        (path,) = (folder / ".nilo").glob("*/run.json")
        told = json.loads(path.read_text())
        an_hour = 3600 * 10**9
        path.write_text(json.dumps(told | {"boot_id": "", "started_unix_nanos": told["started_unix_nanos"] - an_hour}))
    run_program(LOG_AND_END, folder, **OF_TWO_MACHINES)
    runs = [nilometer.read_run(path.parent) for path in sorted((folder / ".nilo").glob("*/run.json"))]
    assert [run.series("loss").value.tolist() for run in runs] == [[1.0], [2.0]]
    assert [run.summary()["status"] for run in runs] == ["lost", "exited"]


def test_a_rank_joins_the_run_that_another_machine_has_just_begun(folder):
    run_program(LOG_AND_DIE, folder, expect=-9, **OF_TWO_MACHINES)
    (path,) = (folder / ".nilo").glob("*/run.json")
    # As the other machine wrote it: the process is none of ours.
    path.write_text(json.dumps(json.loads(path.read_text()) | {"boot_id": "0f0f0f0f-0000-4000-8000-0f0f0f0f0f0f"}))
    run_program(LOG_AND_END, folder, **OF_TWO_MACHINES | {"RANK": "1"})
    run = nilometer.read_run("ranks", dir=folder / ".nilo")
    assert run.ranks == [0, 1]
    assert [run.series("loss", rank=rank).value.tolist() for rank in run.ranks] == [[1.0], [2.0]]


def test_settings_of_ranks_that_differ_are_the_first_ranks(folder):
    code = """
        import pathlib, sys, time, nilometer
        rank = nilometer._native.own_rank()[0]
        # The last rank begins the run, the first one tells its settings before the others do.
        while not pathlib.Path(f"after{rank}").exists():
            time.sleep(0.01)
        run = nilometer.init(name="ranks", memory=False, config={"seed": rank})
        print(flush=True)
        sys.stdin.read()
    """
    program = [sys.executable, "-c", textwrap.dedent(code)]
    ranks = [
        subprocess.Popen(
            program, env=QUIET | {"RANK": str(rank), "WORLD_SIZE": "3"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for rank in range(3)
    ]
    for rank in (2, 0, 1):
        (folder / f"after{rank}").touch()
        ranks[rank].stdout.readline()
    for rank in ranks:
        rank.communicate()
    run = nilometer.read_run("ranks", dir=folder / ".nilo")
    assert run.config == {"seed": 0} == run.summary()["config"]
    assert run.description["provenance"]["world_size"] == 3
    assert "rank" not in run.description["provenance"]


LIGHTNING = """
    import os, subprocess, sys, nilometer
    # As Lightning's launcher does: the first rank is the program itself and starts the others, which run the same program.
    def launch():
        if "LOCAL_RANK" not in os.environ:
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "NODE_RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
            return subprocess.Popen(sys.orig_argv, env=os.environ | {"LOCAL_RANK": "1"})
    other = launch() if sys.argv[1] == "before" else None
    first = nilometer.init(name="first", memory=False)
    other = launch() if sys.argv[1] == "after" else other
    first.log({"loss": 1.0 + int(os.environ["LOCAL_RANK"])}, step=0)
    if other is not None:
        other.wait()
    second = nilometer.init(name="second", memory=False)
"""


@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("launched", ["before", "after"])
def test_ranks_that_the_first_one_starts_share_its_run(nilo, folder, launched, below):
    command = [sys.executable, "-c", textwrap.dedent(LIGHTNING), launched]
    done = subprocess.run([NILO, "run", "-q", "--", *command] if below else command, env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    runs = nilometer.read_run("last", dir=folder / ".nilo").runs if below else map(nilometer.RecordedRun, sorted((folder / ".nilo").glob("2*")))
    names = [run.description["name"] for run in runs]
    # The ranks are not in their second run at the same time here.
    assert names.count("first") == 1 and set(names) == {"first", "second"}
    run = nilometer.read_run("first", dir=folder / ".nilo")
    assert sorted(run.series("loss").value.tolist()) == [1.0, 2.0]
    assert run.series("loss", rank=1).value.tolist() == [2.0]


def test_each_asyncio_task_has_its_run(folder):
    async def train(number):
        run = nilometer.init(name=f"task{number}", memory=False)
        for step in range(5):
            run.log({"loss": 100 * number + step}, step=step)
            await asyncio.sleep(0)
            nilometer.log({"global": 100 * number + step}, step=step)
            await asyncio.create_task(log_inside(number))
        if number == 0:
            run.finish()

    async def log_inside(number):
        nilometer.log({"inside": number})

    async def main():
        nilometer.init(name="before", memory=False).log({"loss": 0.0})
        await asyncio.gather(*(train(number) for number in range(3)))
        # The run of a task that is over makes way, as does the one that this task began.
        return nilometer.init(name="after", memory=False)

    after = asyncio.run(main())
    nilometer.log({"loss": 1.0})
    assert after.dropped == 0
    after.finish()
    for number in range(3):
        run = nilometer.read_run(f"task{number}")
        for name in ("loss", "global"):
            assert run.series(name).value.tolist() == [100 * number + step for step in range(5)]
        assert run.series("inside").value.tolist() == [number] * 5
    assert nilometer.read_run("after").series("loss").value.tolist() == [1.0]
    told = [json.loads(path.read_text())["ending"] for path in (folder / ".nilo").glob("*/run.json")]
    assert len(told) == 5 and all(ending["exit_code"] == 0 for ending in told)
    assert "NILO_RUN_DIR" not in os.environ


def test_each_thread_has_its_run(folder):
    main = nilometer.init(name="main", memory=False)
    began = threading.Barrier(3)

    def train(number):
        run = nilometer.init(name=f"thread{number}", memory=False)
        began.wait()
        for step in range(20):
            run.log({"loss": 100 * number + step}, step=step)
            nilometer.log({"global": 100 * number + step}, step=step)
        if number == 0:
            run.finish()
        ended.wait()

    ended = threading.Event()
    threads = [threading.Thread(target=train, args=(number,)) for number in range(3)]
    [thread.start() for thread in threads]
    ended.set()
    [thread.join() for thread in threads]
    nilometer.log({"after": 1.0})
    assert not main.finished and os.environ["NILO_RUN_DIR"] != str(main.path)
    main.finish()
    for number in range(3):
        run = nilometer.read_run(f"thread{number}")
        for name in ("loss", "global"):
            assert run.series(name).value.tolist() == [100 * number + step for step in range(20)]
    assert nilometer.read_run("main").metrics == ["after"]
    # Their threads are gone: the next run takes the place of theirs.
    nilometer.init(name="next", memory=False).finish()
    told = [json.loads(path.read_text())["ending"] for path in (folder / ".nilo").glob("*/run.json")]
    assert len(told) == 5 and all(ending["exit_code"] == 0 for ending in told)
    assert "NILO_RUN_DIR" not in os.environ


def test_settings_keep_their_types_and_their_length(folder):
    @dataclasses.dataclass
    class Settings:
        layers: int = 3
        path: object = pathlib.Path("/data")
        text: str = "x" * 50_000

    @dataclasses.dataclass
    class Outer:
        inner: Settings = dataclasses.field(default_factory=Settings)
        space: object = dataclasses.field(default_factory=lambda: argparse.Namespace(x=types.SimpleNamespace(y=2)))

    values = {"lr": 1e-4, "on": True, "none": None, "list": [1, "a", 2.5], "scalar": numpy.float32(0.5), "half": "a\udc80b"}
    with nilometer.init(memory=False, config=values) as run:
        run.config(Settings(), nested={"a": {"b": 2**40}}, bad=float("nan"), big=10**30)
        run.config(outer=Outer(), spaces=[argparse.Namespace(x=1)], simple=types.SimpleNamespace(y=Settings()), kind=Settings, device=numpy.dtype("f4"))
    config = nilometer.read_run(run.path).config
    assert config["outer/inner/layers"] == 3 and config["outer/space/x/y"] == 2 and config["simple/y/layers"] == 3
    assert config["spaces"] == [{"x": 1}] and "Settings" in config["kind"] and config["device"] == "float32"
    assert config["lr"] == 1e-4 and config["on"] is True and config["none"] is None
    assert config["list"] == [1, "a", 2.5] and config["scalar"] == 0.5 and config["nested/a/b"] == 2**40
    assert config["layers"] == 3 and config["path"] == "/data" and len(config["text"]) == 50_000
    assert math.isnan(config["bad"]) and config["big"] == 10**30 and config["half"] == r"a\udc80b"


def test_settings_that_json_has_no_number_for_come_back_as_they_were(nilo, folder):
    values = {
        "nan": float("nan"), "up": math.inf, "down": numpy.float32("-inf"), "big": 2**64, "negative": -(2**63) - 1, "huge": 7**9000,
        "list": [math.inf, 2**70, {"x": -math.inf}], "text": "NaN", "unlike": {"$number": 3}, "word": [{"$number": "many"}],
    }  # fmt: skip
    with nilometer.init(name="numbers", memory=False, config=values):
        pass
    config = nilometer.read_run("numbers", dir=".nilo").config
    assert math.isnan(config["nan"]) and config["up"] == math.inf and config["down"] == -math.inf
    assert config["big"] == 2**64 and config["negative"] == -(2**63) - 1 and config["huge"] == 7**9000
    assert config["list"] == [math.inf, 2**70, {"x": -math.inf}]
    assert config["text"] == "NaN" and config["unlike/$number"] == 3 and config["word"] == [{"$number": "many"}]
    shown = nilo("show", "--all").stdout
    assert "  nan = NaN\n" in shown and "  big = 18446744073709551616\n" in shown, shown
    assert '  text = "NaN"\n' in shown


class Picky(collections.abc.Mapping):
    """As OmegaConf's: a value that is missing raises where it is asked for."""

    def __iter__(self):
        return iter(["lr", "data", "sizes"])

    def __len__(self):
        return 3

    def __getitem__(self, key):
        if key == "data":
            raise LookupError("data is missing")
        return 0.5 if key == "lr" else collections.UserList([1, 2])


class Closed:
    __slots__ = ()


def test_settings_that_raise_when_they_are_asked_for_cost_only_themselves(folder, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    with nilometer.init(memory=False, config=Picky()) as run:
        run.config(inner=Picky(), items=[Picky()], text="x")
        with pytest.warns(NilometerWarning, match="config must be a dictionary"):
            run.config(Closed())
    config = nilometer.read_run(run.path).config
    assert (config["lr"], config["data"], config["sizes"]) == (0.5, "<without a value: LookupError>", [1, 2])
    assert config["inner/lr"] == 0.5 and config["items"][0]["sizes"] == [1, 2] and config["text"] == "x"


def test_a_run_within_its_with_block_stays_open_while_others_come_and_go(folder, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "1")
    with nilometer.init(name="sweep", memory=False) as sweep:
        for rate in (0.1, 0.2):
            with nilometer.init(name=f"rate-{rate}", memory=False) as run:
                nilometer.log({"loss": rate}, step=0)
                assert os.environ["NILO_RUN_DIR"] == str(run.path)
            # What is logged between them is the outer one's, as what processes log that are started here.
            nilometer.log({"best": rate})
            assert os.environ["NILO_RUN_DIR"] == str(sweep.path)
        third = nilometer.init(name="plain", memory=False)
        sweep.log({"best": 0.3})
    assert third.finished is False and nilometer.current_run() is third
    nilometer.finish()
    found = {name: nilometer.read_run(name, dir=".nilo") for name in ("sweep", "rate-0.1", "rate-0.2", "plain")}
    assert found["sweep"].series("best").value.tolist() == [0.1, 0.2, 0.3]
    assert found["rate-0.2"].series("loss").value.tolist() == [0.2]
    assert {run.summary()["exit_code"] for run in found.values()} == {0}
    assert "NILO_RUN_DIR" not in os.environ


def test_a_run_says_what_it_is_made_of(folder):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *words], cwd=folder, check=True, capture_output=True)

    def told():
        run_program("import numpy, nilometer; nilometer.init(memory=False)", folder)
        newest = sorted((folder / ".nilo").glob("2*"))[-1]
        return json.loads((newest / "run.json").read_text())["provenance"]

    assert "git" not in told()
    git("init", "-q", "-b", "trunk")
    (folder / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "one")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True).stdout.strip()
    clean = told()
    assert clean["git"] == {"commit": head, "branch": "trunk", "dirty": False}
    (folder / "file").write_text("two")
    assert told()["git"]["dirty"] is True
    assert clean["python"] == sys.version.split()[0] and clean["user"]
    assert {"nilometer", "numpy"} <= set(clean["packages"])


def test_a_run_that_is_resumed_while_it_runs_is_told_of(nilo, folder):
    job = nilometer.init(name="job", memory=False)
    run_program("import nilometer; nilometer.init(name='exp')", folder, NILO_RUN_DIR=str(job.path))
    job.finish()
    # Newer than the one inside the job.
    first = nilometer.init(name="exp", memory=False)
    code = "import nilometer; print(nilometer.init(name='exp', memory=False, resume=True).resumes)"
    done = run_program(code, folder)
    assert done.stdout.split() == [first.id]
    assert done.stderr.count(f"NilometerWarning: resume: {first.id} is still running\n") == 1
    first.finish()


def test_a_resumed_run_names_the_one_before(nilo, folder):
    with nilometer.init(name="exp", memory=False) as first:
        first.log({"loss": 1.0}, step=0)
    with nilometer.init(name="exp", memory=False, resume=True) as second:
        second.log({"loss": 0.5}, step=1)
    assert second.path != first.path
    assert nilo.show(second.id)["resumes"] == first.id
    shown = nilo("show", second.id).stdout
    assert f"Resumed From:         {first.id}\n" in shown
    assert f"  earlier steps are in {first.id}; `nilo plot -x step` draws them too\n" in shown
    assert [listed["resumes"] for listed in nilo.runs()] == [None, first.id]
    listed = nilo("runs").stdout.splitlines()
    assert "RESUMED FROM" in listed[0] and first.id in listed[2].partition(second.id)[2]
    compared = nilo("compare", first.id, second.id).stdout
    assert f"{second.id} was resumed from {first.id}, which has its earlier steps\n" in compared
    assert json.loads(nilo("compare", first.id, second.id, "--format", "json").stdout)["runs"][1]["resumes"] == first.id
    with pytest.raises(FileNotFoundError):
        nilometer.init(resume="never-was")
    with pytest.raises(ValueError, match="name"):
        nilometer.init(resume=True)


def test_a_job_whose_only_run_is_resumed_says_so(nilo, folder):
    code = "import nilometer; nilometer.init(name='exp', resume='last').log({'loss': 0.5}, step=1)"
    with nilometer.init(name="exp", memory=False) as first:
        first.log({"loss": 1.0}, step=0)
    assert nilo("run", "-q", "--", sys.executable, "-c", code.replace("'last'", repr(first.id))).returncode == 0
    assert nilo.show()["resumes"] == first.id
    assert nilo("runs").stdout.count("RESUMED FROM") == 1
    # The job and the run in it.
    assert sum(first.id in line for line in nilo("runs").stdout.splitlines()[2:]) == 2


def test_a_resumed_run_is_drawn_with_the_one_before_over_steps(nilo, folder):
    for name, steps in [("exp", range(40)), ("exp", range(30, 60)), ("exp", range(55, 100))]:
        with nilometer.init(name=name, memory=False, resume=steps[0] > 0) as run:
            for step in steps:
                run.log({"loss": 1000 - step if step < 30 else step}, step=step)
    assert nilo("plot", "exp", "-x", "step", "-o", "chain.svg").returncode == 0
    drawn = (folder / "chain.svg").read_text()
    # The smallest loss is at step 30, the largest at step 0.
    assert "last 99, min 30, max 1000" in drawn
    labels = re.findall(r">(\d+)</text>", drawn)
    assert "0" in labels and "20" in labels
    assert nilo("plot", "exp", "-o", "alone.svg").returncode == 0
    assert "last 99, min 55, max 99" in (folder / "alone.svg").read_text()
