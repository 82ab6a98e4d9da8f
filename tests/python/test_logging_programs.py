"""`log` in whole programs: nothing is lost, whatever happens to them."""

import json
import os
import random
import signal
import time

import pytest
from conftest import NILO, python, unavailable
from package import only_run, run_program, start_program

import nilometer


def test_switched_off_nothing_is_written(tmp_path):
    run_program("import nilometer; nilometer.log({'a': 1.0}); nilometer.mark('x'); nilometer.finish()", tmp_path, NILO_MODE="disabled")
    assert list(tmp_path.iterdir()) == []


def test_the_first_point_makes_a_run_with_memory_beside_it(tmp_path):
    code = """
        import nilometer, time
        ballast = bytearray(80 << 20)
        for step in range(20):
            nilometer.log({"loss": 1.0 / (step + 1)}, step=step)
            time.sleep(0.02)
    """
    run_program(code, tmp_path)
    recorded = nilometer.RecordedRun(only_run(tmp_path))
    assert len(recorded.series("loss").value) == 20
    memory = recorded.memory()
    assert len(memory.value) >= 3 and max(memory.value) > 80 << 20
    summary = recorded.summary()
    assert summary["memory"]["peak_bytes"] > 80 << 20
    assert recorded.description["ending"]["status"] == "exited"


def test_a_session_leader_is_one_process_and_not_its_threads_too(tmp_path):
    code = """
        import os, time
        os.setsid()
        import nilometer
        ballast = bytearray(b"x") * (60 << 20)
        nilometer.log({"loss": 1.0}, step=0)
        time.sleep(1)
    """
    run_program(code, tmp_path)
    summary = nilometer.RecordedRun(only_run(tmp_path)).summary()
    assert len(summary["processes"]) == 1, summary["processes"]
    assert summary["memory"]["peak_bytes"] < 110 << 20


def test_under_nilo_run_everything_lands_in_that_run(nilo, tmp_path):
    code = "import nilometer\nfor step in range(50): nilometer.log({'loss': step / 2}, step=step)"
    result = nilo("run", "--quiet", "--", *python_command(code))
    assert result.returncode == 0, result.stderr
    recorded = nilometer.RecordedRun(only_run(tmp_path))
    assert recorded.series("loss").value.tolist() == [step / 2 for step in range(50)]
    assert recorded.description["mode"] == "run"
    assert len(recorded.memory().value) > 0


def python_command(code):
    import sys

    return [sys.executable, "-c", code]


def test_an_unhandled_exception_is_the_end_of_the_run(tmp_path):
    run_program("import nilometer; nilometer.log({'a': 1.0}); raise SystemError('oh')", tmp_path, expect=1)
    ending = nilometer.RecordedRun(only_run(tmp_path)).description["ending"]
    assert (ending["status"], ending["exit_code"]) == ("exited", 1)


BURST = """
    import nilometer, os, signal, sys
    run = nilometer.init(memory=False)
    last = int(sys.argv[1])
    for step in range(last + 1):
        run.log({"loss": step / 2, "b": 1.0, "c": 2.0, "d": 3.0, "e": 4.0}, step=step)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("steps", [1, 137, 20_050, 100_000])
def test_nothing_is_lost_in_a_burst_that_ends_with_kill_9(tmp_path, steps):
    run_program(BURST, tmp_path, steps - 1, expect=-signal.SIGKILL)
    series = nilometer.RecordedRun(only_run(tmp_path)).series("loss")
    assert series.step.tolist() == list(range(steps))
    assert series.value.tolist() == [step / 2 for step in range(steps)]


PACED = """
    import nilometer, time, sys
    run = nilometer.init(memory=False)
    step = 0
    while True:
        run.log({"loss": float(step)}, step=step)
        sys.stdout.write(f"{step}\\n"); sys.stdout.flush()
        step += 1
        time.sleep(0.001)
