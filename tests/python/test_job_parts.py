"""What a run inside a job shows: its own time and its own processes, cut out of what the job recorded."""

import json
import subprocess
import sys
import textwrap

from conftest import GIB, MIB, wait_until


def write(folder, name, text):
    (folder / name).write_text(textwrap.dedent(text))
    return f"{sys.executable} {name}"


HOLD = """
    def hold(mib):
        held = bytearray(mib << 20)
        held[::4096] = b"x" * len(held[::4096])
        return held
"""


def test_memory_that_was_freed_before_a_run_is_not_its_peak(nilo, folder):
    program = write(folder, "in_turn.py", f"""{HOLD}
    import time, nilometer
    for turn in range(6):
        nilometer.init(name=f"large-{{turn}}")
        held = hold(200)
        time.sleep(0.13)
        del held
        nilometer.init(name=f"small-{{turn}}")
        time.sleep(0.25)
    """)
    assert nilo("run", "--", *program.split()).returncode == 0
    peaks = {run["name"]: run["peak_bytes"] for run in nilo.runs() if run.get("parent")}
    assert len(peaks) == 12
    for turn in range(6):
        told = nilo.show(f"small-{turn}")["memory"]
        assert told["peak_bytes"] < 60 * MIB, (turn, told)
        assert told["peak_bytes"] == peaks[f"small-{turn}"]
    assert max(peaks.values()) > 200 * MIB
    # What recording cost is the job's.
    assert "Recorder Cost" not in nilo("show", "small-0").stdout


def test_spikes_beside_the_beginning_and_the_end_of_a_run_are_its_own(nilo, folder):
    """Shorter than the time between two samples: the program tells the kernel's mark when a run begins and ends."""
    program = write(folder, "spikes.py", f"""{HOLD}
    import time, nilometer
    for name, early, late in ("before", 60, 0), ("quiet", 0, 0), ("after", 0, 120), ("still", 0, 0):
        nilometer.init(name=name)
        hold(early)
        time.sleep(0.5)
        hold(late)
        nilometer.finish()
    hold(200)
    time.sleep(0.5)
    """)
    assert nilo("run", "--interval", "0.2", "--", *program.split()).returncode == 0
    told = {run["name"]: run["peak_bytes"] / MIB for run in nilo.runs() if run.get("parent")}
    assert 60 < told["before"] < 110 < 120 < told["after"] < 170, told
    assert told["quiet"] < 50 and told["still"] < 50, told
    for name, peak in told.items():
        assert nilo.show(name)["memory"]["peak_bytes"] == peak * MIB


def test_a_process_that_ended_before_a_run_is_not_in_it(nilo, folder):
    prepare = write(folder, "prepare.py", f"{HOLD}\n    import time\n    held = hold(200); time.sleep(0.3)")
    program = write(folder, "after.py", f"""
    import subprocess, sys, time, nilometer
    for turn in range(4):
        subprocess.run({prepare.split()!r}, check=True)
        nilometer.init(name=f"train-{{turn}}")
        time.sleep(0.25)
        nilometer.finish()
    """)
    assert nilo("run", "--", *program.split()).returncode == 0
    for turn in range(4):
        told = nilo.show(f"train-{turn}")
        assert told["memory"]["peak_bytes"] < 60 * MIB, (turn, told["memory"])
        assert all("prepare.py" not in process["command"] for process in told["processes"])


def test_pages_shared_with_the_launcher_count_for_the_run(nilo, folder):
    (folder / "weights").write_bytes(b"w" * (100 * MIB))
    mapped = f"""{HOLD}
    import mmap, pathlib, subprocess, sys, time
    file = open("weights", "rb")
    weights = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert sum(weights[::4096]) > 0
    """
    worker = write(folder, "worker.py", f"""{mapped}
    held = hold(30)
    time.sleep(1.5)
    """)
    train = write(folder, "train.py", f"""{mapped}
    import nilometer
    with nilometer.init(name="train"):
        held = hold(30)
        subprocess.run({worker.split()!r}, check=True)
    """)
    launch = write(folder, "launch.py", f"{mapped}\n    subprocess.run({train.split()!r}, check=True)")
    other = write(folder, "other.py", "import nilometer\nnilometer.init(name='other')\n")
    line = f"{launch}; {other}"
    assert nilo("run", "--", "sh", "-c", line).returncode == 0
    # The weights once, and what the training and its worker hold; both are interpreters of some 15 MiB.
    peak = nilo.show("train")["memory"]["peak_bytes"]
    assert 160 * MIB < peak < 205 * MIB, peak / MIB


def test_a_run_is_not_charged_for_its_neighbours(nilo, folder, cgroup):
    """In the job's own cgroup two trainings side by side, and one whose parent holds memory."""
    for name, mib in (("large", 300), ("small", 20)):
        write(folder, f"{name}.py", f"""
        import time, nilometer
        with nilometer.init(name={name!r}) as run:
            held = bytearray(b"x") * ({mib} << 20)
            for step in range(10):
                run.log({{"loss": step}})
                time.sleep(0.1)
        """)
    parent = write(folder, "parent.py", f"""
        import subprocess, sys
        held = bytearray(b"x") * (300 << 20)
        subprocess.run([{sys.executable!r}, "small.py"], check=True)
    """)
    cgroup.limit(2 * GIB)
    lines = [f"{sys.executable} large.py & {sys.executable} small.py; wait", parent]
    for line in lines:
        assert nilo("run", "--quiet", "--", "sh", "-c", f"{line}; true", preexec_fn=cgroup.enter).returncode == 0
        memory = nilo.show("small")["memory"]
        assert memory["limit_used_bytes"] == memory["peak_bytes"] < 100 * MIB, memory
        assert memory["limit_bytes"] == 2 * GIB
        # Of the whole job it is what its cgroup was charged.
        assert 300 * MIB < nilo.show("last")["memory"]["limit_used_bytes"]
        asked = json.loads(nilo("request", "small", "--format", "json").stdout)
        assert asked["memory"]["bytes"] < 200 * MIB, asked


