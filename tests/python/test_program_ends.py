"""A program that records itself: how its run ends, what comes after, and what its settings say."""

import copy
import json
import pickle
import subprocess
import sys
import warnings

import pytest
from package import QUIET, only_run, run_program

import nilometer


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("NILO_RUN_DIR", "NILO_DIR", "NILO_INTERVAL"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    nilometer.finish()


def ending(folder):
    return json.loads((only_run(folder) / "run.json").read_text())["ending"]


@pytest.mark.parametrize(
    ("last_line", "status"),
    [
        ("sys.exit(3)", 3),
        ("raise SystemExit(300)", 300 & 0xFF),
        ("sys.exit('in words')", 1),
        ("sys.exit()", 0),
        ("pass", 0),
        ("1 / 0", 1),
        ("try:\n    sys.exit(5)\nexcept SystemExit:\n    pass", 0),
    ],
)
@pytest.mark.parametrize("memory", [True, False])
def test_the_exit_status_is_the_programs_own(tmp_path, last_line, status, memory):
    code = f"import sys, nilometer\nnilometer.init(memory={memory})\nnilometer.log({{'loss': 1.0}})\n{last_line}"
    run_program(code, tmp_path, expect=status)
    found = ending(tmp_path)
    assert (found["status"], found["exit_code"]) == ("exited", status)
    assert nilometer.RecordedRun(only_run(tmp_path)).series("loss").value.tolist() == [1.0]


def test_a_forked_child_that_exits_does_not_end_the_run(tmp_path):
    code = """
import os, sys, nilometer
nilometer.log({"loss": 1.0})
if os.fork() == 0:
    sys.exit(7)
os.wait()
nilometer.log({"loss": 2.0})
sys.exit(2)
"""
    run_program(code, tmp_path, expect=2)
    assert ending(tmp_path)["exit_code"] == 2


CHILD = """
import multiprocessing, sys, threading, time, nilometer

def train(ending):
    run = nilometer.init(name="child", memory=False)
    run.log({"loss": 1.0}, step=0)
    if ending == "raises":
        1 / 0
    elif ending == "exits":
        sys.exit(3)
    elif ending == "thread":
        def late():
            # The target has returned by now, and the program waits for this thread.
            while threading.main_thread().is_alive() and not multiprocessing.util._exiting:
                time.sleep(0.01)
            run.log({"loss": 2.0}, step=1)
        threading.Thread(target=late).start()

if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=train, args=(sys.argv[2],))
    process.start()
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize(
    ("last", "status"), [("returns", 0), ("raises", 1), ("exits", 3), ("thread", 0)]
)
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_training_in_a_child_of_multiprocessing_ends_as_the_child_does(tmp_path, method, last, status):
    # A file, because the child imports it.
    (tmp_path / "program.py").write_text(CHILD)
    said = subprocess.run(
        [sys.executable, "program.py", method, last], cwd=tmp_path, env=QUIET | {"NILO_STRICT": "1"}, capture_output=True, text=True
    )
    assert said.stdout.split() == [str(status)]
    found = ending(tmp_path)
    assert (found["status"], found["exit_code"]) == ("exited", status)
    run = nilometer.RecordedRun(only_run(tmp_path))
    assert run.series("loss").value.tolist() == ([1.0, 2.0] if last == "thread" else [1.0])
    exceptions = run.summary().get("exceptions", [])
    assert [told["type_name"] for told in exceptions] == (["ZeroDivisionError"] if last == "raises" else [])


def test_trainings_in_a_process_pool_end_with_their_worker(tmp_path):
    code = """
import concurrent.futures, multiprocessing, nilometer

def train(number):
    nilometer.init(name=f"run{number}", memory=False).log({"loss": number}, step=0)

with concurrent.futures.ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
    list(pool.map(train, range(4)))
"""
    run_program(code, tmp_path)
    told = [json.loads(path.read_text()) for path in (tmp_path / ".nilo").glob("*/run.json")]
    assert sorted(run["name"] for run in told) == ["run0", "run1", "run2", "run3"]
    assert [run["ending"]["exit_code"] for run in told] == [0] * 4


POOL = """
import multiprocessing, pathlib, sys, threading, time, nilometer

def train(number):
    run = nilometer.init(name=f"run{number}", memory="memory" in sys.argv)
    run.log({"loss": number}, step=0)
    if number == 0:
        run.finish()
    if number == 2:
        # An idle worker may end by itself before the signal comes.
        pathlib.Path("ready").touch()
        threading.Event().wait()

if __name__ == "__main__":
    outer = nilometer.init(name="outer", memory=False) if "inside" in sys.argv else None
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        pool.map_async(train, range(3), chunksize=1)
        until = time.monotonic() + 60
        while not pathlib.Path("ready").exists() and time.monotonic() < until:
            time.sleep(0.01)
    if outer is not None:
        outer.finish()
"""


@pytest.mark.parametrize("more", [[], ["memory"], ["inside"]])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_worker_that_pool_ends_by_sigterm_leaves_its_run_killed(tmp_path, method, more):
    (tmp_path / "pool.py").write_text(POOL)
    subprocess.run([sys.executable, "pool.py", method, *more], check=True, timeout=60)
    found = {}
    for path in (tmp_path / ".nilo").glob("**/run.json"):
        run = nilometer.read_run(path.parent)
        if run.metrics:
            summary = run.summary()
            found[run.description["name"]] = (summary["status"], summary.get("exit_code"), summary.get("signal"))
            assert run.series("loss").value.tolist() == [float(run.description["name"][-1])]
    # The first ended by itself, the second with the next `init()`, the last with the pool.
    assert found == {"run0": ("exited", 0, None), "run1": ("exited", 0, None), "run2": ("killed", None, 15)}


def test_sigterm_ends_a_child_of_multiprocessing_as_without_us(tmp_path):
    code = """
import multiprocessing, os, signal, sys, nilometer

def child(handles, ready):
    if handles:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    nilometer.init(memory=False)
    assert (signal.getsignal(signal.SIGTERM) is signal.SIG_DFL) is not handles
    ready.set()
    while True:  # in short waits, as in `WAIT_FOR_A_SIGNAL`
        multiprocessing.Event().wait(0.05)

for handles in (False, True):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=child, args=(handles, ready))
    process.start()
    assert ready.wait(60)
    process.terminate()
    process.join()
    print(process.exitcode)
