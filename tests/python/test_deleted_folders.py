"""The folder of a run is deleted while it is recorded: it is said so once, and the job goes on."""

import json
import pathlib

import pytest
from package import run_program

GONE = "error: the run's folder was deleted while it was being recorded, and the recording is lost: "


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_job_that_deletes_its_runs_keeps_its_status_and_is_told(nilo, quiet):
    job = ["bash", "-c", "rm -rf .nilo; exit 3"]
    result = nilo("run", *quiet, "--json", "out.json", "--", *job)
    assert result.returncode == 3
    assert result.stderr.count(GONE) == 1 and "\nhint: where a job deletes that folder" in result.stderr, result.stderr
    assert "No such file" not in result.stderr
    assert not (nilo.folder / "out.json").exists()


def test_a_deleted_folder_is_told_without_a_summary_too(nilo):
    result = nilo("run", "--quiet", "--", "rm", "-rf", ".nilo")
    assert result.returncode == 0 and GONE in result.stderr, result.stderr


def test_an_earlier_summary_is_kept_where_there_is_no_new_one(nilo):
    (nilo.folder / "out.json").write_text("{}")
    assert nilo("run", "--quiet", "--json", "out.json", "--", "rm", "-rf", ".nilo").returncode == 0
    assert (nilo.folder / "out.json").read_text() == "{}"


def test_commands_that_run_a_job_say_so_as_well(nilo):
    result = nilo("optimize", "--", "bash", "-c", "rm -rf .nilo; exit 4")
    assert result.returncode == 4 and GONE in result.stderr, result.stderr


DELETED = """
    import shutil, nilometer
    run = nilometer.init(memory=False)
    run.log({"loss": 1.0})
    shutil.rmtree(run.path)
    for step in range(%d):
        run.log({"loss": 1.0})
    run.mark("late")
    %s
"""


@pytest.mark.parametrize("rows", [10, 3000])
@pytest.mark.parametrize("end", ["run.finish()", ""])
def test_python_is_told_once_that_its_run_was_deleted(tmp_path, rows, end):
    """A few rows still find room in the file that has no name any more, many do not: the cause is named in both cases."""
    said = run_program(DELETED % (rows, end), tmp_path, NILO_STRICT="").stderr
    assert said.count("NilometerWarning") == 1, said
    assert "the folder of the run was deleted, and what it recorded is lost" in said
    assert "No such file" not in said and "counted in the run" not in said


def test_a_deleted_run_raises_in_strict_mode_and_is_over(tmp_path):
    program = """
        import shutil, nilometer
        run = nilometer.init(memory=False)
        run.log({"loss": 1.0})
        shutil.rmtree(run.path)
        try:
            run.finish()
        except nilometer.NilometerError as error:
            print(error)
        print(run.finished)
        nilometer.init(memory=False).finish()
    """
    told = run_program(program, tmp_path).stdout.splitlines()
    assert told[0].startswith("the folder of the run was deleted") and told[1:] == ["True"]


@pytest.mark.parametrize("look", ["run.finish()", "log_until_told()"])
def test_calls_that_are_lost_with_the_folder_are_counted_once_each(tmp_path, look):
    """Told while the program goes on, long before the file that has no name any more is full; and at the end of one that is over before that."""
    program = f"""
        import shutil, time, warnings, nilometer
        run = nilometer.init(memory=False)
        run.log({{"loss": 1.0}})
        shutil.rmtree(run.path)
        calls = 1
        def log():
            global calls
            run.log({{"loss": 1.0}})
            calls += 1
        def log_until_told():
            until = time.monotonic() + 60
            while not run.dropped and time.monotonic() < until:
                log()
                time.sleep(0.01)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(9):
                log()
            {look}
        assert ["the folder of the run was deleted" in str(one.message) for one in said] == [True], said
        assert run.dropped == calls, (run.dropped, calls)
        run.finish()
        log()
        assert run.dropped == calls, (run.dropped, calls)
    """
    run_program(program, tmp_path, NILO_STRICT="")


def test_a_deleted_run_keeps_no_other_from_its_end(tmp_path):
    program = """
        import shutil, threading, nilometer
        run = nilometer.init(name="one", memory=False)
        run.log({"loss": 1.0})
        def other():
            nilometer.init(name="two", memory=False).log({"loss": 1.0})
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        shutil.rmtree(run.path)
    """
    ended = run_program(program, tmp_path)
    assert ended.stderr.count("nilometer: the run could not be finished: the folder of the run was deleted") == 1, ended.stderr
    endings = [json.loads(path.read_text())["ending"] for path in (tmp_path / ".nilo").rglob("run.json")]
    assert [ending["exit_code"] for ending in endings] == [0]
