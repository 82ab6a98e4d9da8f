"""A real kernel: the run is named after its notebook, and an error in an earlier cell is not how it ended."""

import json
import subprocess
import sys

import nbformat
import pytest
from conftest import subprocess_environment
from nbclient import NotebookClient

import nilometer


def execute(folder, monkeypatch, cells, runs=1):
    for key, value in subprocess_environment(NILO_DIR=str(folder / "runs")).items():
        monkeypatch.setenv(key, value)
    # Jupyter's server tells its kernels so.
    monkeypatch.setenv("JPY_SESSION_NAME", str(folder / "explore.ipynb"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    found = [path for path in (folder / "runs").iterdir() if path.is_dir()]
    assert len(found) == runs
    return nilometer.read_run(found[0])


def test_a_notebooks_run_has_its_name_and_not_an_old_cells_error(tmp_path, monkeypatch):
    run = execute(
        tmp_path,
        monkeypatch,
        [
            "import nilometer; nilometer.log({'loss': 1.0}, step=0)",
            "1 / 0",
            "nilometer.log({'loss': 0.5}, step=1)",
            "nilometer.finish()",
        ],
    )
    assert run.path.name.endswith("-explore")
    assert run.description["name"] == "explore"
    assert nilometer.read_run("explore", dir=tmp_path / "runs").path == run.path
    assert run.description["command"] == [str(tmp_path / "explore.ipynb")]
    told = run.summary()
    assert told["status"] == "exited" and told["exit_code"] == 0 and not told.get("exception"), json.dumps(told, indent=1)[:2000]
    # It is there as what it was.
    (raised,) = told["exceptions"]
    assert (raised["type_name"], raised["cell"]) == ("ZeroDivisionError", 2)
    assert run.series("loss").value.tolist() == [1.0, 0.5]


BEGIN = "import nilometer; nilometer.log({'loss': 1.0}, step=0)"


@pytest.mark.parametrize("last, type_name", [("1 / 0", "ZeroDivisionError"), ("1 +* 2", "SyntaxError")])
def test_an_error_in_the_last_cell_is_how_a_notebook_ended(tmp_path, monkeypatch, last, type_name):
    run = execute(tmp_path, monkeypatch, [BEGIN, "[][0]", "pass", last])
    told = run.summary()
    assert (told["exceptions"][0]["raised_at"]["file"], told["exceptions"][0]["raised_at"]["line"]) == ("Cell In[2]", 1)
    assert (told["status"], told["exit_code"], told["exception"]["type_name"]) == ("exited", 1, type_name)
    assert [(raised["type_name"], raised.get("cell")) for raised in told["exceptions"]] == [("IndexError", 2), (type_name, None)]


@pytest.mark.parametrize("last", ["pass", "raise KeyboardInterrupt"])
def test_a_kernel_that_is_shut_down_later_ends_its_run_without_an_error(tmp_path, monkeypatch, last):
    run = execute(tmp_path, monkeypatch, [BEGIN, "1 / 0", last])
    told = run.summary()
    assert not told.get("exception") and (told["status"], told["exit_code"]) == ("exited", 0)
    assert [raised["cell"] for raised in told["exceptions"]] == [2]


def execute_file(folder, *command, cells=(BEGIN,), exit_code=0):
    """By a program of its own, as `jupyter execute` does; nobody tells the kernel."""
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(notebook, folder / "train model.ipynb")
    environment = subprocess_environment(NILO_DIR=str(folder / "runs"))
    environment.pop("JPY_SESSION_NAME", None)
    ended = subprocess.run([*command], cwd=folder, env=environment, timeout=120, capture_output=True, text=True)
    assert ended.returncode == exit_code, ended.stderr
    (found,) = (path for path in (folder / "runs").iterdir() if path.is_dir())
    return nilometer.read_run(found)


# `jupyter execute` is this module.
BY_COMMAND = [sys.executable, "-c", "from nbclient.cli import main; main()", "train model.ipynb"]


def test_a_notebook_that_a_command_executes_has_the_name_of_its_file(tmp_path):
    run = execute_file(tmp_path, *BY_COMMAND)
    assert run.description["name"] == "train model"
    assert run.description["command"] == ["train model.ipynb"]
    assert run.summary()["exit_code"] == 0


BY_A_PROGRAM = """
import glob, nbformat
from nbclient import NotebookClient
NotebookClient(nbformat.read(glob.glob("*.ipynb")[0], as_version=4), timeout=120).execute()
"""


def test_a_notebook_of_which_nobody_says_the_file_has_a_plain_name(tmp_path):
    run = execute_file(tmp_path, sys.executable, "-c", BY_A_PROGRAM)
    assert run.description["name"] == "notebook"


@pytest.mark.parametrize("begin", ["import nilometer; nilometer.init()", "import nilometer"])
def test_a_job_and_the_run_inside_it_agree_on_the_cell_that_failed(tmp_path, begin):
    # Also where the notebook has no run of its own.
    job = execute_file(
        tmp_path, sys.executable, "-m", "nilometer", "run", "--", *BY_COMMAND, cells=[begin, "[][0]"], exit_code=1
    )
    assert len(job.runs) == ("init" in begin)
    told = [job.summary(), *(run.summary() for run in job.runs)]
    assert [summary["exit_code"] for summary in told] == [1] * len(told)
    assert told[-1]["exception"]["type_name"] == "IndexError" and len(told[-1]["exceptions"]) == 1


def test_the_cell_that_begins_a_run_and_those_that_are_interrupted(tmp_path, monkeypatch):
    cells = [
        "raise RuntimeError('before')",
        "import nilometer; nilometer.log({'loss': 1.0}, step=0); raise ValueError('first')",
        "raise KeyboardInterrupt",
        "with nilometer.init(name='second') as run: raise TypeError('ends its run')",
    ]
    execute(tmp_path, monkeypatch, cells, runs=2)
    first, second = (nilometer.read_run(path).summary() for path in sorted((tmp_path / "runs").glob("*/")))
    assert [(raised["type_name"], raised["cell"]) for raised in first["exceptions"]] == [("ValueError", 2)]
    assert (second["exit_code"], second["exception"]["type_name"]) == (1, "TypeError")
    assert len(second["exceptions"]) == 1 and "cell" not in second["exception"]
