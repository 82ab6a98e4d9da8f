"""`nilo run`: the command behaves as without us, and the record tells the truth."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import GIB, MIB, NILO, WAIT_FOR_A_SIGNAL, python, wait_until


@pytest.mark.parametrize("code", [0, 1, 3, 77, 255])
def test_exit_status_is_the_commands(nilo, code):
    assert nilo("run", "--", "sh", "-c", f"exit {code}").returncode == code
    shown = nilo.show()
    assert (shown["status"], shown["exit_code"]) == ("exited", code)


def test_standard_streams_belong_to_the_command(nilo):
    result = nilo("run", "--quiet", "--", "sh", "-c", "cat; echo problem >&2", input="through\n")
    assert (result.stdout, result.stderr) == ("through\n", "problem\n")


def test_summary_has_the_fields_of_the_seed_document(nilo):
    result = nilo("run", "--interval", "0.02", "--", *python("import time; time.sleep(.5); x = bytearray(30 << 20); time.sleep(.3)"))
    assert result.stdout == ""
    for label in [
        "MEMORY USAGE STATISTICS",
        "Peak Memory Usage:",
        "Average Memory Usage:",
        "Minimum Memory Usage:",
        "Memory Growth:",
        "Total Samples:",
        "Monitoring Duration:",
        "Peak Measured By:",
        "Memory Limit:",
        "Recorder Cost:",
        "How It Ended:",
    ]:
        assert label in result.stderr, label
    assert re.search(r"Memory Growth: +\+\d+\.\d\d MiB", result.stderr)


def test_json_memory_log_name_and_tags(nilo):
    arguments = ["--interval", "0.05", "--json", "out.json", "--memory-log", "mem.csv", "--name", "base", "--tag", "lr=3"]
    nilo("run", *arguments, "--", *python("import time; x = bytearray(20 << 20); time.sleep(.4)"))
    summary = json.loads((nilo.folder / "out.json").read_text())
    assert summary["schema"] == "nilo.show/1"
    assert (summary["name"], summary["tags"]) == ("base", {"lr": "3"})
    assert summary["memory"]["peak_bytes"] > 20 * MIB
    assert summary["memory"]["samples"] >= 3
    assert summary["recorder"]["dropped_samples"] == 0
    assert summary["processes"][0]["name"].startswith("python")
    with open(nilo.folder / "mem.csv") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["timestamp_seconds", "memory_mb", "cpu_percent"]
    assert max(float(row[1]) for row in rows[1:]) > 20
    assert nilo.show("base")["run"] == summary["run"]
    assert [run["name"] for run in nilo.runs()] == ["base"]


def test_the_command_can_set_marks(nilo):
    script = f'for i in 1 2 3; do "{NILO}" mark "epoch $i"; done; test -d "$NILO_RUN_DIR"'
    assert nilo("run", "--", "sh", "-c", script).returncode == 0
    assert [mark["text"] for mark in nilo.show()["marks"]] == ["epoch 1", "epoch 2", "epoch 3"]


SPIKE = """
import mmap, os, time, ctypes
size = 2 << 30
fd = int(os.environ["SPIKE_FD"])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
time.sleep(0.35)
MAP_SHARED, MAP_POPULATE = 1, 0x8000
address = libc.mmap(None, size, 1, MAP_SHARED | MAP_POPULATE, fd, 0)
time.sleep(0.05)
libc.munmap(address, size)
time.sleep(0.2)
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0], flush=True)
"""


def test_a_spike_of_50_ms_is_in_the_peak(nilo):
    """2 GiB that are resident already are mapped for 50 ms, between two samples of a slow recorder."""
    fd = os.memfd_create("spike")
    try:
        os.ftruncate(fd, 2 * GIB)
        os.posix_fallocate(fd, 0, 2 * GIB)
        result = nilo(
            "run", "--quiet", "--interval", "0.5", "--", *python(SPIKE), pass_fds=[fd], extra_env={"SPIKE_FD": str(fd)}
        )
    finally:
        os.close(fd)
    truth = int(result.stdout) * 1024
    memory = nilo.show()["memory"]
    assert truth > 2 * GIB
    assert abs(memory["peak_bytes"] - truth) < 0.01 * truth, memory
    assert memory["peak_kind"] in ("vmhwm", "rusage", "sampled-rss")


FORKING = """
import os, sys, time
data = bytearray(200 << 20)
data[::4096] = b"x" * len(data[::4096])
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        time.sleep(2.0)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""


def test_forked_workers_do_not_count_shared_pages_again(nilo):
    nilo("run", "--quiet", "--interval", "0.05", "--", *python(FORKING))
    shown = nilo.show()
    assert 200 * MIB < shown["memory"]["peak_bytes"] < 300 * MIB, shown["memory"]
    assert len(shown["processes"]) == 5
    # The plain sum would have been five times as much.
    result = nilo("export", "last", "--format", "csv")
    rows = list(csv.DictReader(result.stdout.splitlines()))
    assert max(float(row["rss_mb"]) for row in rows if row["rss_mb"]) > 800


