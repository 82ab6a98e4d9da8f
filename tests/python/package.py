"""Programs that use the package, run as real processes."""

import os
import subprocess
import sys
import textwrap

QUIET = {key: value for key, value in os.environ.items() if not key.startswith("NILO_")}
STARTED = []


def start_program(code, folder, *arguments, **environment):
    """A Python program with the installed package, in a folder of its own, strict unless told otherwise."""
    environment.setdefault("NILO_STRICT", "1")
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        cwd=folder,
        env=QUIET | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    STARTED.append(process)
    return process


def end_programs():
    """Ends what a test that failed has left."""
    while STARTED:
        process = STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.wait()


def run_program(code, folder, *arguments, expect=0, timeout=120, **environment):
    """Runs it to its end and gives what it printed."""
    process = start_program(code, folder, *arguments, **environment)
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == expect, f"exit {process.returncode}\n{out}\n{err}"
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def only_run(folder, name=".nilo"):
    """The folder of the single run below a folder."""
    runs = [path for path in (folder / name).iterdir() if path.is_dir()]
    assert len(runs) == 1, runs
    return runs[0]
