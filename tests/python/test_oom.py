"""How it ended, when memory ran out: real limits, real kills."""

import json
import os
import pathlib
import signal
import re
import subprocess
import time

import pytest
from conftest import MIB, python, unavailable, wait_until

HOG = "b=[]\nimport time\nwhile 1: b.append(bytearray(b'x')*(8<<20)); time.sleep(.02)"


def test_an_oom_kill_is_told_with_limit_and_source(nilo, cgroup):
    cgroup.limit(128 * MIB)
    result = nilo("run", "--interval", "0.05", "--", *python(HOG), preexec_fn=cgroup.enter)
    assert result.returncode == 137
    assert cgroup.kills == 1
    shown = nilo.show()
    assert shown["status"] == "oom-killed"
    oom = shown["oom"]
    assert oom["certainty"] == "certain"
    assert oom["limit"]["bytes"] == 128 * MIB
    assert oom["limit"]["source"]["path"] == cgroup.path
    assert 0 < oom["time_nanos"] <= shown["duration_secs"] * 1e9 + 1
    assert shown["memory"]["limit_bytes"] == 128 * MIB
    assert "OOM-killed" in result.stderr and "128.00 MiB" in result.stderr
    # The kernel's mark, not the last sample: the peak is at the limit.
    assert shown["memory"]["peak_bytes"] > 100 * MIB
    assert shown["findings"][0]["kind"] == "oom-kill"


def test_sigkill_by_a_person_is_no_oom(nilo, cgroup):
    cgroup.limit(128 * MIB)
    result = nilo("run", "--interval", "0.05", "--", "sh", "-c", "sleep .3; kill -9 $$", preexec_fn=cgroup.enter)
    assert result.returncode == 137
    shown = nilo.show()
    assert (shown["status"], shown["oom"]) == ("killed", None)


def test_a_killed_child_under_a_parent_that_exits_zero(nilo, cgroup):
    cgroup.limit(128 * MIB)
    code = f"import os,time\nif os.fork()==0:\n  exec({HOG!r})\nos.wait()\ntime.sleep(.2)\nprint('parent is fine')"
    result = nilo("run", "--interval", "0.05", "--", *python(code), preexec_fn=cgroup.enter)
    assert (result.returncode, result.stdout) == (0, "parent is fine\n")
    shown = nilo.show()
    assert (shown["status"], shown["exit_code"]) == ("oom-killed", 0)
    pids = [process["pid"] for process in shown["processes"]]
    assert shown["oom"]["victim_pid"] in pids and shown["oom"]["victim_pid"] != shown["processes"][-1]["parent"]


def test_a_killed_child_of_a_parent_that_waits_for_ever_has_run_out_in_every_command(nilo, cgroup):
    cgroup.limit(128 * MIB)
    code = f"import os,time\nif os.fork()==0:\n  exec({HOG!r})\nos.wait()\ntime.sleep(600)"
    process = nilo.start("run", "-q", "--interval", "0.05", "--", *python(code), preexec_fn=cgroup.enter)
    try:
        wait_until(lambda: "it ran out of memory after" in nilo("oom").stdout, "the kill to be told")
        told = nilo("oom")
        assert told.returncode == 1 and "running for" in told.stdout
        answer = json.loads(nilo("oom", "--format", "json").stdout)
        assert answer["resources"][0]["ran_out"]["kind"] == "oom-kill"
        shown = nilo.show()
        assert shown["status"] == "running"
        first = shown["findings"][0]
        assert (first["kind"], first["severity"]) == ("oom-kill", "critical")
        assert "was killed by the kernel" in first["text"]
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert nilo("oom").returncode == 1


