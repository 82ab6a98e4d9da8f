"""Looking at what already runs: real processes, a real limit, a driver whose numbers the test makes up."""

import json
import os
import re
import signal
import sys
import time

import pytest
from conftest import MIB, NILO, Nilo, python, wait_until
from fake_nvml import GIB, FakeDriver, gpu_line
from package import run_program
from test_terminal import Terminal

NO_GPU = {"NILO_NVML": ""}
LEAK = "import time\nheld = []\nwhile True: held.append(bytearray(b'x') * (1 << 20)); time.sleep(.05)"
HEALTHY = "import time\nheld = bytearray(b'x') * (60 << 20)\nwhile True: more = bytearray(b'x') * (5 << 20); time.sleep(.05); del more; time.sleep(.05)"
HOLD = "import time\nheld = bytearray(b'x') * ({} << 20)\ntime.sleep(600)"


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(folder)


@pytest.fixture(scope="module", autouse=True)
def long_look(tmp_path_factory):
    """A warning counts as over after half a minute of calm: this one begins with the first test, and the last asks for its end."""
    folder = tmp_path_factory.mktemp("long")
    driver = FakeDriver(folder)
    driver.say(gpu_line(14 * GIB))
    process = Nilo(folder).start(
        "oom", "--devices", "0", "--threshold", "85", "--monitor", "--duration", "120", extra_env=driver.environment
    )
    try:
        block = [process.stdout.readline() for _ in range(3)]
        driver.say(gpu_line(2 * GIB))
        yield process, block
    finally:
        process.terminate()
        process.wait()


def held(job, mib, **options):
    """A process that holds so much, once it does."""
    process = job(*python(HOLD.format(mib)), **options)
    wait_until(lambda: resident(process.pid) > mib * MIB, f"{mib} MiB to be held")
    return process


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_a_leaking_process_is_found_and_named_and_a_healthy_one_is_not(nilo, job):
    (nilo.folder / "leaks_here.py").write_text(LEAK)
    leaking = job(sys.executable, nilo.folder / "leaks_here.py")
    healthy = job(*python(HEALTHY))
    wait_until(lambda: resident(healthy.pid) > 60 * MIB, "the healthy one to be at work")
    check = ["leak", "--check", "--threshold", "20", "--duration", "10"]
    found = nilo.start(*check, "--name", "leaks_here")
    as_json = nilo.start(*check, "--pid", leaking.pid, healthy.pid, "--format", "json", "--no-record", "--quiet")
    calm = nilo.start(*check, "--pid", healthy.pid)
    watch = ["monitor", "--leak", "--leak-threshold", "20", "--pid", leaking.pid, "--duration", "11", "--no-record"]
    whole = nilo.start(*watch)
    whole_as_json = nilo.start(*watch, "--format", "json")
    out, err = found.communicate(timeout=60)
    assert found.returncode == 1, out + err
    assert out.startswith("leak found: job memory leaks ") and out.count("\n") == 1
    assert f"in python leaks_here.py (PID {leaking.pid})" in out
    out, err = as_json.communicate(timeout=60)
    answer = json.loads(out)
    assert (as_json.returncode, answer["leak"], err) == (1, True, "")
    assert [holder["pids"] for holder in answer["grown_in"]] == [[leaking.pid]]
    each = [resource["name"] for resource in answer["resources"] if resource["resource"]["type"] == "process"]
    assert each == [f"python leaks_here.py (PID {leaking.pid})"], "each program is judged by itself too"
    out, err = whole.communicate(timeout=60)
    assert whole.returncode == 1 and "Leaks:    1\n  job memory leaks " in out
    assert f"in python leaks_here.py (PID {leaking.pid})" in out
    assert " for 11 seconds;" in err
    out, err = whole_as_json.communicate(timeout=60)
    end = lines(out)[-1]
    assert (whole_as_json.returncode, end["event"], end["leaks"], end["leaks_over"]) == (1, "end", 1, [])
    (leak,) = end["leaking"]
    assert (leak["name"], leak["kind"]) == ("job memory", "leak") and leak["growth_bytes_per_sec"] > MIB
    assert [holder["pids"] for holder in end["grown_in"]] == [[leaking.pid]]
    out, err = calm.communicate(timeout=60)
    assert (calm.returncode, out) == (0, "no leak found\n"), err
    assert len(nilo.runs()) == 2
    assert leaking.poll() is None and healthy.poll() is None


