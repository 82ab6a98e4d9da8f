"""Signals: each reaches the command exactly once, whoever it was sent to, and `nilo run` ends as the command ended."""

import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

import pytest
from conftest import NILO, WAIT_FOR_A_SIGNAL, python, unavailable, wait_until

# Waits for signals with `sigwaitinfo`, so that none is lost between two others, and writes down each.
COUNTING = """
import os, signal, sys
watched = set(range(1, 65)) - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGCONT, signal.SIGTSTP, 32, 33}
signal.pthread_sigmask(signal.SIG_BLOCK, watched)
print("ready", flush=True)
while True:
    number = signal.sigwaitinfo(watched).si_signo
    print(number, flush=True)
    if number == signal.SIGUSR2:
        break
"""

GROUP, SINGLE = "the process group", "nilo alone"


class Counting:
    """A job that writes down its signals, under `nilo run` in a process group of its own."""

    def __init__(self, nilo, *options):
        self.received = []
        self.unread = b""
        self.process = nilo.start("run", "--quiet", *options, "--", *python(COUNTING), start_new_session=True)
        assert self.line() == "ready"

    def line(self):
        """The next line of the command, which a lost signal would never bring."""
        pipe = self.process.stdout.fileno()
        while b"\n" not in self.unread:
            assert select.select([pipe], [], [], 60)[0], f"no further signal after {self.received}"
            data = os.read(pipe, 4096)
            assert data, f"the command ended after {self.received}"
            self.unread += data
        line, self.unread = self.unread.split(b"\n", 1)
        return line.decode()

    def send(self, to, number):
        if to == GROUP:
            os.killpg(self.process.pid, number)
        else:
            os.kill(self.process.pid, number)

    def receive(self):
        """The next signal that reached the command."""
        number = int(self.line())
        self.received.append(number)
        return number

    def end(self):
        """Sends a last signal, which comes behind all others, and gives what came before it."""
        self.send(SINGLE, signal.SIGUSR2)
        while self.receive() != signal.SIGUSR2:
            pass
        assert self.process.wait(60) == 0
        return self.received[:-1]


@pytest.fixture
def counting(nilo):
    started = []

    def start(*options):
        started.append(Counting(nilo, *options))
        return started[-1]

    yield start
    for job in started:
        try:
            os.killpg(job.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        job.process.communicate()


@pytest.mark.parametrize("to", [GROUP, SINGLE])
def test_fifty_signals_arrive_fifty_times(counting, load, to):
    job = counting()
    for _ in range(50):
        job.send(to, signal.SIGTERM)
        assert job.receive() == signal.SIGTERM
    assert job.end() == [signal.SIGTERM] * 50


def test_a_signal_to_the_group_and_one_to_nilo_are_told_apart(counting, load):
    """Each kind to the other address than the one before."""
    job = counting()
    numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGXCPU, signal.SIGQUIT, signal.SIGALRM]
    sent = []
    for index in range(48):
        number = numbers[index % len(numbers)]
        job.send([GROUP, SINGLE][index % 2], number)
        sent.append(number)
        assert job.receive() == number
    assert job.end() == sent


def test_real_time_signals_keep_their_number_and_order(counting, load):
    job = counting()
    numbers = [signal.SIGRTMIN + offset for offset in (0, 1, 5, 30)]
    for number in numbers:
        for _ in range(10):
            job.send(SINGLE, number)
    received = [job.receive() for _ in range(40)]
    assert received == [number for number in numbers for _ in range(10)]
    assert job.end() == received


def test_a_second_term_arrives_too(counting):
    job = counting()
    for _ in range(2):
        job.send(SINGLE, signal.SIGTERM)
        assert job.receive() == signal.SIGTERM
        time.sleep(1)
    assert job.end() == [signal.SIGTERM] * 2


def test_signals_sent_to_one_process_after_the_other_arrive_once(counting, load):
    """As Slurm and systemd do: no group, but everybody in the job's cgroup or session."""
    job = counting()
    for _ in range(10):
        for pid in members(job.process.pid):
            os.kill(pid, signal.SIGTERM)
        assert job.receive() == signal.SIGTERM
        time.sleep(0.3)
    assert job.end() == [signal.SIGTERM] * 10