"""
    assert run_program(code, tmp_path).stdout.split() == ["-15", "7"]
    runs = sorted((tmp_path / ".nilo").glob("*/run.json"))
    ends = [nilometer.read_run(path.parent).summary() for path in runs]
    assert [(end["status"], end.get("exit_code"), end.get("signal")) for end in ends] == [("killed", None, 15), ("exited", 7, None)]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("nilometer.finish()", 0),
        ("run.finish()", 0),
        ("try:\n    1 / 0\nfinally:\n    run.finish()", 1),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    nilometer.finish()", 1),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    nilometer.finish(0)", 0),
        ("run.finish(4)", 4),
    ],
)
def test_a_run_that_is_finished_has_an_exit_code(tmp_path, code, status):
    run = nilometer.init(memory=False)
    try:
        exec(code, {"nilometer": nilometer, "run": run})
    except ZeroDivisionError:
        pass
    found = ending(tmp_path)
    assert (found["status"], found["exit_code"]) == ("exited", status)


def test_what_is_logged_after_the_end_goes_into_a_further_run_of_the_same_name(tmp_path):
    code = """
import nilometer
nilometer.init(name="baseline", dir="here", memory=False)
for value in range(3):
    nilometer.log({"loss": value})
    nilometer.finish()
"""
    said = run_program(code, tmp_path, NILO_STRICT="").stderr
    assert said.count("the run is finished: logging after finish() starts a new run of the same name") == 1
    assert "<string>:5: NilometerWarning" in said
    runs = [nilometer.RecordedRun(path.parent) for path in sorted((tmp_path / "here").glob("*/run.json"))]
    assert [run.description["name"] for run in runs] == ["baseline"] * 3
    assert [run.series("loss").value.tolist() for run in runs] == [[0.0], [1.0], [2.0]]


def test_to_ask_for_the_current_run_after_its_end_begins_no_other(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with nilometer.init(name="only", dir=tmp_path / "here", memory=False) as run:
            nilometer.log({"loss": 1.0})
        assert nilometer.current_run() is run and nilometer.current_run().finished
    assert len(list((tmp_path / "here").glob("*/run.json"))) == 1


def test_a_run_that_is_asked_for_after_another_is_no_surprise():
    nilometer.init(name="one", memory=False).finish()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = nilometer.init(name="two", memory=False)
        nilometer.log({"loss": 1.0})
    assert nilometer.RecordedRun(run.path).description["name"] == "two"


def interval_of(run):
    return nilometer.RecordedRun(run.path).description["interval_nanos"] / 1e9


def test_the_sampling_interval_comes_from_the_environment_or_the_project(tmp_path, monkeypatch):
    (tmp_path / "nilo.toml").write_text('interval = "20ms"\n')
    assert interval_of(nilometer.init()) == 0.02
    monkeypatch.setenv("NILO_INTERVAL", "0.5")
    assert interval_of(nilometer.init()) == 0.5
    assert interval_of(nilometer.init(interval=0.25)) == 0.25
    monkeypatch.delenv("NILO_INTERVAL")
    (tmp_path / "nilo.toml").write_text("interval = 1\n")
    assert interval_of(nilometer.init()) == 1.0


@pytest.mark.parametrize("text", ["soon", "-1", "0", "2h"])
def test_an_interval_that_cannot_work_is_said_and_the_usual_one_taken(monkeypatch, text):
    monkeypatch.setenv("NILO_STRICT", "0")
    monkeypatch.setenv("NILO_INTERVAL", text)
    with pytest.warns(nilometer.NilometerWarning, match=f"cannot use NILO_INTERVAL={text}: "):
        run = nilometer.init()
    assert interval_of(run) == 0.1


def test_many_series_are_those_that_are_read_one_by_one():
    run = nilometer.init(memory=False)
    for step in range(50):
        run.log({"a": step, "b": -step}, step=step)
        if step % 2:
            run.log({"b": 0.5, "only/odd": step}, step=step)
    run.finish()
    recorded = nilometer.read_run(run.path)
    many = recorded.series_many()
    assert list(many) == recorded.metrics == ["a", "b", "only/odd"]
    for name, series in many.items():
        for found, wanted in zip(series, recorded.series(name), strict=True):
            assert found.tolist() == wanted.tolist(), name
    assert list(recorded.series_many(["b", "a"])) == ["b", "a"]
    assert recorded.series_many([]) == {}
    with pytest.raises(KeyError, match="nonsense"):
        recorded.series_many(["a", "nonsense"])


@pytest.mark.parametrize(
    "make",
    [
        nilometer.MetricTracker,
        nilometer.GRPOMetricsTracker,
        nilometer.ScoreDistributionTracker,
        nilometer.TrainingTimer,
        nilometer.ThroughputTracker,
        nilometer.ComprehensiveProfiler,
        lambda: nilometer.init(memory=False),
    ],
)
@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_what_belongs_to_one_process_says_so_when_it_is_pickled(make, copied):
    made = make()
    with pytest.raises(TypeError, match=f"^{type(made).__name__} cannot be pickled.*make one in each process"):
        copied(made)


def test_a_program_that_sigterm_ends_leaves_its_run_killed(tmp_path):
    """It is seen as before by its parent, its own handlers, its forks and the processes that it starts."""
    code = """
import os, signal, subprocess, sys, nilometer
nilometer.init(name="ends").log({"a": 1.0})
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
for child in ("fork", "subprocess"):
    if child == "subprocess":
        process = subprocess.Popen([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"])
        assert process.wait() == -signal.SIGTERM
        continue
    pid = os.fork()
    if pid == 0:
        os.kill(os.getpid(), signal.SIGTERM)
        os._exit(3)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
assert nilometer.read_run(nilometer.current_run().path).summary()["status"] == "running"
if sys.argv[1] == "handles":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
os.kill(os.getpid(), signal.SIGTERM)
"""
    ends = []
    for argument, status in (("dies", -15), ("handles", 7)):
        folder = tmp_path / argument
        folder.mkdir()
        run_program(code, folder, argument, expect=status)
        ends.append(nilometer.read_run(only_run(folder)).summary())
    assert [(end["status"], end.get("exit_code"), end.get("signal")) for end in ends] == [("killed", None, 15), ("exited", 7, None)]
