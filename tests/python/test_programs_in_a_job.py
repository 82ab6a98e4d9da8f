"""Programs of one job that log without init(): the first adds to the job, a further one has a run of its own, and workers and ranks belong to their program."""

import sys
import textwrap

import pytest

import nilometer

LOGS = """
    import sys, nilometer
    for step in range(5):
        nilometer.log({"loss": float(sys.argv[1])}, step=step)
"""
TRACKS = """
    import sys
    from nilometer.metrics import MetricTracker
    tracker = MetricTracker()
    for step in range(5):
        tracker.update("loss", float(sys.argv[1]), step=step)
"""
BEGINS = """
    import sys, nilometer
    with nilometer.init(name="begun") as run:
        for step in range(5):
            run.log({"loss": float(sys.argv[1])}, step=step)
"""


@pytest.fixture
def job(nilo, folder):
    """Runs a shell line under `nilo run`; `PROGRAM 1` in it is a Python program with its argument."""

    def run(line, **programs):
        for name, code in programs.items():
            (folder / f"{name}.py").write_text(textwrap.dedent(code))
            line = line.replace(f"{name} ", f"{sys.executable} {name}.py ")
        done = nilo("run", "--quiet", "--name", "sweep", "--", "bash", "-c", line + "\ntrue", extra_env={"NILO_STRICT": "1"})
        assert done.returncode == 0 and not done.stderr, done.stderr
        return nilometer.read_run("sweep")

    return run


def losses(recorded):
    """The values of the job itself, and those of each run inside it."""
    runs = [recorded, *recorded.runs]
    return [run.series("loss").value.tolist() if "loss" in run.metrics else [] for run in runs]


@pytest.mark.parametrize("code", [LOGS, TRACKS], ids=["log", "tracker"])
def test_two_programs_that_log_without_init_are_not_merged(nilo, job, code):
    recorded = job("train 1; train 2", train=code)
    assert losses(recorded) == [[1.0] * 5, [2.0] * 5]
    (inner,) = recorded.runs
    assert inner.description["name"] == "train" and inner.description["parent"] == recorded.path.name
    # Every view tells them apart.
    assert [(metric["count"], metric["mean"], metric["processes"]) for metric in nilo.show("sweep")["metrics"]] == [(5, 1.0, 1)]
    assert [(metric["count"], metric["mean"], metric["processes"]) for metric in nilo.show("train")["metrics"]] == [(5, 2.0, 1)]
    assert [(run["name"], run["parent"]) for run in nilo.runs()] == [("sweep", None), ("train", recorded.path.name)]
    assert "Runs inside:" in nilo("show", "sweep").stdout
    assert nilo("compare", "sweep", "train").returncode == 0
    assert nilo("verify", "sweep").returncode == 0


def test_programs_that_start_at_the_same_moment_have_each_their_run(job):
    recorded = job("for seed in 1 2 3 4 5 6; do train $seed & done; wait", train=LOGS)
    own, *inner = losses(recorded)
    assert sorted([own, *inner]) == [[float(seed)] * 5 for seed in range(1, 7)]


def test_a_single_program_adds_to_the_job(nilo, job):
    recorded = job("train 1", train=LOGS)
    assert losses(recorded) == [[1.0] * 5] and not recorded.runs
    assert [run["name"] for run in nilo.runs()] == ["sweep"]
    assert "program" not in nilo("verify", "sweep").stdout


@pytest.mark.parametrize("line", ["logs 1; begins 2", "begins 2; logs 1"])
def test_a_program_with_init_is_not_shown_as_one_with_a_program_without(nilo, job, line):
    recorded = job(line, logs=LOGS, begins=BEGINS)
    assert [loss for loss in sorted(losses(recorded)) if loss] == [[1.0] * 5, [2.0] * 5]
    assert [metric["mean"] for metric in nilo.show("begun")["metrics"]] == [2.0]
    assert all(metric["processes"] == 1 for metric in nilo.show("sweep")["metrics"])


