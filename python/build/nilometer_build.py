"""The build backend: maturin, with the command `nilo` built first and put into the wheel as a script.

maturin alone ships either an extension module or a program; `pip install .` gives both.
"""

import os
import pathlib
import shutil
import subprocess

import maturin
from maturin import (  # noqa: F401  (hooks that pip asks for)
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "target" / "nilometer.data" / "scripts"
# maturin does not even tell the package's name without it.
SCRIPTS.mkdir(parents=True, exist_ok=True)


def build_command() -> None:
    """Builds `nilo` and lays it where maturin looks for scripts."""
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "nilo-cli"], cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    shutil.copy2(target / "release" / "nilo", SCRIPTS / "nilo")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build_command()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    build_command()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