def test_the_time_of_a_kill_is_not_that_of_the_end(nilo, cgroup):
    cgroup.limit(128 * MIB)
    code = f"import os,time\nif os.fork()==0:\n  exec({HOG!r})\nos.wait()\ntime.sleep(3)\nraise SystemExit(5)"
    assert nilo("run", "-q", "--interval", "0.05", "--", *python(code), preexec_fn=cgroup.enter).returncode == 5
    first, *_ = nilo("oom").stdout.splitlines()
    told = re.search(r": oom-killed after (\S+) (ms|seconds?); the command itself exited with 5 after (\S+) seconds?; at its end:$", first)
    assert told, first
    shown = nilo.show()
    killed_secs = float(told[1]) * (1e-3 if told[2] == "ms" else 1)
    assert killed_secs == pytest.approx(shown["oom"]["time_nanos"] / 1e9, abs=0.51)
    assert float(told[3]) > killed_secs


def test_files_in_memory_that_filled_the_limit_are_told(nilo, cgroup, job):
    """Nobody maps what lies in a tmpfs: the job's processes held little of the limit that ran out."""
    cgroup.limit(128 * MIB)
    # Somebody else is in the cgroup, so that its figures are not the job's alone.
    job("sleep", "60", preexec_fn=cgroup.enter)
    code = f"open({str(cgroup.procs)!r},'w').write('0')\n" + """
import os, time
file = open(f"/dev/shm/nilo-test-{os.getpid()}", "wb")
os.unlink(file.name)
while True:
    file.write(bytes(1 << 20))
    file.flush()
    time.sleep(.005)
"""
    assert nilo("run", "-q", "--interval", "0.05", "--", *python(code)).returncode == 137
    shown = nilo.show()
    assert shown["status"] == "oom-killed"
    memory, oom = shown["memory"], shown["oom"]
    assert memory["peak_bytes"] < 40 * MIB
    assert memory["limit_use"]["shmem_bytes"] > 90 * MIB
    assert 120 * MIB < oom["peak_bytes"] <= 128 * MIB
    [listed] = nilo.runs()
    assert listed["oom"]["peak_bytes"] == oom["peak_bytes"]
    judged = json.loads(nilo("oom", "--format", "json").stdout)["resources"][0]
    assert judged["used_percent"] > 90
    assert judged["ran_out"]["peak_bytes"] == oom["peak_bytes"]
    text = nilo("show").stdout
    assert "of it in /dev/shm and other tmpfs" in text
    assert "in /dev/shm and other tmpfs" in nilo("oom").stdout


FILL_TMPFS = """
import os, time
with open(f"/dev/shm/nilo-test-{os.getpid()}", "wb") as file:
    os.unlink(file.name)
    file.write(bytes(100 << 20))
    file.flush()
    time.sleep(1.5)
"""


def test_files_in_memory_are_used_of_the_limit_in_every_view(nilo, cgroup):
    """100 MiB of a limit of 128 lie in a tmpfs, and no process holds them."""
    cgroup.limit(128 * MIB)
    run = nilo("run", "-q", "--interval", "0.05", "--", *python(FILL_TMPFS), preexec_fn=cgroup.enter)
    assert run.returncode == 0, run.stderr
    memory = nilo.show()["memory"]
    used = memory["limit_used_bytes"]
    assert memory["peak_bytes"] < 90 * MIB < used <= 128 * MIB
    parts = memory["limit_use"]
    assert parts["anon_bytes"] + parts["shmem_bytes"] + parts["page_cache_bytes"] >= 0.9 * parts["peak_bytes"]
    [listed] = nilo.runs()
    assert (listed["limit_bytes"], listed["limit_used_bytes"]) == (128 * MIB, used)
    text = nilo("runs").stdout
    assert "CHARGED" in text and f"{used / MIB:.2f} MiB" in text
    shown = nilo("show").stdout
    assert f"{used / MIB:.2f} MiB charged to the cgroup" in shown
    assert f"{round(100 * used / (128 * MIB))} % of it used" in shown
    asked = json.loads(nilo("request", "--format", "json").stdout)
    assert asked["present_limit"]["used_ratio"] == pytest.approx(used / (128 * MIB))
    assert not any("read from disk" in note for note in asked["notes"])
    assert nilo("plot", "-o", "x.svg").returncode == 0
    assert ">charged to the cgroup, sampled<" in (nilo.folder / "x.svg").read_text()