def test_a_finished_run_says_in_whom_it_grew(nilo):
    (nilo.folder / "grew.py").write_text("import time\nkept = []\nfor _ in range(120):\n    kept.append(bytearray(1 << 20))\n    time.sleep(0.1)\n")
    nilo("run", "-q", "--interval", "0.1", "--", sys.executable, nilo.folder / "grew.py")
    result = nilo("leak", "--threshold", "20")
    # Ten seconds may be too few to call it a leak on a busy machine.
    assert re.search(r"job memory: (leaks|grows) .*, in python grew.py \(PID \d+\)", result.stdout), result.stdout


def test_a_process_that_ends_too_early_is_no_clean_bill_of_health(nilo, job):
    target = job("sleep", "1.5")
    result = nilo("leak", "--check", "--pid", target.pid)
    assert result.returncode == 2
    assert "too short to detect a leak" in result.stderr and "has ended" in result.stderr and "hint:" in result.stderr


def test_a_time_too_short_to_find_a_leak_is_said_to_be(nilo, job):
    leaking = job(*python(LEAK))
    watch = ["monitor", "--leak", "--pid", leaking.pid, "--duration", "3", "--no-record"]
    as_json = nilo.start(*watch, "--format", "json")
    told = nilo(*watch)
    assert (told.returncode, told.stdout.splitlines()[-1]) == (0, "Leaks:    too short to tell (at least 10 seconds or 50 steps are needed)")
    assert lines(as_json.communicate(timeout=60)[0])[-1]["leaks"] is None


def test_a_job_near_its_limit_is_warned_of_while_it_goes_on(nilo, cgroup, job):
    cgroup.limit(256 * MIB)
    target = held(job, 200, preexec_fn=cgroup.enter)
    result = nilo("oom", "--monitor", "--threshold", "70", "--pid", target.pid, "--duration", "2.5", extra_env=NO_GPU)
    assert result.returncode == 1
    block = result.stdout.splitlines()
    assert block[0] == "[WARNING] OOM Warning: job memory"
    assert re.fullmatch(r"   Risk Level: (low|moderate|high|critical)", block[1])
    assert re.fullmatch(r"   Current Usage: (7|8)\d\.\d%", block[2])
    assert result.stdout.count("[WARNING]") == 1
    assert re.search(r"^nilo: 1 warning in \d+ s$", result.stderr, re.MULTILINE), result.stderr
    assert target.poll() is None
    assert nilo.show()["memory"]["limit_bytes"] == 256 * MIB
    options = ["--pid", target.pid, "--duration", "2", "--no-record"]
    calm = nilo("oom", "--monitor", "--threshold", "95", *options, extra_env=NO_GPU)
    assert (calm.returncode, calm.stdout) == (0, ""), calm.stderr
    assert len(nilo.runs()) == 1


def test_monitoring_as_json_is_one_object_a_line(nilo, cgroup, job):
    cgroup.limit(256 * MIB)
    target = held(job, 200, preexec_fn=cgroup.enter)
    options = ["--threshold", "70", "--pid", target.pid, "--duration", "2.5", "--format", "json"]
    result = nilo("oom", "--monitor", *options, extra_env=NO_GPU)
    warning, end = lines(result.stdout)
    assert result.returncode == 1
    assert (warning["event"], warning["name"], warning["limit_bytes"]) == ("warning", "job memory", 256 * MIB)
    assert 70 < warning["used_percent"] < 95 and warning["recommendations"]
    assert (end["event"], end["warnings"], end["ended"], end["oom_killed"]) == ("end", 1, False, False)
    assert os.path.basename(end["run"]) == nilo.run_folder().name