def test_orphans_stay_in_the_tree(nilo):
    """The grandchild is orphaned at once and then takes memory while the command still runs."""
    code = "import os,time\nif os.fork()==0:\n  if os.fork()==0:\n    x=bytearray(60<<20); time.sleep(1); os._exit(0)\n  os._exit(0)\ntime.sleep(1.2)"
    nilo("run", "--quiet", "--interval", "0.05", "--", *python(code))
    assert nilo.show()["memory"]["peak_bytes"] > 60 * MIB


def test_a_daemon_is_left_alone_and_named(nilo):
    code = "import os,time\nif os.fork()==0:\n  os.setsid()\n  if os.fork()==0:\n    os.close(0);os.close(1);os.close(2);time.sleep(3);os._exit(0)\n  os._exit(0)\nos.wait();time.sleep(.3)"
    began = time.monotonic()
    result = nilo("run", "--interval", "0.05", "--", *python(code))
    assert result.returncode == 0
    left = nilo.show()["left_running"]
    assert len(left) == 1
    assert f"still running: PID {left[0]}; follow with `nilo watch --pid {left[0]}`" in result.stderr
    os.kill(left[0], 0)
    wait_until(lambda: not os.path.exists(f"/proc/{left[0]}"), "the daemon to end by itself")
    told = nilo("show").stdout
    assert f"running when the recording ended, and ended since: PID {left[0]}" in told
    assert "still running" not in told and "nilo watch" not in told
    assert time.monotonic() - began > 2


def test_sigterm_reaches_the_command(nilo):
    code = "import signal,sys,time\nsignal.signal(signal.SIGTERM,lambda *a:sys.exit(42))\nprint('ready',flush=True)\n" + WAIT_FOR_A_SIGNAL
    process = nilo.start("run", "--quiet", "--", *python(code))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 42


def test_the_job_outlives_a_killed_recorder(nilo):
    """kill -9 of the recorder: the job goes on, every sample before it is there, and the run counts as lost."""
    # It ends by itself too, should this test fail: nobody is left to stop it.
    code = """if True:
        import os, time
        print(os.getpid(), flush=True)
        begun = time.monotonic()
        while not os.path.exists('finish') and time.monotonic() < begun + 120:
            time.sleep(.02)
        open('done', 'w')
    """
    process = nilo.start("run", "--interval", "0.02", "--", *python(code))
    pid = int(process.stdout.readline())
    wait_until(lambda: nilo.show()["memory"]["samples"] > 10, "samples")
    process.kill()
    process.wait()
    os.kill(pid, 0)
    shown = nilo.show()
    assert shown["status"] == "lost"
    assert shown["memory"]["samples"] > 10
    death = shown["recorder_death"]
    assert (death["pid"], shown["left_running"]) == (process.pid, [pid])
    assert [finding["kind"] for finding in shown["findings"]] == ["recorder-died"]
    (nilo.folder / "finish").touch()
    wait_until((nilo.folder / "done").exists, "the job to finish")
    ended = f"nilo itself (PID {process.pid}) died, and the recording stops after "
    assert f"How It Ended:         unknown: {ended}" in nilo("show").stdout
    assert " lost (nilo died) " in nilo("runs").stdout
    assert re.search(r": lost; nilo itself died, and the recording stops after \S+ (ms|seconds?); at its end:$", nilo("oom").stdout.splitlines()[0])
    assert json.loads(nilo("oom", "--format", "json").stdout)["recorder_death"] == death
    assert nilo.runs()[0]["recorder_death"] == death
    assert nilo("verify").returncode == 0


def test_recorder_and_job_killed_together_leave_their_record(nilo):
    process = nilo.start("run", "--interval", "0.02", "--", "sleep", "30", start_new_session=True)
    time.sleep(0.6)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    shown = nilo.show()
    assert shown["status"] == "lost"
    assert shown["memory"]["samples"] > 10


def test_a_running_run_can_be_looked_at(nilo):
    process = nilo.start("run", "--interval", "0.02", "--", "sleep", "1.5")
    wait_until(lambda: (nilo.folder / ".nilo").exists(), "the run folder")
    time.sleep(0.5)
    shown = nilo.show()
    assert shown["status"] == "running"
    assert shown["memory"]["samples"] > 5
    process.wait()
    assert nilo.show()["status"] == "exited"