def test_parts_of_a_limit_that_ran_out_add_up_to_it(nilo, cgroup):
    cgroup.limit(128 * MIB)
    code = HOG.replace("8<<20", "2<<20")
    assert nilo("run", "-q", "--interval", "0.02", "--", *python(code), preexec_fn=cgroup.enter).returncode == 137
    memory = nilo.show()["memory"]
    parts = memory["limit_use"]
    if parts["anon_bytes"] is not None:
        assert parts["anon_bytes"] + (parts["shmem_bytes"] or 0) + (parts["page_cache_bytes"] or 0) >= 0.9 * parts["peak_bytes"]
    assert memory["limit_used_bytes"] >= parts["peak_bytes"]
    assert "charged to the cgroup" in nilo("oom").stdout


def test_a_cgroups_peak_is_never_below_its_working_set(nilo, cgroup):
    cgroup.limit(512 * MIB)
    code = "import time\nheld = []\nfor _ in range(40):\n  held.append(bytearray(3 << 20))\n  time.sleep(.02)"
    assert nilo("run", "-q", "--interval", "0.02", "--", *python(code), preexec_fn=cgroup.enter).returncode == 0
    memory = nilo.show()["memory"]
    assert memory["cgroup_peak_bytes"] >= memory["cgroup_working_set_peak_bytes"] > 100 * MIB


def test_a_job_that_moves_itself_into_a_limited_cgroup(nilo, cgroup):
    cgroup.limit(128 * MIB)
    code = f"open({str(cgroup.procs)!r},'w').write('0')\nimport time\ntime.sleep(.3)\n" + HOG
    result = nilo("run", "--interval", "0.05", "--", *python(code))
    assert result.returncode == 137
    shown = nilo.show()
    assert shown["status"] == "oom-killed"
    assert shown["oom"]["limit"]["bytes"] == 128 * MIB


def test_watching_a_process_that_is_oom_killed(nilo, cgroup, job):
    cgroup.limit(128 * MIB)
    target = job(*python("import time; time.sleep(1)\n" + HOG), preexec_fn=cgroup.enter)
    result = nilo("watch", "--pid", target.pid, "--interval", "0.05")
    assert result.returncode == 0
    assert nilo.show()["status"] == "oom-killed"


def test_the_verdict_from_the_files_alone_when_the_recorder_died_too(nilo, cgroup):
    """The recorder is killed at the moment of the OOM kill, as `memory.oom.group` does: a later reader decides."""
    cgroup.limit(192 * MIB)
    process = nilo.start("run", "--interval", "0.02", "--", *python(HOG), preexec_fn=cgroup.enter)
    wait_until(lambda: cgroup.kills >= 1 or process.poll() is not None, "the kill", 60)
    process.kill()
    process.wait()
    shown = nilo.show()
    if shown["exit_code"] is None and shown["signal"] is None:
        assert shown["status"] == "oom-killed"
        assert shown["oom"]["certainty"] in ("certain", "likely")
        assert shown["recorder_death"]["pid"] == process.pid
    # The same from a copy of the folder, where neither the cgroup nor the boot is known.
    import json, shutil

    copy = nilo.folder / "elsewhere" / "copied"
    shutil.copytree(nilo.run_folder(), copy)
    description = json.loads((copy / "run.json").read_text())
    description["boot_id"] = "0" * 32
    description.pop("ending", None)
    (copy / "run.json").write_text(json.dumps(description))
    assert nilo.show(str(copy))["status"] == "oom-killed"


def test_page_cache_is_not_taken_for_memory(nilo, cgroup, tmp_path):
    cgroup.limit(256 * MIB)
    code = f"f=open({str(tmp_path / 'big')!r},'wb')\nfor _ in range(300): f.write(b'x'*(1<<20))\nf.flush()\nimport time\ntime.sleep(1.2)"
    assert nilo("run", "--quiet", "--interval", "0.05", "--", *python(code), preexec_fn=cgroup.enter).returncode == 0
    shown = nilo.show()
    assert shown["status"] == "exited"
    assert shown["memory"]["peak_bytes"] < 100 * MIB, shown["memory"]


