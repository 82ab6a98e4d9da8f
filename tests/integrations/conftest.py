"""What the tests of integrations share: real frameworks with tiny models on one CPU thread, trouble that raises, and runs read back."""

import os
import pathlib
import sys

# Before any framework is imported: no network, no progress bars, one backend.
os.environ |= {
    "NILO_STRICT": "1",
    "KERAS_BACKEND": "torch",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRL_EXPERIMENTAL_SILENCE": "1",
}

import pytest  # noqa: E402
import torch  # noqa: E402

import nilometer  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
torch.set_num_threads(1)


def subprocess_environment(**more):
    """For programs that a test starts: the same package, and no run to join."""
    kept = {key: value for key, value in os.environ.items() if key != "NILO_RUN_DIR"}
    package = pathlib.Path(nilometer.__file__).resolve().parents[1]
    paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)} | more


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Each test has its own folder of runs, and leaves no run open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NILO_DIR", str(tmp_path / "runs"))
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    torch.manual_seed(7)
    # A run that another test finished is not one that this test logs on after.
    monkeypatch.setattr(nilometer._open_runs, "_last_finished", None)
    yield tmp_path
    nilometer.finish()


@pytest.fixture
def recorded():
    """Ends the current run and reads it back."""

    def read():
        path = nilometer.current_run().path
        nilometer.finish()
        return nilometer.read_run(path)

    return read


@pytest.fixture
def without():
    """Imports a module in a Python that lacks some packages, and gives what it says."""
    import subprocess

    def run(module, *packages):
        hide = "".join(f"sys.modules[{package!r}] = None; " for package in packages)
        code = f"import sys; {hide}import {module}"
        environment = subprocess_environment()
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)

    return run


def paused_secs(run):
    """How long the clock of the throughput stood still between the first and the last step."""
    clock = run.throughput("counted_nanos")
    return (clock.seconds[-1] - clock.seconds[0]) - (clock.value[-1] - clock.value[0]) / 1e9
