"""The build backend: maturin, with the command `nilo`, its manual pages and its completions added to the wheel.

maturin alone ships either an extension module or a program; `pip install .` gives both.
What pip passes on to maturin (`--config-settings build-args=…`) is what both are built with.
"""

import gzip
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zipfile

import maturin
from maturin import (  # noqa: F401  (hooks that pip asks for)
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What maturin copies into the wheel: scripts/ to the folder of programs, data/ to the environment's root.
DATA = ROOT / "target" / "nilometer.data"
# maturin does not even tell the package's name without it.
DATA.mkdir(parents=True, exist_ok=True)

COMPLETIONS = {
    "bash": "bash-completion/completions/nilo",
    "zsh": "zsh/site-functions/_nilo",
    "fish": "fish/vendor_completions.d/nilo.fish",
}


def add_command(config_settings) -> None:
    """Builds `nilo` and lays it, with its manual pages and completions, where maturin looks for them."""
    shutil.rmtree(DATA, ignore_errors=True)
    scripts, share = DATA / "scripts", DATA / "data" / "share"
    scripts.mkdir(parents=True)
    nilo = scripts / "nilo"
    nilo.write_bytes(built_command(maturin.get_maturin_pep517_args(config_settings)))
    nilo.chmod(0o755)
    subprocess.run([nilo, "man", "--output", share / "man" / "man1"], check=True)
    for shell, path in COMPLETIONS.items():
        completion = subprocess.run([nilo, "completions", shell], check=True, capture_output=True)
        (share / path).parent.mkdir(parents=True)
        (share / path).write_bytes(completion.stdout)


def built_command(options: list[str]) -> bytes:
    """The program `nilo`: maturin packs it into a wheel of its own, whatever target and linker it was told to take."""
    with tempfile.TemporaryDirectory() as folder:
        # As maturin builds the extension module for pip.
        profile = [] if any(option.startswith("--profile") for option in options) else ["--release"]
        build = ["maturin", "build", "--bindings", "bin", "--locked", "--out", folder, *profile, *options]
        subprocess.run(build, cwd=ROOT / "crates" / "nilo-cli", check=True)
        (wheel,) = pathlib.Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            (program,) = (name for name in packed.namelist() if name.endswith("/scripts/nilo"))
            return packed.read(program)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    add_command(config_settings)
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    add_command(config_settings)
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """Packs the whole project: maturin would leave out the command, which is no dependency of the extension module."""
    with tempfile.TemporaryDirectory() as folder:
        information = maturin.prepare_metadata_for_build_wheel(folder, config_settings)
        metadata = (pathlib.Path(folder) / information / "METADATA").read_bytes()
    # nilometer-0.1.0.dist-info
    name = information.removesuffix(".dist-info")
    archive = pathlib.Path(sdist_directory) / f"{name}.tar.gz"
    # Neither names nor times of this machine, so that the same sources give the same bytes.
    when = int(os.environ.get("SOURCE_DATE_EPOCH", "946684800"))
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", fileobj=file, mtime=when) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in source_files():
            entry = tarfile.TarInfo(f"{name}/{path}")
            content = (ROOT / path).read_bytes()
            entry.mode = 0o755 if os.access(ROOT / path, os.X_OK) else 0o644
            entry.size, entry.mtime = len(content), when
            tar.addfile(entry, io.BytesIO(content))
        entry = tarfile.TarInfo(f"{name}/PKG-INFO")
        entry.size, entry.mtime = len(metadata), when
        tar.addfile(entry, io.BytesIO(metadata))
    return archive.name


def source_files() -> list[str]:
    """Every file of the project, relative to its root."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        paths = listed.stdout.decode().split("\0")
    else:
        # An unpacked sdist has nothing else.
        paths = [str(path.relative_to(ROOT)) for path in ROOT.rglob("*")]
        paths = [path for path in paths if path.partition("/")[0] not in ("target", "PKG-INFO")]
    return sorted(path for path in paths if (ROOT / path).is_file() and not (ROOT / path).is_symlink())