def test_a_limit_that_changes_is_noticed(nilo, cgroup):
    cgroup.limit(512 * MIB)
    process = nilo.start("run", "--quiet", "--interval", "0.05", "--", "sleep", "4", preexec_fn=cgroup.enter)
    time.sleep(2.5)
    cgroup.limit(256 * MIB)
    process.wait()
    assert nilo.show()["memory"]["limit_bytes"] == 256 * MIB


def test_allocation_failure_is_not_an_oom_kill(nilo):
    command = ["--", "sh", "-c", f"ulimit -v 300000; exec {python('')[0]} -c 'import time; time.sleep(.5); x=bytearray(1<<30)'"]
    assert nilo("run", "--interval", "0.02", "--no-hooks", *command).returncode == 1
    shown = nilo.show()
    assert (shown["status"], shown["oom"]) == ("exited", None)
    assert nilo("run", "--interval", "0.02", *command).returncode == 1
    shown = nilo.show()
    assert (shown["status"], shown["oom"]["kind"], shown["oom"]["certainty"]) == ("exited", "host-allocation", "certain"), "the exception says so"


def test_a_program_that_fails_at_its_own_limit_ran_out(nilo):
    """Nobody kills it and nobody tells of its exception: the level before its end does."""
    code = "import time\nx = []\nwhile True:\n    x.append(bytearray(b'x') * (5 << 20)); time.sleep(.02)"
    result = nilo("run", "--quiet", "--no-hooks", "--interval", "0.02", "--", "sh", "-c", f"ulimit -v 400000; exec {python('')[0]} -c \"{code}\"")
    assert result.returncode == 1 and "MemoryError" in result.stderr
    shown = nilo.show()
    assert (shown["status"], shown["oom"]["kind"], shown["oom"]["certainty"]) == ("exited", "host-allocation", "likely")
    [finding] = [finding for finding in shown["findings"] if finding["kind"] == "out-of-memory"]
    assert "most likely failed in" in finding["text"] and "of RLIMIT_AS" in finding["evidence"][0]
    told = nilo("oom")
    assert told.returncode == 1 and "it has run out" in told.stdout and "Risk Level: critical" in told.stdout
    used = re.search(r"Current Usage: ([\d.]+)%", told.stdout)
    assert float(used[1]) > 90, told.stdout
    advice = nilo("optimize").stdout
    assert "raise `ulimit -v` (390.62 MiB now)" in advice and "ulimit -v 600000 where it is set to 400000" in advice, advice
    assert "nilo request" not in advice, "no request for memory raises that limit"


def test_a_program_that_limits_itself_ran_out_of_that_limit(nilo):
    code = (
        "import resource, time\nresource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))\n"
        "x = []\nwhile True:\n    x.append(bytearray(b'x') * (9 << 20)); time.sleep(.03)"
    )
    assert nilo("run", "--quiet", "--", *python(code)).returncode == 1
    memory = nilo.show()["memory"]
    assert (memory["limit_source"], memory["limit_bytes"]) == ("RLIMIT_AS", 400 << 20)
    assert 0.9 < memory["limit_used_bytes"] / memory["limit_bytes"] <= 1, memory
    told = nilo("oom")
    assert told.returncode == 1 and told.stdout.count("OOM Warning") == 1, told.stdout
    assert "OOM Warning: address space" in told.stdout and "it has run out" in told.stdout, told.stdout


