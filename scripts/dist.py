"""Builds what is published, into dist/: an sdist, and from it a wheel for every Linux with glibc 2.17 or newer (manylinux2014).

The wheel is built by pip from the sdist and from nothing else, as it is wherever no wheel fits.
zig stands in for the linker and the C compiler: it knows the symbols of old glibc versions, so that no old system is needed.
Run by `make dist`, with the requirements of scripts/dist-requirements.txt installed.
"""

import os
import pathlib
import platform
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python" / "build"))

import nilometer_build  # noqa: E402  (lies in the folder above)

# glibc 2.17.
COMPATIBILITY = "manylinux2014"


def main() -> None:
    dist = ROOT / "dist"
    dist.mkdir(exist_ok=True)
    for old in [*dist.glob("nilometer-*.whl"), *dist.glob("nilometer-*.tar.gz")]:
        old.unlink()
    os.chdir(ROOT)
    # The programs of this environment: maturin and zig.
    os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    sdist = dist / nilometer_build.build_sdist(dist)
    sources = unpack(sdist, ROOT / "target" / "sdist")
    target = f"{platform.machine()}-unknown-linux-gnu"
    options = f"--zig --quiet --target {target} --compatibility {COMPATIBILITY}"
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    build = [*pip, "--config-settings", f"build-args={options}", "--wheel-dir", dist, sources]
    subprocess.run(build, check=True, env=os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target" / "dist")})
    for made in sorted(dist.iterdir()):
        print(f"{made.stat().st_size / 1e6:6.1f} MB  {made.relative_to(ROOT)}")


def unpack(sdist: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The folder of the sources. Files that are as they were keep their time, and are not compiled again."""
    unpacked = set()
    with tarfile.open(sdist) as archive:
        for member in archive:
            path = folder / member.name
            content = archive.extractfile(member).read()
            if not path.is_file() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            path.chmod(member.mode)
            unpacked.add(path)
    sources = folder / sdist.name.removesuffix(".tar.gz")
    for path in [path for path in sources.rglob("*") if path.is_file() and path not in unpacked]:
        path.unlink()
    return sources


if __name__ == "__main__":
    main()