def test_a_killed_run_ends_when_its_process_does(nilo, folder):
    killed = write(folder, "killed.py", """
    import os, signal, time, nilometer
    run = nilometer.init(name="killed")
    for step in range(6):
        run.log({"loss": step}, step=step)
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)
    """)
    other = write(folder, "other.py", "import nilometer\nnilometer.init(name='other')\n")
    assert nilo("run", "--name", "job", "--", "sh", "-c", f"{killed}; sleep 2; {other}").returncode == 0
    told, job = nilo.show("killed"), nilo.show("job")
    # It was asleep for 0.6 s, the job for 2 s after it.
    assert 0.5 < told["duration_secs"] < job["duration_secs"] - 1.9
    assert (told["status"], told["exit_code"]) == ("ended", None)
    listed = next(run for run in nilo.runs() if run["name"] == "killed")
    assert (listed["status"], listed["duration_secs"]) == (told["status"], told["duration_secs"])
    assert "only its parent can read it" in nilo("show", "killed").stdout
    exported = json.loads(nilo("export", "killed", "--format", "json").stdout)
    assert exported["run"]["ending"]["time_nanos"] / 1e9 == told["duration_secs"]


def test_the_command_that_is_killed_as_a_run_of_its_own_job(nilo, folder):
    killed = write(folder, "killed.py", """
    import os, signal, time, nilometer
    nilometer.init(name="first")
    nilometer.init(name="second")
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)
    """)
    nilo("run", "--", *killed.split())
    told = nilo.show("second")
    assert (told["status"], told["signal"]) == ("killed", 9)
    assert nilo.show("first")["status"] == "exited"
    # What the kernel counted is the whole command's.
    assert "usage" not in told and "usage" not in nilo.show("first")


def test_a_killed_run_lasts_equally_long_in_every_view(nilo, folder):
    killed = write(folder, "killed.py", """
    import os, signal, time, nilometer
    run = nilometer.init(name="killed")
    time.sleep(0.35)
    run.log({"loss": 1.0}, step=1)
    os.kill(os.getpid(), signal.SIGKILL)
    """)
    subprocess.run(killed.split(), cwd=folder, check=False)
    [listed] = nilo.runs()
    assert listed["duration_secs"] == nilo.show("killed")["duration_secs"]


def test_settings_that_ranks_tell_differently_are_those_of_the_first(nilo, folder):
    ranked = write(folder, "ranked.py", """
    import os, pathlib, time, nilometer
    rank = int(os.environ["RANK"])
    begun = pathlib.Path("begun")
    while rank and not begun.exists():
        time.sleep(0.01)
    run = nilometer.init(name="ranked", config={"seed": rank, f"of_rank_{rank}": True})
    run.log({"loss": float(rank)}, step=0)
    (begun if rank == 0 else pathlib.Path("followed")).touch()
    while not pathlib.Path("followed").exists():
        time.sleep(0.01)
    """)
    launch = " ".join(f"RANK={rank} WORLD_SIZE=2 {ranked} &" for rank in range(2))
    assert nilo("run", "--", "sh", "-c", f"{launch} wait").returncode == 0
    config = nilo.show("ranked")["config"]
    assert config["seed"] == 0, config
    lines = nilo("export", "ranked", "--long").stdout.splitlines()
    assert lines[0].endswith(",writer,rank")
    ranks = {line.rsplit(",", 1)[1] for line in lines if ",loss," in line}
    assert ranks == {"0", "1"}


def test_a_process_has_the_name_that_it_had_in_the_time_of_the_run(nilo, folder):
    write(folder, "training.py", """
    import time, nilometer
    nilometer.init(name="training").log({"loss": 1.0})
    time.sleep(0.3)
    """)
    # Launchers fork, and the copy becomes the training only a while later.
    launcher = write(folder, "launcher.py", """
    import os, sys, time
    if os.fork() == 0:
        time.sleep(0.5)
        os.execvp(sys.executable, [sys.executable, "training.py"])
    os.wait()
    """)
    assert nilo("run", "--interval", "0.02", "--", *launcher.split()).returncode == 0
    (process,) = nilo.show("training")["processes"]
    assert process["command"].endswith(" training.py")
    assert sorted(process["command"].split()[-1] for process in nilo.show()["processes"]) == ["launcher.py", "training.py"]


def test_a_run_whose_job_lost_its_recorder_says_so(nilo, folder):
    program = write(folder, "goes_on.py", """
    import os, pathlib, signal, time, nilometer
    run = nilometer.init(name="training")
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        run.log({"loss": 1.0})
        time.sleep(0.05)
    os.kill(os.getppid(), signal.SIGKILL)
    # Long enough to count.
    until = time.monotonic() + 2.5
    while time.monotonic() < until:
        run.log({"loss": 2.0})
        time.sleep(0.05)
    nilometer.finish()
    pathlib.Path("over").touch()
    """)
    assert nilo("run", "-q", "--", *program.split()).returncode == -9
    wait_until((folder / "over").exists, "the training to end")
    (finding,) = [it for it in nilo.show("training")["findings"] if it["kind"] == "memory-ends-early"]
    assert finding["evidence"] == ["the recorder of the job died before the run was over"] and not finding.get("advice")