def test_what_is_mapped_and_never_touched_counts_against_a_limit_of_addresses(nilo):
    code = "import mmap, time\nx = []\nwhile True:\n    x.append(mmap.mmap(-1, 20 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)); time.sleep(.01)"
    result = nilo("run", "--quiet", "--interval", "0.02", "--", "sh", "-c", f"ulimit -v 2000000; exec {python('')[0]} -c \"{code}\"")
    assert result.returncode == 1, result.stderr
    shown = nilo.show()
    memory = shown["memory"]
    assert (memory["limit_source"], memory["limit_counts"]) == ("RLIMIT_AS", "address-space")
    assert memory["peak_bytes"] < 100 << 20, "hardly anything was touched"
    assert 0.9 < memory["limit_used_bytes"] / memory["limit_bytes"] <= 1
    assert shown["oom"]["kind"] == "host-allocation"
    told = nilo("oom").stdout
    assert "OOM Warning: address space" in told and "no limit of its own" in told, told
    assert "Current limit" not in nilo("request").stdout


def test_a_limit_of_data_has_a_forecast_of_its_own(nilo):
    code = "import time\nx = bytearray(b'x') * (200 << 20)\ntime.sleep(3)"
    result = nilo("run", "--quiet", "--", "sh", "-c", f"ulimit -d 400000; exec {python('')[0]} -c \"{code}\"")
    assert result.returncode == 0, result.stderr
    memory = nilo.show()["memory"]
    assert (memory["limit_source"], memory["limit_counts"]) == ("RLIMIT_DATA", "data-size")
    told = json.loads(nilo("oom", "--format", "json").stdout)["resources"]
    [data] = [resource for resource in told if resource["name"] == "data size"]
    assert data["limit_bytes"] == 400000 * 1024
    assert 50 < data["used_percent"] < 90, data


def test_shared_memory_without_a_file_is_not_to_be_deleted(nilo, cgroup):
    cgroup.limit(200 << 20)
    code = "import mmap, time\nx = []\nwhile True:\n    m = mmap.mmap(-1, 4 << 20); m[:] = bytes([1]) * (4 << 20); x.append(m); time.sleep(.1)"
    nilo("run", "--quiet", "--", *python(code), preexec_fn=cgroup.enter)
    use = nilo.show()["memory"]["limit_use"]
    assert use["shared_mapping_bytes"] > 0.8 * use["shmem_bytes"] > 100 << 20, use
    told = nilo("oom").stdout
    assert "shared memory that processes map (no file)" in told, told
    assert "Delete files" not in told


def test_a_program_that_fails_far_below_its_limit_did_not(nilo):
    code = "x = bytearray(b'x') * (50 << 20)\nraise SystemExit(3)"
    nilo("run", "--quiet", "--interval", "0.02", "--", "sh", "-c", f"ulimit -v 4000000; exec {python('')[0]} -c \"{code}\"")
    assert nilo("oom").returncode == 0
    assert not [finding for finding in nilo.show()["findings"] if finding["kind"] == "out-of-memory"]


def test_a_neighbours_kill_is_not_blamed_on_the_job(nilo, cgroup, job):
    """Somebody else in the cgroup is OOM-killed; the job lives on and is killed by a person later."""
    cgroup.limit(128 * MIB)
    process = nilo.start("run", "--quiet", "--interval", "0.05", "--", "sh", "-c", "sleep 4; kill -9 $$", preexec_fn=cgroup.enter)
    time.sleep(0.5)
    job(*python(HOG), preexec_fn=cgroup.enter)
    assert process.wait(60) == 137
    assert cgroup.kills == 1
    assert nilo.show()["status"] == "killed"


def test_cgroups_of_killed_test_processes_are_removed(request):
    code = "import os; path = f'/sys/fs/cgroup/memory/nilo-test-{os.getpid()}-left'; print(path, flush=True); os.makedirs(path + '/task'); os.kill(os.getpid(), 9)"
    killed = subprocess.run(python(code), capture_output=True, text=True)
    if killed.returncode != -signal.SIGKILL:
        unavailable(f"no writable cgroup v1 memory hierarchy: {killed.stderr}")
    left = pathlib.Path(killed.stdout.strip())
    assert left.exists()
    request.getfixturevalue("cgroup")
    assert not left.exists()
