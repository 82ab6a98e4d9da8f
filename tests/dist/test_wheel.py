"""What `make dist` built, as a user gets it: a clean environment, no Rust, an older system."""

import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OLDEST_GLIBC = (2, 17)


@pytest.fixture(scope="session")
def wheel():
    (path,) = (ROOT / "dist").glob("nilometer-*.whl")
    return path


@pytest.fixture(scope="session")
def environment(wheel, tmp_path_factory):
    """The programs of a fresh virtual environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel]
    subprocess.run(install, check=True, env=without_rust(folder))
    return folder


def without_rust(folder):
    return {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8"}


def run(environment, folder, *command):
    return subprocess.run(
        command, cwd=folder, env=without_rust(environment), capture_output=True, text=True, check=False, timeout=120
    )


def test_the_installed_command_records_and_shows_a_run(environment, tmp_path):
    recorded = run(environment, tmp_path, "nilo", "run", "--", "true")
    assert recorded.returncode == 0, recorded.stderr
    shown = run(environment, tmp_path, "nilo", "show")
    assert "exited with 0" in shown.stdout, shown


def test_the_installed_package_logs_and_is_the_command(environment, tmp_path):
    program = "import nilometer; run = nilometer.init('a'); run.log({'loss': 1.5}); run.finish()"
    logged = run(environment, tmp_path, "python", "-c", program)
    assert logged.returncode == 0, logged.stderr
    shown = run(environment, tmp_path, "python", "-m", "nilometer", "show")
    assert "loss" in shown.stdout, shown


def test_manual_pages_and_completions_are_installed(environment):
    share = environment / "share"
    assert ".TH nilo-run 1" in (share / "man/man1/nilo-run.1").read_text()
    assert "#compdef nilo" in (share / "zsh/site-functions/_nilo").read_text()
    assert "complete" in (share / "fish/vendor_completions.d/nilo.fish").read_text()
    load = f"source {share}/bash-completion/completions/nilo && complete -p nilo"
    assert "nilo" in subprocess.run(["bash", "-c", load], check=True, capture_output=True, text=True).stdout


def test_the_wheel_runs_with_an_old_glibc(wheel, tmp_path):
    assert "-cp310-abi3-" in wheel.name and f".manylinux_2_17_{os.uname().machine}." in wheel.name
    zipfile.ZipFile(wheel).extractall(tmp_path)
    programs = [*tmp_path.glob("nilometer/_native*.so"), *tmp_path.glob("nilometer-*.data/scripts/nilo")]
    assert len(programs) == 2
    for program in programs:
        symbols = subprocess.run(["objdump", "-T", program], check=True, capture_output=True, text=True).stdout
        needed = {tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_([0-9.]+)", symbols)}
        assert needed and max(needed) <= OLDEST_GLIBC, (program.name, max(needed))
