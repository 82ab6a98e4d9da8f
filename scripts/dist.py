"""Builds what is published, into dist/: an sdist, and a wheel for every Linux with glibc 2.17 or newer (manylinux2014).

zig stands in for the linker and the C compiler: it knows the symbols of old glibc versions, so that no old system is needed.
Run by `make dist`, with the requirements of scripts/dist-requirements.txt installed.
"""

import os
import pathlib
import platform
import subprocess
import sys

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
    nilometer_build.build_sdist(dist)
    target = f"{platform.machine()}-unknown-linux-gnu"
    options = ["--release", "--locked", "--zig", "--quiet", "--target", target, "--compatibility", COMPATIBILITY]
    # A wheel of the command alone, for the sake of the program in it: built like this, both share what they depend on.
    command = ["maturin", "build", *options, "--bindings", "bin", "--out", str(ROOT / "target" / "command")]
    subprocess.run(command, cwd=ROOT / "crates" / "nilo-cli", check=True)
    nilometer_build.add_command(ROOT / "target" / target / "release" / "nilo")
    subprocess.run(["maturin", "build", *options, "--out", str(dist)], check=True)
    for made in sorted(dist.iterdir()):
        print(f"{made.stat().st_size / 1e6:6.1f} MB  {made.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