def test_a_short_look_says_how_things_stand_and_keeps_nothing(nilo, cgroup, job):
    cgroup.limit(256 * MIB)
    target = held(job, 200, preexec_fn=cgroup.enter)
    full = nilo("oom", "--threshold", "70", "--pid", target.pid, "--duration", "1", extra_env=NO_GPU)
    assert full.returncode == 1
    assert f"(PID {target.pid}): monitored for 1" in full.stdout
    assert "[WARNING] OOM Warning: job memory" in full.stdout and "host memory: low risk" in full.stdout
    assert not (nilo.folder / ".nilo").exists()


def test_a_job_that_is_killed_for_lack_of_memory_is_told_of(nilo, cgroup, job):
    cgroup.limit(128 * MIB)
    hog = "import time\ntime.sleep(1.5)\nheld = []\nwhile True: held.append(bytearray(b'x') * (8 << 20)); time.sleep(.02)"
    target = job(*python(hog), preexec_fn=cgroup.enter)
    result = nilo("oom", "--monitor", "--threshold", "100", "--pid", target.pid, "--interval", "0.05", extra_env=NO_GPU)
    assert result.returncode == 1
    assert "ran out of memory" in result.stderr and f"(PID {target.pid}) has ended" in result.stderr
    assert nilo.show()["status"] == "oom-killed"


def test_the_own_cgroup_is_looked_at_where_no_process_is_named(nilo, cgroup):
    cgroup.limit(256 * MIB)
    result = nilo("oom", "--duration", "1", preexec_fn=cgroup.enter, extra_env=NO_GPU)
    assert result.returncode == 0, result.stderr
    assert f"cgroup {cgroup.path}: low risk" in result.stdout and "256 MiB" in result.stdout
    assert "host memory: low risk" in result.stdout


def test_a_profile_has_the_numbers_of_the_driver(nilo, driver):
    driver.say(gpu_line(6 * GIB), gpu_line(9 * GIB, uuid="GPU-b"))
    result = nilo("profile", "--duration", "2", "--output", "profile.json", extra_env=driver.environment)
    assert result.returncode == 0, result.stderr
    report = json.loads((nilo.folder / "profile.json").read_text())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", report["timestamp"])
    usage = report["devices"]["0"]["current_usage"]
    assert usage == {
        "allocated": 6 * GIB, "free": 9 * GIB, "total": 15 * GIB, "utilization_percent": 40.0, "limit": "Fake G16",
    }
    statistics = report["devices"]["1"]["statistics"]
    assert (statistics["avg_utilization"], statistics["max_utilization"], statistics["peak_allocated"]) == (60, 60, 9 * GIB)
    assert statistics["samples_count"] > 2, "a level that stands still was looked at all the same"
    assert report["summary"] == {"total_devices": 2, "total_memory_gb": 30.0, "overall_utilization": 50.0}
    assert report["host"]["current_usage"]["total"] > 0
    assert "MEMORY PROFILE" in result.stdout and "GPU 1" in result.stdout and "profile.json" in result.stdout
    assert not (nilo.folder / ".nilo").exists()


def test_the_report_has_the_keys_of_the_python_profiler(nilo, driver, job, tmp_path):
    driver.say(gpu_line(6 * GIB))
    program = """
        import json
        from nilometer.memory import MemoryProfiler
        profiler = MemoryProfiler(0.05, devices=[0, "host"])
        profiler.start_monitoring()
        profiler.stop_monitoring()
        print(json.dumps(profiler.generate_report()))
    """
    of_python = json.loads(run_program(program, tmp_path, **driver.environment).stdout)
    target = held(job, 50)
    options = ["--devices", "0", "--pid", target.pid, "--duration", "1", "--format", "json", "--quiet"]
    result = nilo("profile", *options, extra_env=driver.environment)
    report = json.loads(result.stdout)
    assert set(of_python) <= set(report)
    assert set(of_python["summary"]) == set(report["summary"])
    for theirs, ours in (
        (of_python["devices"]["0"], report["devices"]["0"]),
        (of_python["devices"]["host"], report["processes"]),
    ):
        assert set(theirs) == set(ours)
        assert set(theirs["statistics"]) == set(ours["statistics"])
        assert set(theirs["current_usage"]) == set(ours["current_usage"])
    for key in ("allocated", "free", "total", "utilization_percent", "limit"):
        assert of_python["devices"]["0"]["current_usage"][key] == report["devices"]["0"]["current_usage"][key]
    assert report["processes"]["current_usage"]["allocated"] > 50 * MIB
    assert [process["pid"] for process in report["watched"]] == [target.pid]
    assert os.path.basename(report["run"]) == nilo.run_folder().name