@pytest.mark.parametrize("interval,seconds", [("0.001", 1), ("0.01", 2), ("0.25", 2)])
def test_ticks_keep_their_rate(nilo, interval, seconds):
    """No more samples than the clock allows, and every missing one is counted as late."""
    nilo("run", "--quiet", "--interval", interval, "--", "sleep", seconds)
    shown = nilo.show()
    samples, late = shown["memory"]["samples"], shown["recorder"]["late_ticks"]
    expected = shown["duration_secs"] / float(interval)
    # A machine that cannot keep up makes the recorder slow down, and then it says so.
    if not shown["recorder"]["slowed"]:
        assert samples <= 1.05 * expected + 2, (samples, late, expected)
        assert samples + late >= 0.95 * expected - 2, (samples, late, expected)


def test_names_that_people_recognise(nilo):
    (nilo.folder / "train.py").write_text("import time; time.sleep(.4)")
    nilo("run", "--quiet", "--interval", "0.02", "--", sys.executable, "train.py", "--lr", "3")
    assert nilo.show()["processes"][0]["name"] == "python train.py"


def test_exec_changes_the_name(nilo):
    nilo("run", "--quiet", "--interval", "0.02", "--", "sh", "-c", "sleep 0.2; exec sleep 1.6")
    assert "sleep" in {process["name"].split()[0] for process in nilo.show()["processes"]}


def test_five_thousand_processes(nilo):
    """A tree far larger than any training job: it is followed, and the job is not disturbed."""
    code = (
        "import os,signal,time\npids=[]\n"
        "for _ in range(5000):\n  pid=os.fork()\n  if pid==0:\n    signal.pause()\n  pids.append(pid)\n"
        "print('forked',flush=True)\ninput()\nfor pid in pids: os.kill(pid,9)\nfor pid in pids: os.waitpid(pid,0)\nprint('done')"
    )
    command = nilo.start(
        "run", "--quiet", "--interval", "0.5", "--", *python(code), stdin=subprocess.PIPE
    )
    assert command.stdout.readline() == "forked\n"

    def most_processes():
        rows = csv.DictReader(nilo("export", "last", "--format", "csv").stdout.splitlines())
        # A level between two samples has no number of processes.
        return max((float(row["processes"] or 0) for row in rows), default=0)

    wait_until(lambda: most_processes() > 4500, "5000 processes in one sample", 120)
    assert command.communicate("go\n", timeout=300)[0] == "done\n"
    assert command.returncode == 0
    shown = nilo.show()
    # Forked sleepers share nearly everything: a sum of RSS would be tens of gigabytes.
    assert shown["memory"]["sampled_peak_bytes"] < 8 * GIB
    assert shown["recorder"]["dropped_samples"] == 0


def test_a_stopped_recorder_leaves_a_gap_and_no_invented_samples(nilo):
    process = nilo.start("run", "--quiet", "--interval", "0.05", "--", "sleep", "4")
    wait_until(lambda: (nilo.folder / ".nilo").exists(), "the run folder")
    time.sleep(0.5)
    process.send_signal(signal.SIGSTOP)
    time.sleep(2)
    process.send_signal(signal.SIGCONT)
    process.wait()
    shown = nilo.show()
    assert shown["recorder"]["gaps"] == 1
    assert shown["recorder"]["late_ticks"] < 30, "it was stopped, not late"


SHARED = """
import mmap, os, time
size = 300 << 20
buffer = mmap.mmap(-1, size)
for _ in range(300):
    buffer.write(b"x" * (1 << 20))
time.sleep(1.0)
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        total = 0
        for offset in range(0, size, 4096):
            total += buffer[offset]
        time.sleep(1.5)
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
"""


def test_shared_memory_that_workers_read_is_counted_once(nilo):
    """The shape of a data loader: one buffer, read by workers that were forked after it was measured."""
    nilo("run", "--quiet", "--interval", "0.05", "--", *python(SHARED))
    memory = nilo.show()["memory"]
    assert 300 * MIB < memory["sampled_peak_bytes"] < 360 * MIB, memory


def test_nobody_is_said_to_run_who_does_not(nilo):
    code = (
        "import os,time\npids=[]\nfor _ in range(8):\n  pid=os.fork()\n  if pid==0:\n    time.sleep(2); os._exit(0)\n"
        "  pids.append(pid)\nfor pid in pids: os.waitpid(pid,0)"
    )
    result = nilo("run", "--interval", "0.1", "--", *python(code))
    assert "still running" not in result.stderr
    assert nilo.show()["left_running"] == []


def test_helpers_that_end_right_after_the_command_are_not_said_to_run(nilo):
    """The resource tracker of multiprocessing ends when it sees the end of the program."""
    code = (
        "import multiprocessing, time\nfrom multiprocessing import shared_memory\n"
        "block = shared_memory.SharedMemory(create=True, size=4096)\ntime.sleep(.3)\nblock.close(); block.unlink()"
    )
    for _ in range(10):
        result = nilo("run", "--interval", "0.02", "--", *python(code))
        assert "still running" not in result.stderr, result.stderr
        shown = nilo.show()
        assert shown["left_running"] == [] and len(shown["processes"]) >= 2
        assert all(process["ended_secs"] is not None for process in shown["processes"]), shown["processes"]


