"""Experiments stay apart: each training is a run of its own, linked to its job; nothing that was logged is hidden."""

import asyncio
import csv
import io
import json
import os
import subprocess
import sys
import textwrap
import threading

import pytest
from conftest import MIB
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
        # Without init() a worker adds to the run of its parent; another program does not.
        process = multiprocessing.get_context("spawn").Process(target=nilometer.log, args=({"from_worker": 3.0},), kwargs={"step": 0})
        process.start()
        process.join()
        with open("evaluate.py", "w") as file:
            file.write("import nilometer; nilometer.log({'loss': 3.0}, step=0)")
        subprocess.run([sys.executable, "evaluate.py"], check=True)
        parent.log({"loss": 6.0}, step=1)
"""


def test_children_that_begin_a_run_have_their_own(nilo, folder):
    (folder / "program.py").write_text(textwrap.dedent(CHILDREN))
    done = subprocess.run([sys.executable, "program.py"], env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parent = only_run(folder)
    assert sorted(inside(nilo)) == ["evaluate", "fork", "program", "spawn"]
    recorded = nilometer.read_run(parent)
    assert recorded.series("loss").value.tolist() == [5.0, 6.0]
    assert recorded.series("from_worker").value.tolist() == [3.0]
    assert nilometer.read_run("evaluate", dir=folder / ".nilo").series("loss").value.tolist() == [3.0]
    assert nilometer.read_run("spawn", dir=folder / ".nilo").series("loss").value.tolist() == [1.0]
    assert [run.description["name"] for run in recorded.runs] == ["fork", "spawn", "program", "evaluate"]


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


def test_a_logger_goes_on_when_the_program_begins_a_run(folder):
    logger = TrainingLogger("logs", "exp")
    logger.log_step(0, {"loss": 1.0})
    with nilometer.init(name="other", memory=False) as run:
        logger.log_step(1, {"loss": 2.0})
        run.log({"loss": 9.0}, step=0)
        nilometer.log({"loss": 8.0}, step=1)
    logger.log_step(2, {"loss": 3.0})
    assert logger.export_all()["raw_metrics"]["loss"] == [1.0, 2.0, 3.0]
    assert nilometer.read_run(run.path).series("loss").value.tolist() == [9.0, 8.0]
    logger.run.finish(0)


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
