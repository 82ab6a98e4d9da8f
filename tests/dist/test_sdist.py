"""The sdist, as somebody without a wheel gets it. `make dist` builds the wheel from it, so that what is left to test is what pip does before."""

import json
import pathlib
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
(SDIST,) = (ROOT / "dist").glob("nilometer-*.tar.gz")


def test_the_sdist_has_the_sources_of_both_halves_and_nothing_built():
    with tarfile.open(SDIST) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"PKG-INFO", "Cargo.lock", "pyproject.toml", "python/build/nilometer_build.py"} <= names
    assert {"crates/nilo-cli/src/main.rs", "crates/nilo-py/src/lib.rs", "python/nilometer/__init__.py"} <= names
    assert not [name for name in names if name.split("/")[0] in ("target", "dist", ".git", ".venv", ".nilo")]


def test_pip_finds_what_the_build_needs(tmp_path):
    """In an environment of its own, with what the sdist asks for: up to the point where Rust is compiled."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    report = tmp_path / "report.json"
    install = [tmp_path / "environment/bin/pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--dry-run", "--report", report, SDIST], check=True)
    (found,) = json.loads(report.read_text())["install"]
    assert f"nilometer-{found['metadata']['version']}.tar.gz" == SDIST.name