@pytest.mark.parametrize("name", ["TERM", "INT", "USR1"])
def test_timeout_signals_a_job_once(nilo, load, name):
    """`timeout` sends its signal to its child and then to the whole group."""
    code = (
        "import signal,time\nnumber=signal.SIG" + name + "\nsignal.pthread_sigmask(signal.SIG_BLOCK,{number})\n"
        "signal.sigwait({number})\nprint('first',flush=True)\n"
        "print('second' if signal.sigtimedwait({number},1.5) else 'no second',flush=True)"
    )
    for _ in range(3):
        command = ["timeout", "--preserve-status", "-s", name, "1.5", NILO, "run", "-q", "--", *python(code)]
        result = subprocess.run(command, cwd=nilo.folder, env=nilo.environment, capture_output=True, text=True, timeout=120)
        assert result.stdout.split("\n")[:2] == ["first", "no second"], result


def test_kill_0_inside_the_job_arrives_once(nilo):
    """`kill 0`, as in many shell scripts, signals the script's own group, which is ours as well."""
    script = 'trap "echo term" TERM; echo ready; kill -TERM 0; i=0; while [ $i -lt 10 ]; do sleep 0.1; i=$((i+1)); done'
    process = nilo.start("run", "--quiet", "--", "sh", "-c", script, start_new_session=True)
    out, _ = process.communicate(timeout=60)
    assert out == "ready\nterm\n"
    assert process.returncode == 0