def test_without_a_gpu_the_host_is_measured_and_that_is_said(nilo, tmp_path):
    scrap = tmp_path / "scrap"
    scrap.mkdir()
    result = nilo("profile", "--duration", "1", "--format", "json", extra_env=NO_GPU | {"TMPDIR": str(scrap)})
    report = json.loads(result.stdout)
    assert (result.returncode, report["devices"], report["summary"]["total_devices"]) == (0, {}, 0)
    assert report["notes"] == ["no NVIDIA or AMD GPU found"]
    assert 0 < report["host"]["current_usage"]["utilization_percent"] < 100
    assert list(scrap.iterdir()) == [], "what was recorded for the look is gone"
    text = nilo("profile", "--duration", "0.5", extra_env=NO_GPU)
    assert "note: no NVIDIA or AMD GPU found" in text.stdout


def interruptible():
    """A shell in the background has its children ignore the key."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_profile_is_written_all_the_same(nilo, job, number):
    target = held(job, 50)
    process = nilo.start(
        "profile", "--pid", target.pid, "--duration", "0", "--output", "profile.json",
        extra_env=NO_GPU, preexec_fn=interruptible,
    )
    wait_until(lambda: list((nilo.folder / ".nilo").glob("*/*.nilo")), "the recording to begin")
    time.sleep(0.5)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    report = json.loads((nilo.folder / "profile.json").read_text())
    assert report["processes"]["statistics"]["samples_count"] >= 1
    assert "MEMORY PROFILE" in out
    assert target.poll() is None


def test_a_process_that_ends_ends_the_look(nilo, job):
    target = job("sleep", "2")
    result = nilo("monitor", "--all", "--pid", target.pid, extra_env=NO_GPU)
    assert result.returncode == 0
    assert f"nilo: sleep (PID {target.pid}) has ended" in result.stderr
    assert "Warnings: none" in result.stdout and "Leaks:    too short to tell" in result.stdout


def test_monitor_in_a_pipe_writes_plain_lines_and_warnings(nilo, driver):
    driver.say(gpu_line(14 * GIB), gpu_line(GIB, uuid="GPU-b"))
    result = nilo("monitor", "--all", "--duration", "3", "--output", "m.json", extra_env=driver.environment)
    assert result.returncode == 1
    assert re.search(r"^\ds of 3s \| host memory .*\| GPU 0 14\.00 GiB \(\d+\.\d%\)", result.stdout, re.M)
    assert "[WARNING] OOM Warning: GPU 0\n" in result.stdout and "OOM Warning: GPU 1" not in result.stdout
    assert "Warnings: 1" in result.stdout and "\x1b" not in result.stdout + result.stderr
    assert json.loads((nilo.folder / "m.json").read_text())["summary"]["total_devices"] == 2
    as_json = nilo("monitor", "--oom", "--devices", "1", "--duration", "2", "--format", "json", extra_env=driver.environment)
    events = lines(as_json.stdout)
    assert as_json.returncode == 0
    assert [event["event"] for event in events] == ["level", "end"]
    assert [resource["name"] for resource in events[0]["resources"]] == ["GPU 1"]


def test_a_reader_that_goes_away_ends_the_look(nilo, driver):
    driver.say(gpu_line(14 * GIB))
    process = nilo.start("monitor", "--all", extra_env=driver.environment)
    process.stdout.readline()
    process.stdout.close()
    process.wait(timeout=60)
    process.stderr.close()


def test_on_a_narrow_terminal_the_level_is_one_line_that_fits(nilo, job):
    target = held(job, 50)
    command = ["env", "NILO_NVML=", NILO, "monitor", "--all", "--pid", str(target.pid)]
    terminal = Terminal(command, nilo.folder, columns=40)
    terminal.read(until=r"\x1b\[\?7l2s \| job memory")
    terminal.type("\x03")
    rest = terminal.read()
    assert terminal.wait() == 0
    drawn = re.findall(r"\x1b\[\?7l(\d+s \|[^\x1b\r\n^]*)", terminal.text)
    assert drawn and all(len(line) < 40 for line in drawn)
    assert "\r\x1b[K" in terminal.text and "MEMORY PROFILE" in rest and "Warnings: none" in rest


def test_a_leak_check_shows_how_far_it_is_on_a_terminal(nilo, job):
    target = held(job, 50)
    terminal = Terminal(["env", "NILO_NVML=", NILO, "leak", "--check", "--pid", str(target.pid)], nilo.folder)
    terminal.read(until=r"\x1b\[\?7l1s of 3[01]s \| job memory")
    terminal.type("\x03")
    terminal.read(until="at least 10 seconds")
    terminal.read()
    assert terminal.wait() == 2


def test_gpus_are_chosen_by_index_and_an_unknown_one_is_refused(nilo, driver):
    driver.say(gpu_line(14 * GIB), gpu_line(GIB, uuid="GPU-b"))
    result = nilo("oom", "--devices", "1", "--threshold", "90", "--duration", "1", extra_env=driver.environment)
    assert result.returncode == 0, result.stderr
    assert "GPU 1: low risk" in result.stdout and "GPU 0" not in result.stdout and "host" not in result.stdout
    refused = nilo("profile", "--devices", "0", "2", extra_env=driver.environment)
    assert refused.returncode == 2
    assert "error: there is no GPU 2\nhint: --devices takes 0 (Fake G16), 1 (Fake G16)" in refused.stderr


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["profile", "--pid", "4000000"], "4000000"),
        (["oom", "--monitor", "--name", "no-such-program-anywhere"], 'no process matches "no-such-program-anywhere"'),
        (["profile", "--devices", "0"], "no NVIDIA or AMD GPU found"),
        (["profile", "--output", "no/such/folder/p.json"], "cannot write the report no/such/folder/p.json"),
        (["monitor", "--output", "."], "cannot write the report ."),
        (["oom", "--monitor", "--threshold", "0"], "a threshold of 0 percent is out of range"),
        (["oom", "--monitor", "--threshold", "101"], "a threshold of 101 percent is out of range"),
        (["monitor", "--threshold", "nan"], "a threshold of NaN percent is out of range"),
        (["monitor", "--leak-threshold", "-5"], "not a number of MiB (example: 100)"),
        (["leak", "--check", "--pid", os.getpid(), "--duration", "5"], "5 seconds is too short to detect a leak"),
        (["profile", "--duration", "-5"], "a duration cannot be negative"),
        (["oom", "last", "--monitor"], "cannot be used with"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_measured(nilo, arguments, sentence):
    result = nilo(*arguments, extra_env=NO_GPU)
    assert result.returncode == 2
    assert result.stdout == "" and result.stderr.count("error:") == 1 and sentence in result.stderr
    assert "monitoring " not in result.stderr
    assert not (nilo.folder / ".nilo").exists()


def test_several_matches_are_listed_and_none_is_guessed(nilo, job):
    for _ in range(2):
        job(sys.executable, "-c", "import time; time.sleep(60)", "twice-here")
    result = nilo("profile", "--name", "twice-here")
    assert result.returncode == 2
    assert '2 processes match "twice-here"' in result.stderr and "hint: choose with --pid" in result.stderr


def test_manual_pages_know_the_verbs(nilo):
    assert nilo("man", "--output", "man").returncode == 0
    pages = {path.name for path in (nilo.folder / "man").iterdir()}
    assert {"nilo-profile.1", "nilo-monitor.1"} <= pages


def test_a_warning_is_over_after_a_time_of_calm(long_look):
    process, block = long_look
    assert block[0] == "[WARNING] OOM Warning: GPU 0\n"
    assert block[2] == "   Current Usage: 93.3%\n", "of what the driver leaves, 14 of 15 GiB"
    for line in process.stdout:
        if line.startswith("[OK]"):
            break
    assert line.startswith("[OK] OOM Warning over: GPU 0 is back at ")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 1
