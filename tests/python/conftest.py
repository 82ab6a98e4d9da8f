"""What the end-to-end tests share: the real binary, real processes, real cgroups."""

import atexit
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from answer_schemas import check_printed

ROOT = pathlib.Path(__file__).resolve().parents[2]
NILO = os.environ.get("NILO", str(ROOT / "target/release/nilo"))
MIB = 1 << 20
GIB = 1 << 30

# The settings and approvals of whoever runs the tests are none of the tests' business.
USER_FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="nilo-tests-user-"))
atexit.register(shutil.rmtree, USER_FOLDER, ignore_errors=True)
os.environ["XDG_CONFIG_HOME"] = str(USER_FOLDER / "config")
os.environ["XDG_STATE_HOME"] = str(USER_FOLDER / "state")

from package import end_programs  # noqa: E402  (keeps the environment as it is when it is imported)

# Tests that run in the background (`make test &`, `nohup`) ignore Ctrl-C and the like, and so would all that they start.
for ignored in (signal.SIGHUP, signal.SIGQUIT):
    signal.signal(ignored, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


def unavailable(reason):
    """In CI a missing component is a failure; by hand it is a skip that says why."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


class Nilo:
    """The command, in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("NILO_")}

    def start(self, *arguments, **options):
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        options.setdefault("stdin", subprocess.DEVNULL)
        environment = self.environment | options.pop("extra_env", {})
        process = subprocess.Popen([NILO, *map(str, arguments)], cwd=self.folder, env=environment, text=True, **options)
        self.started.append(process)
        return process

    def end(self):
        """Ends what a test that failed has left: the command is told first, so that what it runs ends too."""
        for process in self.started:
            for stop in (process.terminate, process.kill):
                if process.poll() is None:
                    stop()
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(5)

    def __call__(self, *arguments, timeout=120, input=None, **options):
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*arguments, **options)
        out, err = process.communicate(input, timeout=timeout)
        # Ten thousand metrics would take half a minute.
        if "json" in arguments and len(out or "") < 1_000_000:
            check_printed(out or "")
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def show(self, run="last", *arguments):
        result = self("show", run, "--format", "json", *arguments)
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)

    def runs(self):
        return json.loads(self("runs", "--format", "json").stdout)["runs"]

    def run_folder(self):
        """The newest run's folder."""
        return sorted(path for path in (self.folder / ".nilo").iterdir() if path.is_dir())[-1]


@pytest.fixture(autouse=True)
def a_program_of_its_own():
    """A run that another test finished is not one that this test logs on after."""
    open_runs = sys.modules.get("nilometer._open_runs")
    if open_runs is not None:
        open_runs._last_finished = None


@pytest.fixture(autouse=True)
def no_program_left():
    yield
    end_programs()


@pytest.fixture
def nilo(tmp_path):
    command = Nilo(tmp_path)
    yield command
    command.end()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of this process without memory, in a folder of its own; trouble raises."""
    import nilometer

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NILO_STRICT", "1")
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    run = nilometer.init(memory=False)
    yield run
    run.finish(0)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of its own, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


# A statement that waits for a signal with a handler in Python. Not one long sleep: a signal between Python's last look at it and the system call
# that sleeps has its handler called only when the sleep ends, with nilo and without (1 of 300 times on a busy machine).
WAIT_FOR_A_SIGNAL = "for _ in range(1200): time.sleep(0.05)"


def python(code):
    """A Python program as a command."""
    return [sys.executable, "-c", code]


def wait_until(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    pytest.fail(f"timed out: {what}")


PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def die_with_us():
    """In a child: tests that are killed leave nothing running."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for_its_arguments(process):
    """`Popen` returns as soon as the new program closes its files; the kernel sets its arguments a moment later.

    A process that has ended has none any more, and stays for the test to look at.
    """
    folder = pathlib.Path(f"/proc/{process.pid}")
    while not (folder / "cmdline").read_bytes() and ") Z" not in (folder / "stat").read_text():
        time.sleep(0.001)


@pytest.fixture
def job():
    """Starts helper processes and ends them, by their own ids, when the test is over."""
    started = []

    def start(*command, **options):
        prepare = options.pop("preexec_fn", None)

        def in_child():
            die_with_us()
            if prepare is not None:
                prepare()

        process = subprocess.Popen(command, start_new_session=True, preexec_fn=in_child, **options)
        started.append(process)
        wait_for_its_arguments(process)
        return process

    yield start
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


@pytest.fixture(params=["idle", "busy"])
def load(request, job):
    """A machine with nothing else to do, and one with twice as much as it can do."""
    if request.param == "busy":
        for _ in range(2 * (os.cpu_count() or 1)):
            job(sys.executable, "-c", "while True: pass")


@pytest.fixture
def cgroup():
    """A real memory cgroup (v1) with a limit; v2 is tested in tests/vm."""
    yield from new_cgroup()


@pytest.fixture
def other_cgroup():
    """A second one beside it."""
    yield from new_cgroup()


def remove_abandoned_cgroups(mount):
    """Those of test processes that were killed before they could do it; one that is not empty stays."""
    for folder in mount.glob("nilo-test-*-*"):
        if pathlib.Path("/proc", folder.name.split("-")[2]).exists():
            continue
        for empty in [*(path for path in folder.glob("*") if path.is_dir()), folder]:
            try:
                empty.rmdir()
            except OSError:
                pass


def new_cgroup():
    mount = pathlib.Path("/sys/fs/cgroup/memory")
    remove_abandoned_cgroups(mount)
    folder = mount / f"nilo-test-{os.getpid()}-{time.monotonic_ns()}"
    try:
        folder.mkdir()
    except OSError as error:
        unavailable(f"no writable cgroup v1 memory hierarchy: {error}")

    class Cgroup:
        path = "/" + folder.name

        def limit(self, bytes):
            (folder / "memory.limit_in_bytes").write_text(str(bytes))

        def enter(self):
            """To be called in the child between fork and exec."""
            (folder / "cgroup.procs").write_text("0")

        @property
        def procs(self):
            return folder / "cgroup.procs"

        @property
        def kills(self):
            text = (folder / "memory.oom_control").read_text()
            return int(dict(line.split() for line in text.splitlines())["oom_kill"])

    yield Cgroup()

    def removed():
        try:
            folder.rmdir()
        except OSError:
            return False
        return True

    wait_until(removed, "the cgroup to become empty")
