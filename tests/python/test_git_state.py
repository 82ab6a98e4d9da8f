"""`nilo run` records whether the repository has uncommitted changes, beside the job and without running anything of the repository."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

# Ends once the recorder has written git's answer down.
UNTIL_ANSWERED = 'until grep -q \'"dirty"\' "$NILO_RUN_DIR/run.json"; do sleep 0.05; done'


@pytest.fixture
def repository(nilo):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *words], cwd=nilo.folder, check=True, capture_output=True)

    git("init", "-q", "-b", "trunk")
    (nilo.folder / "file").write_text("one\n")
    git("add", "file")
    git("commit", "-qm", "one")
    return nilo


def recorded_git(nilo):
    return json.loads((nilo.run_folder() / "run.json").read_text())["provenance"]["git"]


def wait_until(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def processes_at(folder):
    """PIDs of git and of our helper for it that work on this folder."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, line = (process / "comm").read_text().strip(), (process / "cmdline").read_text()
            here = os.fspath(folder) in line or os.readlink(process / "cwd") == os.fspath(folder)
        except OSError:
            continue
        if name in ("git", "nilo-git") and here:
            found.append(int(process.name))
    return found


def test_a_run_says_whether_files_were_changed_and_git_is_no_part_of_the_job(repository):
    nilo = repository
    assert nilo("run", "--quiet", "--interval", "0.01", "--", "sh", "-c", UNTIL_ANSWERED, timeout=60).returncode == 0
    assert recorded_git(nilo)["dirty"] is False and recorded_git(nilo)["branch"] == "trunk"
    (nilo.folder / "file").write_text("two\n")
    assert nilo("run", "--quiet", "--", "sh", "-c", UNTIL_ANSWERED, timeout=60).returncode == 0
    assert recorded_git(nilo)["dirty"] is True
    names = {process["name"].split()[0] for process in nilo.show("last", "--all")["processes"]}
    assert names <= {"sh", "grep", "sleep"}, names


def test_without_git_the_flag_is_absent(repository, tmp_path_factory):
    nilo = repository
    empty = tmp_path_factory.mktemp("empty")
    assert nilo("run", "--quiet", "--", "/bin/true", extra_env={"PATH": str(empty)}).returncode == 0
    assert "dirty" not in recorded_git(nilo) and recorded_git(nilo)["commit"]


def test_a_git_that_hangs_does_not_outlive_the_question_of_a_program(repository):
    nilo = repository
    fifo = nilo.folder / "settings"
    os.mkfifo(fifo)
    with open(nilo.folder / ".git/config", "a") as config:
        config.write(f"[include]\npath = {fifo}\n")
    program = "import nilometer; nilometer.init(memory=False); print('begun', flush=True); input()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], cwd=nilo.folder, env=nilo.environment, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout.readline() == "begun\n"
        assert processes_at(nilo.folder) == []
        process.communicate("\n", timeout=60)
    assert process.returncode == 0 and "dirty" not in recorded_git(nilo)


@pytest.mark.parametrize("how", [signal.SIGKILL, None], ids=["recorder killed", "command ended"])
def test_a_git_that_hangs_ends_with_us(repository, how):
    nilo = repository
    fifo = nilo.folder / "settings"
    os.mkfifo(fifo)
    with open(nilo.folder / ".git/config", "a") as config:
        config.write(f"[include]\npath = {fifo}\n")
    process = nilo.start("run", "--quiet", "--", "sh", "-c", "read line", stdin=subprocess.PIPE)
    wait_until(lambda: len(processes_at(nilo.folder)) == 2)
    if how:
        process.send_signal(how)
    process.stdin.close()
    process.wait(60)
    wait_until(lambda: not processes_at(nilo.folder))
    assert "dirty" not in recorded_git(nilo)
