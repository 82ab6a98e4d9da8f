"""What the tests on a GPU share."""

import os
import pathlib
import sys

import pytest
import torch

if not torch.cuda.is_available():
    # Run by hand, for a GPU: without one there is nothing to pass.
    pytest.exit("there is no GPU to test on", returncode=1)

os.environ.setdefault("NILO_STRICT", "1")
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import nilometer  # noqa: E402


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Each test has its own folder of runs, and leaves no run open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    # A run that another test finished is not one that this test logs on after.
    monkeypatch.setattr(nilometer._open_runs, "_last_finished", None)
    yield
    nilometer.finish()


@pytest.fixture
def recorded():
    """Ends the current run and reads it back."""

    def read():
        path = nilometer.current_run().path
        nilometer.finish()
        return nilometer.read_run(path)

    return read
