"""The build backend: maturin, with the command `nilo`, its manual pages and its completions added to the wheel.

maturin alone ships either an extension module or a program; `pip install .` gives both.
`make dist` (scripts/dist.py) builds the command with another linker, for older systems than the one that builds.
"""

import gzip
import io
import os
import pathlib
import shutil
import subprocess
import tarfile
import tempfile

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


def build_command() -> None:
    """Builds `nilo` for this machine and adds it to the wheel."""
    subprocess.run(["cargo", "build", "--release", "--locked", "-p", "nilo-cli"], cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    add_command(target / "release" / "nilo")


def add_command(nilo: pathlib.Path) -> None:
    """Lays the command, with its manual pages and completions, where maturin looks for them."""
    shutil.rmtree(DATA, ignore_errors=True)
    scripts, share = DATA / "scripts", DATA / "data" / "share"
    scripts.mkdir(parents=True)
    shutil.copy2(nilo, scripts / "nilo")
    subprocess.run([nilo, "man", "--output", share / "man" / "man1"], check=True)
    for shell, path in COMPLETIONS.items():
        completion = subprocess.run([nilo, "completions", shell], check=True, capture_output=True)
        (share / path).parent.mkdir(parents=True)
        (share / path).write_bytes(completion.stdout)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    build_command()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    build_command()
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
