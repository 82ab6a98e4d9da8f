"""`nilo watch` and `nilo ps`: processes that already run."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import MIB, python, unavailable, wait_until


def unique_program(folder, name, code="import time; time.sleep(30)"):
    path = folder / name
    path.write_text(code)
    return [sys.executable, str(path)]


def test_watch_by_pid_records_until_the_duration_is_over(nilo, job):
    target = job(*python("x=bytearray(40<<20);import time;time.sleep(30)"))
    time.sleep(0.3)
    result = nilo("watch", "--pid", target.pid, "--duration", "1", "--interval", "0.1", "--memory-log", "m.csv")
    assert result.returncode == 0
    shown = nilo.show()
    assert (shown["status"], shown["mode"]) == ("detached", "watch")
    assert shown["memory"]["peak_bytes"] > 40 * MIB
    assert 8 <= shown["memory"]["samples"] <= 13
    assert (nilo.folder / "m.csv").read_text().startswith("timestamp_seconds,memory_mb,cpu_percent\n")
    assert target.poll() is None


def test_watch_ends_with_its_target(nilo, job):
    target = job("sleep", "1")
    result = nilo("watch", "--pid", target.pid, "--interval", "0.05")
    assert result.returncode == 0
    assert "have ended" in result.stderr
    assert nilo.show()["status"] == "ended"


def test_interrupt_ends_watching_with_a_summary(nilo, job):
    target = job("sleep", "30")
    process = nilo.start("watch", "--pid", target.pid, "--interval", "0.05")
    time.sleep(0.6)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "MEMORY USAGE STATISTICS" in err
    assert nilo.show()["status"] == "detached"
    assert target.poll() is None


def test_no_such_pid(nilo):
    result = nilo("watch", "--pid", 4_000_000)
    assert result.returncode == 2
    assert "error: no such process: PID 4000000" in result.stderr and "hint:" in result.stderr
    assert not (nilo.folder / ".nilo").exists() or nilo.runs() == []


@pytest.mark.parametrize("verb", ["watch", "oom", "leak", "profile"])
def test_a_zombie_is_no_process_and_nothing_is_announced(nilo, job, verb):
    ended = job("true")
    wait_until(lambda: open(f"/proc/{ended.pid}/stat").read().split(") ")[1][0] == "Z", "the end of a process")
    result = nilo(verb, "--pid", ended.pid, "--duration", "10")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: no such process: PID {ended.pid}\n"), result.stderr



def test_a_pid_that_ends_while_we_attach(nilo):
    """Many short processes: each watch either records or says that there is no such process; none hangs."""
    for _ in range(20):
        target = subprocess.Popen(["true"])
        result = nilo("watch", "--pid", target.pid, "--interval", "0.01", timeout=20)
        assert result.returncode in (0, 2), result.stderr
        assert "panicked" not in result.stderr
        target.wait()


@pytest.fixture
def recorded(nilo, tmp_path):
    """A program below `nilo run`, whose own command line holds the program's name, with an alert process beside it."""
    name = f"below-{os.getpid()}.py"
    command = unique_program(tmp_path, name, "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)")
    recording = nilo.start("run", "-q", "--on-alert", f"echo {name}", "--", *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pid = tmp_path / "pid"
    wait_until(lambda: pid.exists() and pid.read_text(), "the program to start")
    yield name, int(pid.read_text())
    recording.terminate()
    recording.wait(60)


def test_a_name_means_what_nilo_runs_and_not_nilo(nilo, recorded):
    name, pid = recorded
    watching = nilo.start("watch", "--name", name, "--duration", "60", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(nilo.runs()) == 2, "watching to begin")
        result = nilo("oom", "--name", name, "--duration", "0.5", "--format", "json")
        assert result.returncode in (0, 1), result.stderr
        assert json.loads(result.stdout)["looked_at"].endswith(f"(PID {pid})")
        listed = json.loads(nilo("ps", "--format", "json").stdout)["processes"]
        # The machine may have 25 that are larger.
        assert {process["pid"] for process in listed if name in process["command"]} <= {pid}
    finally:
        watching.terminate()
        watching.wait(60)
    assert [process["pid"] for process in nilo.show()["processes"]] == [pid]


def test_a_name_without_match(nilo):
    result = nilo("watch", "--name", "no-such-program-anywhere")
    assert result.returncode == 2
    assert "no process matches" in result.stderr and "hint:" in result.stderr


def test_a_name_with_one_match_says_what_it_matched(nilo, job, tmp_path):
    target = job(*unique_program(tmp_path, f"only-{os.getpid()}.py"))
    time.sleep(0.3)
    result = nilo("watch", "--name", f"only-{os.getpid()}", "--duration", "0.5", "--interval", "0.1")
    assert result.returncode == 0
    assert f"watching PID {target.pid} python only-{os.getpid()}.py" in result.stderr


def test_several_matches_are_refused_with_a_list_or_watched_together(nilo, job, tmp_path):
    name = f"twins-{os.getpid()}.py"
    targets = [job(*unique_program(tmp_path, name)) for _ in range(2)]
    time.sleep(0.3)
    result = nilo("watch", "--name", name, "--duration", "0.5")
    assert result.returncode == 2
    assert "2 processes match" in result.stderr
    assert all(str(target.pid) in result.stderr for target in targets)
    result = nilo("watch", "--name", name, "--all", "--duration", "0.5", "--interval", "0.1")
    assert result.returncode == 0
    assert len(nilo.show()["processes"]) == 2


def test_a_parent_and_its_workers_are_one_match(nilo, job, tmp_path):
    code = "import os,time\nfor _ in range(3):\n  if os.fork()==0: time.sleep(30); os._exit(0)\ntime.sleep(30)"
    name = f"family-{os.getpid()}.py"
    job(*unique_program(tmp_path, name, code))
    time.sleep(0.5)
    assert nilo("watch", "--name", name, "--duration", "0.5", "--interval", "0.1").returncode == 0
    assert len(nilo.show()["processes"]) == 4


def test_a_child_that_appears_later_is_followed(nilo, job):
    code = "import os,time\ntime.sleep(1)\nif os.fork()==0:\n  x=bytearray(80<<20); time.sleep(30)\ntime.sleep(30)"
    target = job(*python(code))
    nilo("watch", "--pid", target.pid, "--duration", "2.5", "--interval", "0.1", "--quiet")
    shown = nilo.show()
    assert len(shown["processes"]) == 2
    assert shown["memory"]["peak_bytes"] > 80 * MIB


def test_as_another_user_we_see_what_we_may_and_say_what_not(nilo, job):
    """As nobody, a process of root shows its memory but neither its I/O nor its proportional share."""
    if os.getuid() != 0:
        unavailable("needs root in order to become somebody else")
    target = job(*python("x=bytearray(40<<20);import time;time.sleep(30)"))
    time.sleep(0.3)
    os.chmod(nilo.folder, 0o777)
    for parent in nilo.folder.parents:
        if parent.stat().st_uid == 0 and parent.name.startswith("pytest"):
            os.chmod(parent, 0o755)
    import shutil

    from conftest import NILO

    binary = "/tmp/nilo-as-nobody-%d" % os.getpid()
    shutil.copy(NILO, binary)
    os.chmod(binary, 0o755)
    try:
        result = subprocess.run(
            [binary, "watch", "--pid", str(target.pid), "--duration", "2.5", "--interval", "0.1", "--json", "o.json"],
            cwd=nilo.folder, capture_output=True, text=True, user=65534, group=65534, env={"PATH": os.environ["PATH"]},
        )
    finally:
        os.unlink(binary)
    assert result.returncode == 0, result.stderr
    shown = json.loads((nilo.folder / "o.json").read_text())
    assert shown["memory"]["peak_bytes"] > 40 * MIB
    assert shown["blind_spots"], shown
    assert "not recorded:" in result.stderr


def test_ps_lists_candidates(nilo, job, tmp_path):
    name = f"listed-{os.getpid()}.py"
    target = job(*unique_program(tmp_path, name, "x=bytearray(50<<20)\nimport time;time.sleep(30)"), cwd=tmp_path)
    time.sleep(0.4)
    rows = json.loads(nilo("ps", "--python", "--format", "json").stdout)["processes"]
    row = next(row for row in rows if row["pid"] == target.pid)
    assert row["name"] == f"python {name}"
    assert row["rss_bytes"] > 50 * MIB
    assert row["cwd"] == str(tmp_path)
    assert all(row["python"] for row in rows)
    text = nilo("ps").stdout
    assert text.splitlines()[0].split() == ["PID", "USER", "MEMORY", "CPU%", "DIRECTORY", "COMMAND"]
    everything = json.loads(nilo("ps", "--all", "--format", "json").stdout)["processes"]
    assert 1 in {row["pid"] for row in everything}


def test_cpu_time_from_before_we_came_is_not_part_of_the_run(nilo, job):
    target = job(*python("import time\nwhile time.process_time()<1: pass\nprint('burnt',flush=True)\ntime.sleep(30)"), stdout=subprocess.PIPE)
    assert target.stdout.readline() == b"burnt\n"
    nilo("watch", "--pid", target.pid, "--duration", "1", "--interval", "0.1", "--quiet")
    assert nilo.show()["cpu"]["total_secs"] < 0.5