"""


def test_nothing_is_lost_when_killed_at_a_random_moment(tmp_path):
    chosen = random.Random(3)
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        process = start_program(PACED, folder)
        time.sleep(0.2 + chosen.random() * 0.3)
        process.kill()
        out, _ = process.communicate()
        said = [int(line) for line in out.split("\n")[:-1]]
        if not said:
            continue
        series = nilometer.RecordedRun(only_run(folder)).series("loss")
        # What was said was logged before; one more may have been logged and not said.
        assert len(series.value) - len(said) in (0, 1)
        assert series.step.tolist() == list(range(len(series.value)))


def test_nothing_is_lost_when_the_whole_tree_is_killed(nilo, tmp_path):
    """As a scheduler does it: recorder, program and its children at once."""
    code = """
import nilometer, os, sys, time
for _ in range(2):
    if os.fork() == 0:
        break
run = nilometer.current_run()
for step in range(5000):
    run.log({"loss": float(step)}, step=step)
open(f"done-{os.getpid()}", "w").close()
time.sleep(60)
"""
    process = nilo.start("run", "--quiet", "--", *python_command(code), start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("done-*"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(list(tmp_path.glob("done-*"))) == 3
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    series = nilometer.RecordedRun(only_run(tmp_path)).series("loss")
    assert sorted(series.step.tolist()) == sorted(list(range(5000)) * 3)


def test_forked_children_write_their_own_stream(tmp_path):
    code = """
        import nilometer, os
        run = nilometer.init(memory=False)
        run.log({"who": 0.0}, step=0)
        children = []
        for child in range(1, 4):
            pid = os.fork()
            if pid == 0:
                for step in range(100):
                    run.log({"who": float(child)}, step=step)
                os._exit(0)
            children.append(pid)
        for pid in children:
            os.waitpid(pid, 0)
        run.log({"who": 0.0}, step=1)
    """
    run_program(code, tmp_path)
    folder = only_run(tmp_path)
    values = nilometer.RecordedRun(folder).series("who").value.tolist()
    assert [values.count(float(who)) for who in range(4)] == [2, 100, 100, 100]
    writers = {path.name.split(".")[0] for path in folder.glob("python-*")}
    assert len(writers) == 4


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes_join_the_run(tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, nilometer\n"
        "def work(number):\n"
        "    nilometer.log({'worker': float(number)}, step=number)\n"
        "    return number\n"
        "if __name__ == '__main__':\n"
        f"    context = multiprocessing.get_context({method!r})\n"
        "    nilometer.init(name='parent')\n"
        "    nilometer.log({'parent': 1.0}, step=0)\n"
        "    with context.Pool(2) as pool:\n"
        "        assert pool.map(work, range(10)) == list(range(10))\n"
    )
    run_program(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')", tmp_path)
    series = nilometer.RecordedRun(only_run(tmp_path)).series("worker")
    assert sorted(series.value.tolist()) == [float(number) for number in range(10)]


def test_two_processes_with_the_same_name_are_two_runs(tmp_path):
    code = "import nilometer, time; nilometer.init(name='same', memory=False).log({'a': 1.0}); time.sleep(0.2)"
    processes = [start_program(code, tmp_path) for _ in range(4)]
    for process in processes:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    assert len(list((tmp_path / ".nilo").glob("*/run.json"))) == 4


def test_a_folder_that_cannot_be_written_does_not_stop_the_program(tmp_path):
    (tmp_path / ".nilo").write_text("a file, not a folder")
    code = "import nilometer\nfor step in range(3): nilometer.log({'a': 1.0}, step=step)\nprint(nilometer.current_run().path)"
    result = run_program(code, tmp_path, NILO_STRICT="0", TMPDIR=str(tmp_path))
    assert "recording to" in result.stderr and result.stderr.count("NilometerWarning") == 1
    assert nilometer.read_run(result.stdout.strip()).series("a").value.tolist() == [1.0] * 3


def test_a_full_disk_costs_points_and_not_the_program(tmp_path):
    import subprocess

    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], capture_output=True).returncode:
        unavailable("cannot mount a tmpfs")
    try:
        code = """
            import nilometer, random
            run = nilometer.init(memory=False)
            # Random digits: even compacted they take four times the disk.
            for step in range(200_000):
                run.log({"a": random.random(), "b": random.random(), "c": random.random()}, step=step)
            dropped = run.dropped
            run.finish()
            assert run.dropped == dropped, "the count outlives the run"
            print(dropped)
        """
        result = run_program(code, small, NILO_STRICT="0")
        dropped = int(result.stdout)
        assert dropped > 0
        assert "points are being lost" in result.stderr and result.stderr.count("NilometerWarning") == 1
        folder = only_run(small)
        stored = len(nilometer.RecordedRun(folder).series("a").value)
        assert stored + dropped == 200_000
        assert stored > 5_000
        shown = subprocess.run([NILO, "show", str(folder), "--format", "json"], capture_output=True, text=True)
        assert shown.returncode == 0, shown.stderr
        assert json.loads(shown.stdout)["recorder"]["dropped_samples"] >= dropped
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_run_that_vanished_is_said_and_replaced(tmp_path):
    result = run_program("import nilometer; nilometer.log({'a': 1.0}); print(nilometer.current_run().path)", tmp_path, NILO_RUN_DIR=str(tmp_path / "gone"), NILO_STRICT="0")
    assert "cannot join" in result.stderr
    assert nilometer.read_run(result.stdout.strip()).series("a").value.tolist() == [1.0]


def test_without_numpy_series_are_arrays(tmp_path):
    code = """
        import sys
        sys.modules["numpy"] = None
        import array, nilometer
        run = nilometer.init(memory=False)
        for step in (0, 1, 1): run.log({"a": step / 2}, step=step)
        series = nilometer.read_run(run.path).series("a")
        assert isinstance(series.value, array.array) and series.value.tolist() == [0.0, 0.5, 0.5]
        assert series.newest.step.tolist() == [0, 1]
        assert not {"torch", "transformers", "tensorflow"} & set(sys.modules)
    """
    run_program(code, tmp_path)


def test_runs_are_found_by_id_and_last(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="no runs"):
        nilometer.read_run()
    run_program("import nilometer; nilometer.log({'a': 1.0})", tmp_path)
    folder = only_run(tmp_path)
    assert nilometer.read_run().path == nilometer.read_run(folder.name).path
    run_program("import nilometer; nilometer.init(name='second').log({'a': 2.0})", tmp_path)
    for asked in ("second", "last", "last~0"):
        assert nilometer.read_run(asked).series("a").value.tolist() == [2.0]
    assert nilometer.read_run("last~1").path == nilometer.read_run(folder.name[:19]).path == folder.relative_to(tmp_path)
    for asked in ("nosuchrun", "last~2", "20"):
        with pytest.raises(FileNotFoundError):
            nilometer.read_run(asked)


def test_runs_lie_where_the_project_says(nilo, tmp_path):
    (tmp_path / "nilo.toml").write_text('dir = "my runs"\n')
    assert nilo("trust").returncode == 0
    (tmp_path / "deeper").mkdir()
    run_program("import nilometer; nilometer.log({'a': 1.0}); print(nilometer.read_run('last').metrics)", tmp_path / "deeper")
    assert len(list((tmp_path / "my runs").glob("*/run.json"))) == 1
    (tmp_path / "nilo.toml").write_text("dir = 3")
    result = run_program("import nilometer; nilometer.log({'a': 1.0})", tmp_path, NILO_STRICT="0")
    assert "nilo.toml" in result.stderr and (tmp_path / ".nilo").is_dir()


def test_settings_are_shown_and_compared(nilo, tmp_path):
    for rate in (0.1, 0.2):
        code = f"import nilometer; nilometer.init(name='r{rate}', config={{'lr': {rate}, 'seed': 7}}).log({{'loss': 1.0}}, step=0)"
        run_program(code, tmp_path)
    shown = nilo("show", "r0.1")
    assert "Settings:\n  lr = 0.1\n  seed = 7\n" in shown.stdout
    assert nilo.show("r0.2")["config"] == {"lr": 0.2, "seed": 7}
    compared = nilo("compare", "r0.1", "r0.2").stdout
    assert "Settings that differ:\n  lr  0.1 | 0.2\n" in compared and "seed" not in compared


def test_ctrl_c_is_told_from_an_error(tmp_path):
    """The program dies of the signal, unless it handles the interrupt or exits with 130 by itself: the run says the same."""
    interrupt = "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    first = "import nilometer, os, signal, sys, time\nnilometer.init(memory={memory}).log({{'a': 1.0}})\n"
    programs = {
        "unhandled": (interrupt, -signal.SIGINT, ("killed", None, 2)),
        "with": (f"with nilometer.init(memory={{memory}}):\n    {interrupt}", -signal.SIGINT, ("killed", None, 2)),
        "handled": (f"try:\n    {interrupt}\nexcept KeyboardInterrupt:\n    pass", 0, ("exited", 0, None)),
        "exits": (f"try:\n    {interrupt}\nexcept KeyboardInterrupt:\n    sys.exit(130)", 130, ("exited", 130, None)),
        "raised again": (f"try:\n    {interrupt}\nexcept KeyboardInterrupt:\n    nilometer.finish()\n    raise", -signal.SIGINT, ("killed", None, 2)),
        "finished": (f"try:\n    {interrupt}\nexcept KeyboardInterrupt:\n    nilometer.finish()", 0, ("exited", 130, None)),
        "inside": (
            f"with nilometer.init(memory={{memory}}):\n    try:\n        {interrupt}\n    except KeyboardInterrupt:\n        pass",
            0,
            ("exited", 0, None),
        ),
        # The program goes on: nothing was killed.
        "after": (
            f"try:\n    with nilometer.init(memory={{memory}}):\n        {interrupt}\nexcept KeyboardInterrupt:\n    pass",
            0,
            ("exited", 130, None),
        ),
        "another": (
            f"try:\n    with nilometer.init(memory={{memory}}):\n        {interrupt}\nexcept KeyboardInterrupt:\n    pass\n{interrupt}",
            -signal.SIGINT,
            ("exited", 130, None),
        ),
    }
    for name, (code, status, expected) in programs.items():
        for memory in (True, False):
            folder = tmp_path / f"{name}-{memory}"
            folder.mkdir()
            run_program((first + code).format(memory=memory), folder, expect=status)
            end = nilometer.read_run("last", dir=folder / ".nilo").summary()
            assert (end["status"], end.get("exit_code"), end.get("signal")) == expected, name


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_run_below_nilo_run_that_ctrl_c_left_is_told_as_it_came_out(nilo, folder, ranks):
    interrupt = "os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    block = f"with nilometer.init(name='inner') as run:\n  run.log({{'a': 1.0}})\n  {interrupt}\n"
    caught = "try:\n  " + block.replace("\n", "\n  ") + "\nexcept KeyboardInterrupt: pass\n"
    environment = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_PORT": "4711"} if ranks else {}
    for code, status, expected in ((block, -signal.SIGINT, ("killed", None, 2)), (caught, 0, ("exited", 130, None))):
        ended = nilo("run", "-q", "--name", "job", "--", *python("import nilometer, os, signal, time\n" + code), extra_env=environment)
        assert ended.returncode == status, ended.stderr
        end = nilo.show("inner")
        assert (end["status"], end["exit_code"], end["signal"]) == expected
        job = nilo.show("job")
        assert (job["status"], job["exit_code"]) == (("exited", 0) if status == 0 else ("killed", None))


def test_ctrl_c_ends_a_job_and_the_run_inside_it_alike(nilo, tmp_path):
    code = "import nilometer, os, signal, time; nilometer.init(name='inner').log({'a': 1.0}); os.kill(os.getpid(), signal.SIGINT); time.sleep(60)"
    ended = nilo("run", "-q", "--name", "job", "--", *python(code))
    assert ended.returncode == -signal.SIGINT, ended.stderr
    ends = [nilo.show(run) for run in ("inner", "job")]
    assert [(end["status"], end["exit_code"], end["signal"]) for end in ends] == [("killed", None, 2)] * 2


def test_time_before_the_run_is_not_the_runs(tmp_path):
    code = """
        import time
        started = time.process_time()
        while time.process_time() - started < 1.0: pass
        import nilometer
        nilometer.log({"a": 1.0}, step=0)
        time.sleep(0.5)
    """
    run_program(code, tmp_path)
    assert nilometer.RecordedRun(only_run(tmp_path)).summary()["cpu"]["total_secs"] < 0.5


def test_a_mode_that_is_none_is_said(tmp_path):
    result = run_program("import nilometer; nilometer.log({'a': 1.0})", tmp_path, NILO_MODE="disable", NILO_STRICT="0")
    assert "NILO_MODE" in result.stderr