def test_what_a_program_logs_before_init_is_the_jobs_and_not_its_runs(nilo, folder):
    (folder / "train.py").write_text(
        textwrap.dedent("""
            import nilometer
            for step in range(5):
                nilometer.log({"loss": 1.0}, step=step)
            run = nilometer.init(name="only", config={"lr": 1}, tags={"seed": "1"})
            for step in range(7):
                nilometer.log({"loss": 2.0}, step=step)
            run.finish()
        """)
    )
    assert nilo("run", "--quiet", "--", sys.executable, "train.py").returncode == 0
    job, only = nilo.runs()
    assert (job["name"], only["name"], only["parent"]) == (None, "only", job["run"])
    told = nilo.show(job["run"])
    assert [(metric["count"], metric["mean"], metric["processes"]) for metric in told["metrics"]] == [(5, 1.0, 1)]
    assert not told.get("tags") and not told.get("config")
    assert "Runs inside:" in nilo("show", job["run"]).stdout
    told = nilo.show("only")
    assert [(metric["count"], metric["mean"]) for metric in told["metrics"]] == [(7, 2.0)]
    assert told["tags"] == {"seed": "1"} and told["config"] == {"lr": 1}


def test_a_program_that_logs_in_its_only_run_alone_is_one_with_its_job(nilo, folder):
    (folder / "train.py").write_text(textwrap.dedent(BEGINS))
    assert nilo("run", "--quiet", "--", sys.executable, "train.py", "2").returncode == 0
    job = nilo.runs()[0]
    assert job["name"] == "begun"
    assert [metric["mean"] for metric in nilo.show(job["run"])["metrics"]] == [2.0]


WORKERS = """
    import multiprocessing, os, sys

    def work(number):
        import nilometer
        nilometer.log({"loss": float(sys.argv[1])}, step=number)

    if __name__ == "__main__":
        for method in ("fork", "spawn", "forkserver"):
            workers = [multiprocessing.get_context(method).Process(target=work, args=(number,)) for number in range(2)]
            [worker.start() for worker in workers]
            [worker.join() for worker in workers]
        # Without multiprocessing.
        if os.fork() == 0:
            work(9)
            sys.exit()
        os.wait()
        work(10)
"""


def test_workers_belong_to_their_program_also_where_that_did_not_log_before(job):
    recorded = job("work 1; work 2", work=WORKERS)
    assert losses(recorded) == [[1.0] * 8, [2.0] * 8]


def test_a_program_that_another_starts_has_a_run_of_its_own(job):
    starts = """
        import subprocess, sys, nilometer
        nilometer.log({"loss": 1.0}, step=0)
        subprocess.run([sys.executable, "train.py", "2"], check=True)
        nilometer.log({"loss": 1.0}, step=1)
    """
    assert losses(job("starts ", starts=starts, train=LOGS)) == [[1.0] * 2, [2.0] * 5]


RANKS = "for rank in 0 1; do RANK=$rank WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 TORCHELASTIC_RUN_ID={0} train {0} & done; wait\n"


def test_the_ranks_of_a_launch_are_one_program(job):
    recorded = job(RANKS.format(1) + RANKS.format(2), train=LOGS)
    assert losses(recorded) == [[1.0] * 10, [2.0] * 10]
    assert [run.ranks for run in (recorded, *recorded.runs)] == [[0, 1], [0, 1]]


def test_what_is_measured_beside_a_second_program_does_not_merge_its_metrics(job):
    measures = """
        import sys, nilometer
        from nilometer.run import joined_run
        assert joined_run() is joined_run() is not None
        nilometer.log({"loss": float(sys.argv[1])}, step=0)
    """
    assert losses(job("train 1; train 2", train=measures)) == [[1.0], [2.0]]


def test_a_job_inside_a_program_with_a_run_is_its_own(nilo, folder):
    (folder / "train.py").write_text(textwrap.dedent(LOGS))
    program = """
        import subprocess, sys, nilometer
        with nilometer.init(name="outer", memory=False):
            subprocess.run([sys.argv[1], "run", "--quiet", "--name", "inner", "--", sys.executable, "train.py", "3"], check=True)
    """
    from conftest import NILO
    from package import run_program

    run_program(program, folder, NILO)
    inner = nilometer.read_run("inner")
    assert losses(inner) == [[3.0] * 5] and not inner.runs
