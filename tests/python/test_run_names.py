"""A run is found by its name, and what began without a name swallows no run that has one."""

import json
import os
import shutil

import pytest
from package import run_program

import nilometer


def names(nilo):
    return [run["name"] for run in nilo.runs()]


def test_a_name_with_a_slash_is_found_by_everything(nilo, folder):
    with nilometer.init(name="sweep/lr0.1", memory=False) as first:
        first.log({"loss": 1.0}, step=0)
    assert nilometer.read_run("sweep/lr0.1").path.name == first.id
    # A folder of the same path, as programs put their results in, is no run.
    (folder / "sweep/lr0.1").mkdir(parents=True)
    assert nilometer.read_run("sweep/lr0.1").path.name == first.id
    with nilometer.init(name="sweep/lr0.1", memory=False, resume=True) as second:
        second.log({"loss": 0.5}, step=1)
    assert second.resumes == first.id
    assert nilo.show("sweep/lr0.1")["run"] == second.id
    assert nilo("plot", "sweep/lr0.1", "-o", "chart.svg").returncode == 0
    assert nilo("rm", second.id).returncode == 0
    assert nilo("rm", "sweep/lr0.1").returncode == 0
    assert nilo.runs() == []
    with pytest.raises(FileNotFoundError, match="no such run: sweep/lr0.2"):
        nilometer.read_run("sweep/lr0.2")


def test_a_name_that_is_not_utf8_is_found_as_it_was_typed(nilo, folder):
    odd = "bad\udcff\udcfe"
    with nilometer.init(name=odd, memory=False) as run:
        run.log({"loss": 1.0})
    assert nilo.show(odd)["run"] == run.id
    assert nilo("export", odd, "-o", "out.csv").returncode == 0
    missing = nilo("show", "no\udcff")
    assert missing.returncode == 2 and "no run is called" in missing.stderr and "hint:" in missing.stderr
    assert nilo("rm", odd).returncode == 0


FIRST = {
    "log": "nilometer.log({'warmup': 1.0})",
    "timer": "with nilometer.profiling.TrainingTimer().phase('warmup'): pass",
    "tracker": "nilometer.metrics.MetricTracker().update('warmup', 1.0)",
}


@pytest.mark.parametrize("first", FIRST)
def test_what_was_logged_before_without_init_swallows_no_logger(nilo, folder, first):
    program = f"""
        import nilometer, nilometer.metrics, nilometer.profiling
        {FIRST[first]}
        for number in (1, 2):
            logger = nilometer.metrics.TrainingLogger("logs", f"exp{{number}}")
            logger.log_step(0, {{"loss": float(number)}})
            print(logger.run.path)
        nilometer.log({{"after": 1.0}})
    """
    paths = run_program(program, folder).stdout.split()
    runs = nilo.runs()
    assert [run["name"] for run in runs] == [None, "exp1", "exp2"]
    assert [run.get("parent") for run in runs] == [None] * 3
    for number, path in enumerate(paths, 1):
        run = nilometer.read_run(path)
        assert run.description["name"] == f"exp{number}"
        assert run.series("loss").value.tolist() == [number]
    # The first logger's run is the program's from there on.
    assert nilometer.read_run(paths[0]).series("after").value.tolist() == [1.0]
    warmup = nilometer.read_run(runs[0]["run"])
    assert json.dumps(warmup.metrics + warmup.phases).count("warmup") == 1


def test_an_empty_text_resumes_nothing(folder):
    nilometer.init(memory=False).finish()
    run = nilometer.init(name="next", resume="", memory=False)
    run.finish()
    assert run.resumes is None and "resumes" not in nilometer.read_run(run.path).description
    with pytest.raises(ValueError, match="give a name"):
        nilometer.init(name="", resume=True, memory=False)


@pytest.mark.parametrize("name", ["last", "last~2"])
def test_a_name_that_means_another_run_is_refused(nilo, folder, name):
    result = nilo("run", "--name", name, "--", "touch", "ran")
    assert result.returncode == 2 and "already means a run counted from the newest; choose another name" in result.stderr
    with pytest.raises(ValueError, match="already means a run counted from the newest; choose another name"):
        nilometer.init(name=name, memory=False)
    watched = nilo("watch", "--pid", str(os.getpid()), "--run-name", name, "--duration", "0.2")
    assert watched.returncode == 2 and "already means a run" in watched.stderr, watched.stderr
    assert not (folder / "ran").exists() and not (folder / ".nilo").exists()
    nilometer.init(name="last-run", memory=False).finish()
    assert names(nilo) == ["last-run"]


def test_a_copied_run_is_read_by_its_path_alone(folder):
    run = nilometer.init(name="train", memory=False)
    run.log({"loss": 1.0})
    run.finish()
    copy = run.path.parent / "copy"
    shutil.copytree(run.path, copy)
    for asked in (run.path.name, "train", "last"):
        with pytest.raises(ValueError, match="2 folders hold the run") as refused:
            nilometer.read_run(asked)
        assert ".nilo/copy" in str(refused.value) and "by its path" in str(refused.value)
    assert nilometer.read_run(copy).path == copy
