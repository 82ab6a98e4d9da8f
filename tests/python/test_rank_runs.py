"""The ranks of a launch share one run: who joins it, who does not, and how it ended."""

import json
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import MIB, NILO
from package import QUIET, only_run, run_program

import nilometer


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
    codes = [ranks[1].wait()]
    ranks[0].terminate()
    codes.insert(0, ranks[0].wait())
    print(*codes)
    sys.exit(1)
"""


@pytest.mark.parametrize("first", ["0", "1"])
@pytest.mark.parametrize("below", [True, False])
def test_the_rank_that_fails_first_is_how_the_run_ended(nilo, folder, first, below):
    (folder / "rank.py").write_text(textwrap.dedent(FAILING_RANK))
    (folder / "launch.py").write_text(textwrap.dedent(LAUNCHER))
    command = [sys.executable, "launch.py", first]
    done = subprocess.run([NILO, "run", "-q", "--", *command] if below else command, env=QUIET | {"NILO_STRICT": "1"}, stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (1, "-15 9\n")
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


# The rank that began the run loses its connection to the one that failed.
RAISING_RANK = """
    import os, pathlib, sys, time, nilometer
    rank = os.environ["RANK"]
    def wait_for(path):
        while not pathlib.Path(path).exists():
            time.sleep(0.02)
    if rank == "1":
        wait_for("begun-0")
    run = nilometer.init(name="ranks")
    pathlib.Path(f"begun-{rank}").touch()
    wait_for("begun-1")
    if rank == "1":
        raise RuntimeError("the reason")
    wait_for("gone-1")
    raise ConnectionError("closed by peer")
"""
LAUNCHER_OF_RAISING = """
    import os, pathlib, subprocess, sys
    ranks = [subprocess.Popen([sys.executable, "rank.py"], env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"}) for rank in range(2)]
    ranks[1].wait()
    pathlib.Path("gone-1").touch()
    ranks[0].wait()
    sys.exit(1)
"""


@pytest.mark.parametrize("below", [True, False])
def test_the_exception_of_the_rank_that_fails_first_is_the_reason(nilo, folder, below):
    (folder / "rank.py").write_text(textwrap.dedent(RAISING_RANK))
    (folder / "launch.py").write_text(textwrap.dedent(LAUNCHER_OF_RAISING))
    command = [sys.executable, "launch.py"]
    done = subprocess.run([NILO, "run", "-q", "--", *command] if below else command, env=QUIET, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    told = nilo.show("ranks")
    assert told["failed_rank"]["rank"] == 1
    assert (told["exception"]["type_name"], told["exception"]["message"]) == ("RuntimeError", "the reason")
    assert re.search(r"Exception: +RuntimeError: the reason", nilo("show", "ranks").stdout)


SILENT_RANK = """
    import os, pathlib, signal, sys, time, nilometer
    rank, first, silent, how = nilometer._native.own_rank()[0], *sys.argv[1:]

    def wait_for(name):
        while not pathlib.Path(name).exists():
            time.sleep(0.01)

    if str(rank) != first:
        wait_for(f"begun-{first}")
    run = nilometer.init(name="ranks")
    run.log({"loss": float(rank)}, step=0)
    pathlib.Path(f"begun-{rank}").touch()
    wait_for("begun-0"), wait_for("begun-1")
    if how == "exits":
        os._exit(0)
    if str(rank) == silent:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(100)
"""
# As torchrun does: one rank that is gone ends the others.
SILENT_LAUNCHER = """
    import os, subprocess, sys
    def start(rank):
        return subprocess.Popen([sys.executable, "rank.py", *sys.argv[1:]], env=os.environ | {"RANK": str(rank), "WORLD_SIZE": "2"})
    ranks = [start(0), start(1)]
    silent = int(sys.argv[2])
    ranks[silent].wait()
    # A rank that is about to exit by itself is not stopped on its way.
    if sys.argv[3] != "exits":
        ranks[1 - silent].terminate()
    ranks[1 - silent].wait()
    sys.exit(1)
"""


@pytest.mark.parametrize("silent", ["0", "1"])
@pytest.mark.parametrize("first", ["0", "1"])
@pytest.mark.parametrize("below", [True, False])
def test_a_rank_that_ends_without_a_word_is_named_and_no_signal_invented(nilo, folder, first, silent, below):
    (folder / "rank.py").write_text(textwrap.dedent(SILENT_RANK))
    (folder / "launch.py").write_text(textwrap.dedent(SILENT_LAUNCHER))
    command = [sys.executable, "launch.py", first, silent, "killed"]
    done = subprocess.run([NILO, "run", "-q", "--", *command] if below else command, env=QUIET)
    assert done.returncode == 1
    told = nilometer.read_run("ranks", dir=folder / ".nilo").summary()
    assert (told["status"], told["exit_code"], told["signal"]) == ("lost", None, None)
    assert told["lost_rank"]["rank"] == int(silent) and "failed_rank" not in told
    assert 0 < told["lost_rank"]["time_nanos"] / 1e9 <= told["duration_secs"]
    shown = nilo("show", "ranks").stdout
    assert re.search(rf"First Failure: +rank {silent} exited without reporting a status after .*; the others were then stopped by SIGTERM", shown), shown
    assert re.search("How It Ended: +unknown: a rank exited without reporting a status \\(probably killed\\)", shown), shown
    assert "SIGKILL" not in shown
    if below:
        job = nilo.show()
        assert (job["exit_code"], job["lost_rank"]["rank"]) == (1, int(silent))


def test_an_ending_whose_exit_code_nobody_knows_is_not_called_an_exit(nilo, folder):
    (folder / "rank.py").write_text(textwrap.dedent(SILENT_RANK))
    (folder / "launch.py").write_text(textwrap.dedent(SILENT_LAUNCHER))
    command = [sys.executable, "launch.py", "0", "0", "exits"]
    # Often enough to see ranks that live for some milliseconds.
    done = subprocess.run([NILO, "run", "-q", "--interval", "0.005", "--name", "job", "--", *command], env=QUIET)
    assert done.returncode == 1
    assert "First Failure" not in nilo("show", "ranks").stdout
    told = nilo.show("ranks")
    assert (told["status"], told["exit_code"]) == ("ended", None)
    listed = [line for line in nilo("runs").stdout.splitlines() if "ranks" in line]
    assert [("ended" in line.split(), "exited" in line.split()) for line in listed] == [(True, False)], listed
    assert nilo("plot", "ranks", "-o", "x.svg").returncode == 0
    assert "exited" not in (folder / "x.svg").read_text()


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