def members(group):
    """The processes of a process group."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getpgid(int(entry.name)) == group and "\nState:\tZ" not in (entry / "status").read_text():
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


@pytest.mark.parametrize("to", [GROUP, SINGLE])
def test_a_signal_at_any_moment_of_the_start_ends_both(nilo, to):
    """Before, while and after the command is started: nobody is left behind, and nobody runs on."""
    for attempt in range(50):
        process = nilo.start("run", "--quiet", "--", "sleep", "600", start_new_session=True)
        time.sleep(attempt * 0.0008)
        try:
            (os.killpg if to == GROUP else os.kill)(process.pid, signal.SIGTERM)
            process.communicate(timeout=60)
            assert process.returncode == -signal.SIGTERM, attempt
            wait_until(lambda: not members(process.pid), f"everybody to end (attempt {attempt})")
        finally:
            if members(process.pid):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("to", [GROUP, SINGLE])
def test_sigkill_leaves_no_process_of_ours(nilo, to):
    process = nilo.start("run", "--quiet", "--", *python("import os,time\nprint(os.getpid(),flush=True)\ntime.sleep(600)"), start_new_session=True)
    command = int(process.stdout.readline())
    assert len(members(process.pid)) == 3
    try:
        (os.killpg if to == GROUP else os.kill)(process.pid, signal.SIGKILL)
        process.wait(60)
        left = [] if to == GROUP else [command]
        wait_until(lambda: members(process.pid) == left, "the helper to end")
    finally:
        if members(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_stopped_and_continued_group_still_counts_right(counting):
    job = counting()
    for _ in range(5):
        job.send(GROUP, signal.SIGSTOP)
        job.send(GROUP, signal.SIGTERM)
        job.send(GROUP, signal.SIGCONT)
        assert job.receive() == signal.SIGTERM
        time.sleep(0.3)
        job.send(SINGLE, signal.SIGTERM)
        assert job.receive() == signal.SIGTERM
        time.sleep(0.3)
    assert job.end() == [signal.SIGTERM] * 10


def test_without_its_helper_signals_to_nilo_are_still_forwarded(counting):
    job = counting()
    helpers = [pid for pid in members(job.process.pid) if pathlib.Path(f"/proc/{pid}/comm").read_text() == "signal-sentinel\n"]
    assert len(helpers) == 1
    os.kill(helpers[0], signal.SIGKILL)
    for _ in range(3):
        job.send(SINGLE, signal.SIGTERM)
        assert job.receive() == signal.SIGTERM
    assert job.end() == [signal.SIGTERM] * 3


def test_the_helper_is_no_part_of_the_job(nilo):
    """It is neither recorded, nor found by the name of the program or of the command."""
    process = nilo.start("run", "--quiet", "--wait-all", "--interval", "0.02", "--", "sleep", "1.5", start_new_session=True)
    wait_until(lambda: len(members(process.pid)) == 3, "the command and the helper")
    for pattern in ["nilo", "sleep 1.5"]:
        found = subprocess.run(["pgrep", "-g", str(process.pid), "-f", pattern], capture_output=True, text=True)
        pids = [int(pid) for pid in found.stdout.split()]
        names = [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in pids]
        assert "signal-sentinel" not in names and pids, (pattern, names)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert [entry["name"].split()[0] for entry in nilo.show()["processes"]] == ["sleep"]


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "ALRM", "PIPE"])
def test_nilo_dies_of_the_signal_that_the_command_died_of(nilo, name):
    """So that the caller sees what it would see without us; `$?` is 128 and the signal."""
    number = getattr(signal, f"SIG{name}")
    result = nilo("run", "--json", "out.json", "--", "sh", "-c", f"ulimit -c 0; kill -{name} $$")
    assert result.returncode == -number
    assert "MEMORY USAGE STATISTICS" in result.stderr
    shown = nilo.show()
    assert (shown["status"], shown["signal"], shown["exit_code"]) == ("killed", number, None)
    assert (nilo.folder / "out.json").exists()
    script = f"ulimit -c unlimited; '{NILO}' run -q -- sh -c 'ulimit -c 0; kill -{name} $$'; echo $?"
    shell = subprocess.run(["bash", "-c", script], cwd=nilo.folder, env=nilo.environment, capture_output=True, text=True)
    assert int(shell.stdout) == 128 + number
    assert not [path for path in nilo.folder.iterdir() if path.name.startswith("core")]


@pytest.mark.parametrize("name", ["KILL", "SEGV", "ABRT", "BUS", "FPE", "ILL"])
def test_a_crash_or_kill_of_the_command_is_a_status_not_our_own_crash(nilo, name):
    number = getattr(signal, f"SIG{name}")
    result = nilo("run", "--", "sh", "-c", f"ulimit -c 0; kill -{name} $$")
    assert result.returncode == 128 + number
    shown = nilo.show()
    assert (shown["status"], shown["signal"], shown["oom"]) == ("killed", number, None)


@pytest.mark.parametrize("code", [0, 7, 130, 143])
def test_a_command_that_handles_the_signal_gives_its_own_status(nilo, code):
    handler = f"import signal,sys,time\nsignal.signal(signal.SIGTERM,lambda *a:sys.exit({code}))\nprint('ready',flush=True)\n{WAIT_FOR_A_SIGNAL}"
    for send in (os.kill, os.killpg):
        process = nilo.start("run", "--quiet", "--", *python(handler), start_new_session=True)
        assert process.stdout.readline() == "ready\n"
        send(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == code


def test_nohup_and_background_jobs_keep_ignoring(nilo):
    """A signal that was ignored before us is ignored by the command and by us."""
    nohup = shutil.which("nohup") or unavailable("no nohup")
    command = [nohup, NILO, "run", "-q", "--", *python("import time\nprint('ready',flush=True)\ntime.sleep(1)\nprint('done')")]
    process = subprocess.Popen(command, cwd=nilo.folder, env=nilo.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGHUP)
    os.killpg(process.pid, signal.SIGHUP)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "done\n")


@pytest.mark.parametrize("name", ["SIGINT", "SIGQUIT", "SIGHUP"])
def test_a_signal_that_was_ignored_at_the_start_still_reaches_a_command_that_handles_it(nilo, name):
    """As in `nilo run … &` in a script, or under nohup: the shell ignores the signal, and the command takes it back."""
    code = (
        "import pathlib, signal, time\n"
        f"signal.signal(signal.{name}, lambda *_: pathlib.Path('got').write_text('once'))\n"
        "pathlib.Path('ready').touch()\n"
        "while not pathlib.Path('got').exists(): time.sleep(0.05)\n"
    )

    def ignore():
        signal.signal(getattr(signal, name), signal.SIG_IGN)

    process = nilo.start("run", "-q", "--", *python(code), preexec_fn=ignore)
    wait_until((nilo.folder / "ready").exists, "the handler")
    process.send_signal(getattr(signal, name))
    process.communicate(timeout=60)
    assert (nilo.folder / "got").read_text() == "once" and process.returncode == 0
