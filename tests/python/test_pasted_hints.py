"""A command that a hint names works when it is pasted, wherever the run lies."""

import os
import re
import subprocess

import pytest
from conftest import NILO, python

PLACES = {
    "usual": ([], {}),
    "named": (["--dir", "my runs/of today"], {}),
    "variable": ([], {"NILO_DIR": "by-variable"}),
}
READERS = {
    "oom": ["last"],
    "leak": ["last"],
    "compare": ["last", "last"],
    "plot": ["last", "-o", "picture.svg"],
    "export": ["last", "-o", "out.csv"],
    "request": ["last"],
    "optimize": [],
    "runs": [],
}


@pytest.fixture(params=PLACES)
def damaged(request, nilo):
    """A damaged run, the options with which it is found, and the variables."""
    options, variables = PLACES[request.param]
    code = "import time; x = bytearray(30 << 20); time.sleep(.3)"
    nilo("run", "--quiet", "--interval", "0.01", *options, "--", *python(code), extra_env=variables)
    folder = nilo.folder / (options[1] if options else variables.get("NILO_DIR", ".nilo"))
    (run,) = [path for path in folder.iterdir() if path.is_dir()]
    (stream,) = run.glob("recorder-*.nilo")
    stream.write_bytes(stream.read_bytes()[: stream.stat().st_size // 2])
    return run, options, variables


def paste(nilo, command, variables):
    """What a shell in the same folder makes of it."""
    path = os.path.dirname(NILO) + os.pathsep + nilo.environment["PATH"]
    environment = nilo.environment | variables | {"PATH": path}
    return subprocess.run(["sh", "-c", command], cwd=nilo.folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", READERS)
def test_the_hint_about_a_damaged_run(nilo, damaged, command):
    run, options, variables = damaged
    told = nilo(command, *READERS[command], *options, extra_env=variables)
    (hint,) = set(re.findall(r"warning: 1 run is damaged, and its figures may be incomplete: (.*)", told.stderr))
    assert hint.startswith("nilo verify ") and ("--dir" in hint) == bool(options)
    pasted = paste(nilo, hint, variables)
    assert pasted.returncode == 1 and run.name in pasted.stdout, (hint, pasted)


def test_the_hint_about_several_damaged_runs(nilo, damaged):
    run, options, variables = damaged
    second = run.with_name(run.name[:-1] + "z")
    subprocess.run(["cp", "-r", run, second], check=True)
    description = second / "run.json"
    description.write_text(description.read_text().replace(run.name, second.name))
    told = nilo("runs", *options, extra_env=variables)
    (hint,) = re.findall(r"figures may be incomplete: (.*)", told.stderr)
    pasted = paste(nilo, hint, variables)
    assert pasted.returncode == 1 and second.name in pasted.stdout, (hint, pasted)


def test_a_copy_of_a_damaged_run(nilo, damaged):
    run, options, variables = damaged
    copy = run.with_name("copy of " + run.name)
    subprocess.run(["cp", "-r", run, copy], check=True)
    for path in (run, copy):
        told = nilo("leak", path, extra_env=variables)
        (hint,) = re.findall(r"figures may be incomplete: (.*)", told.stderr)
        pasted = paste(nilo, hint, variables)
        assert pasted.returncode == 1 and f"/{path.name}:" in pasted.stdout, (hint, pasted)


def test_a_run_that_is_named_by_its_path(nilo, damaged):
    run, _, variables = damaged
    told = nilo("leak", run, extra_env=variables)
    (hint,) = re.findall(r"figures may be incomplete: (.*)", told.stderr)
    pasted = paste(nilo, hint, variables)
    assert pasted.returncode == 1 and run.name in pasted.stdout, (hint, pasted)
