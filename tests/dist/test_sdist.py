"""The sdist, as somebody with Rust and without a wheel gets it: `pip install` builds the command and the package."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is tested is that everything is there and lands in its place; built quickly rather than to be quick.
UNOPTIMISED = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
}


def test_pip_builds_the_command_and_the_package_from_the_sdist(tmp_path):
    (sdist,) = (ROOT / "dist").glob("nilometer-*.tar.gz")
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = [environment / "bin/pip", "install", "--quiet", "--disable-pip-version-check", sdist]
    subprocess.run(install, check=True, env=os.environ | UNOPTIMISED | {"TMPDIR": str(tmp_path)})
    subprocess.run([environment / "bin/nilo", "run", "--", "true"], check=True, cwd=tmp_path)
    program = "import nilometer; run = nilometer.init('a'); run.log({'loss': 1.5}); run.finish()"
    subprocess.run([environment / "bin/python", "-c", program], check=True, cwd=tmp_path)
    assert ".TH nilo-run 1" in (environment / "share/man/man1/nilo-run.1").read_text()
    assert "#compdef nilo" in (environment / "share/zsh/site-functions/_nilo").read_text()