def test_cpu_of_short_lived_children_is_counted(nilo):
    burn = "import time\nt=time.process_time()\nwhile time.process_time()-t<.1: pass"
    script = f"for i in 1 2 3 4 5 6 7 8 9 10; do {sys.executable} -S -c '{burn}'; done"
    nilo("run", "--quiet", "--interval", "1", "--", "sh", "-c", script)
    assert nilo.show()["cpu"]["total_secs"] > 0.95


@pytest.mark.parametrize("limit", ["ulimit -f 1", "ulimit -f 64", "ulimit -n 6"])
def test_limits_that_forbid_recording_do_not_stop_the_job(nilo, limit):
    command = f"{limit}; exec '{NILO}' run --interval 0.001 -- sh -c 'sleep 1; echo ran; exit 7'"
    result = subprocess.run(["bash", "-c", command], cwd=nilo.folder, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (7, "ran\n"), result.stderr


def test_the_memory_log_has_each_sample_once(nilo):
    nilo("run", "--quiet", "--interval", "0.1", "--memory-log", "m.csv", "--", "sleep", "0.55")
    times = [line.split(",")[0] for line in (nilo.folder / "m.csv").read_text().splitlines()[1:]]
    assert len(times) == len(set(times)), times


def test_a_command_too_short_for_a_sample_lacks_its_curve_and_nothing_else(nilo):
    """Whether it ends before its first sample is for the scheduler to say."""
    told = (nilo("run", "--", "true").stderr for _ in range(100))
    text = next(text for text in told if "not recorded" in text)
    assert "not recorded: memory over time, as the command ended before its first sample; the peak is what the kernel counted\n" in text
    assert "Peak Measured By:     the kernel at the end of a process (ru_maxrss)\n" in text


def test_what_outlives_a_short_command_is_recorded_and_said_to_be(nilo):
    """Whether the command itself ends before its first sample is for the scheduler to say."""
    for _ in range(5):
        text = nilo("run", "--wait-all", "--interval", "0.02", "--", "sh", "-c", "setsid sleep 0.3 & exit 0").stderr
        assert nilo.show()["memory"]["samples"] > 1 and "not recorded" not in text, text


def test_the_hint_fits_why_a_command_does_not_start(nilo):
    (nilo.folder / "script").write_text("echo hello\n")
    for command, hint in (("./script", "chmod +x"), ("/tmp", "it is a folder"), ("no-such-program", "PATH")):
        result = nilo("run", "--", command)
        assert result.returncode in (126, 127) and hint in result.stderr, result.stderr
    result = nilo("run", "--on-alert", "", "--", "true")
    assert result.returncode == 2 and "--on-alert" in result.stderr


def recorded_secs(nilo):
    """How long the newest run has gone on; nothing before it has begun."""
    shown = nilo("show", "--format", "json")
    return json.loads(shown.stdout)["duration_secs"] if shown.returncode == 0 else 0


@pytest.mark.parametrize("verb", ["run", "watch"])
def test_what_a_killed_recorder_cost_is_a_share_of_the_time_it_was_measured_over(nilo, verb):
    """No last row is written; the first one has only what it took to start."""
    job = subprocess.Popen(["sleep", "20"], stdin=subprocess.DEVNULL)
    what = ["--", "sleep", "20"] if verb == "run" else ["--pid", job.pid]
    recorder = nilo.start(verb, "--quiet", *what)
    try:
        wait_until(lambda: recorded_secs(nilo) > 1.5, "a recording")
        recorder.kill()
        recorder.wait()
        shown = nilo.show()
        cost = shown["recorder"]
        assert 0 < cost["cpu_secs"] < 1
        assert cost["cpu_percent"] <= 100 * cost["cpu_secs"], cost
        for pid in shown["left_running"] if verb == "run" else []:
            os.kill(pid, signal.SIGKILL)
    finally:
        job.kill()
        job.wait()


def test_a_recorder_that_was_stopped_says_so(nilo):
    process = nilo.start("run", "--", "sleep", "3")
    wait_until(lambda: recorded_secs(nilo) > 0.2, "a recording")
    process.send_signal(signal.SIGSTOP)
    time.sleep(1.5)
    process.send_signal(signal.SIGCONT)
    told = process.communicate(timeout=60)[1]
    found = nilo.show()["recorder"]
    assert found["gaps"] == 1 and found["gaps_secs"] > 1
    said = f"1 gap of {found['gaps_secs']:.1f} s without samples"
    assert said in told and said in nilo("show").stdout
