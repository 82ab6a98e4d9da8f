"""Bad input and faults: one clear sentence, a hint, a status; nothing lost, nobody harmed."""

import contextlib
import csv
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import MIB, NILO, python, unavailable, wait_until
from package import run_program


def refused(result, *words, code=2):
    assert result.returncode == code, (result.returncode, result.stderr)
    assert "error:" in result.stderr
    assert "panicked" not in result.stderr
    for word in words:
        assert word in result.stderr, result.stderr


def test_an_unknown_command_is_127_with_a_hint(nilo):
    result = nilo("run", "--", "no-such-command")
    refused(result, "command not found: no-such-command", "hint:", code=127)
    assert nilo.runs() == []


def test_a_file_that_cannot_be_run_is_126(nilo):
    (nilo.folder / "data.txt").write_text("x")
    refused(nilo("run", "--", "./data.txt"), "cannot run", "hint:", code=126)


@pytest.mark.parametrize("interval", ["0", "-1", "0.0001", "abc", "2h", ""])
def test_an_interval_that_cannot_work(nilo, interval):
    refused(nilo("run", f"--interval={interval}", "--", "true"), "--interval")
    refused(nilo("watch", f"--interval={interval}", "--pid", "1"), "--interval")


def test_run_without_a_command(nilo):
    refused(nilo("run"), "COMMAND")
    refused(nilo("run", "--"), "COMMAND")


def test_mark_outside_a_run(nilo):
    refused(nilo("mark", "x"), "NILO_RUN_DIR", "hint:")
    refused(nilo("mark", "x", "--run-dir", "/nonexistent"), "hint:")


def test_runs_that_do_not_exist(nilo):
    for verb in ["show", "export", "plot", "verify"]:
        refused(nilo(verb), "no runs in", "hint:")
    nilo("run", "--quiet", "--", "true")
    refused(nilo("show", "nothing"), "no run is called", "hint:")
    refused(nilo("show", "last~5"), "hint:")
    refused(nilo("compare", "last"), "2")


def test_a_plot_of_unknown_format(nilo):
    nilo("run", "--quiet", "--", "true")
    refused(nilo("plot", "-o", "x.gif"), ".svg or .png")


def test_a_memory_log_to_standard_output_is_refused(nilo):
    (nilo.folder / "text.txt").write_text("the cat sat on the mat")
    refused(nilo("run", "--memory-log", "-", "--", "touch", "ran"), "standard output", "hint: name a file")
    refused(nilo("bpe", "train", "text.txt", "--vocab-size", "270", "--memory-log", "-"), "standard output", "hint: name a file")
    assert not {"-", "ran"} & {path.name for path in nilo.folder.iterdir()}


def test_an_unwritable_memory_log_is_refused_before_the_command_runs(nilo):
    refused(nilo("run", "--memory-log", "/nonexistent/x.csv", "--", "touch", "ran"), "hint:")
    assert not (nilo.folder / "ran").exists()


@pytest.fixture
def own_fallback(nilo, tmp_path):
    """Runs that cannot be where they were meant to be go into the test's folder, not into the user's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    nilo.environment["TMPDIR"] = str(elsewhere)
    return elsewhere


def test_an_unwritable_run_folder_does_not_stop_the_job(nilo, own_fallback):
    (nilo.folder / ".nilo").write_text("not a folder")
    for place in ({}, {"NILO_DIR": "/dev/null"}):
        result = nilo("run", "--", "sh", "-c", "echo ran; exit 5", extra_env=place)
        assert (result.returncode, result.stdout) == (5, "ran\n")
        assert f"is not a folder; recording to {own_fallback}/nilo-" in result.stderr and "instead" in result.stderr


IMPOSSIBLE_FOLDERS = {
    "/dev/null": "/dev/null is not a folder",
    "/dev/null/runs": "/dev/null is not a folder",
    "file": "file is not a folder",
    "file/below/it": "file is not a folder",
    "dangling": "dangling is not a folder",
    "circle": "circle is not a folder",
    "n" * 300: "its name is too long",
    "/proc/runs": "/proc/runs cannot be created",
}


@pytest.mark.parametrize("path", IMPOSSIBLE_FOLDERS, ids=lambda path: path[:20])
def test_a_named_folder_that_can_never_be_one_is_refused_before_the_job_starts(nilo, path):
    (nilo.folder / "file").write_text("not a folder")
    (nilo.folder / "dangling").symlink_to("nowhere")
    (nilo.folder / "circle").symlink_to("circle")
    why = IMPOSSIBLE_FOLDERS[path]
    for command in (["run", "--dir", path, "--", "touch", "started"], ["watch", "--dir", path, "--pid", os.getpid()]):
        result = nilo(*command)
        assert result.returncode == 2 and result.stdout == "", result
        first, hint = result.stderr.splitlines()
        assert first.startswith(f"error: --dir {path} cannot hold runs: ") and why in first
        assert hint.startswith("hint: name a folder that you can write to")
    assert not (nilo.folder / "started").exists()
    code = """
        import nilometer, sys
        try:
            nilometer.init(dir=sys.argv[1], memory=False)
        except ValueError as error:
            print(error)
    """
    told = run_program(code, nilo.folder, path, NILO_STRICT="0").stdout
    assert told.startswith("dir cannot hold runs: ") and why in told


def test_a_named_folder_without_permission_is_refused_and_a_read_only_disk_is_not(nilo, tmp_path, own_fallback):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    become_nobody = (lambda: (os.setgid(65534), os.setuid(65534))) if os.getuid() == 0 else None
    for parent in (nilo.folder, *nilo.folder.parents[:-1]):
        if parent.stat().st_uid == os.getuid():
            parent.chmod(parent.stat().st_mode | 0o055)
    nilo.folder.chmod(0o777)
    command = ("--", "sh", "-c", "echo ran")
    for path in (closed, closed / "below"):
        result = nilo("run", "--dir", path, *command, preexec_fn=become_nobody)
        assert (result.returncode, result.stdout) == (2, "") and "no permission to create" in result.stderr, result
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", disk], capture_output=True).returncode:
        unavailable("cannot mount a tmpfs")
    try:
        for path in (disk, disk / "runs"):
            result = nilo("run", "--dir", path, *command)
            assert (result.returncode, result.stdout) == (0, "ran\n"), result
            assert f"recording to {own_fallback}/nilo-" in result.stderr
    finally:
        subprocess.run(["umount", disk], check=True)


def test_runs_that_had_to_lie_elsewhere_are_mentioned(nilo, tmp_path):
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    place = {"TMPDIR": str(elsewhere)}
    (nilo.folder / ".nilo").write_text("not a folder")
    nilo("run", "--quiet", "--", "true", extra_env=place)
    said = nilo("runs", extra_env=place).stderr
    folder = next(elsewhere.iterdir())
    assert f"1 run of this folder is in {folder}, because the folder for runs here could not be used" in said
    assert f"nilo runs --dir {folder}" in said
    listed = nilo("runs", "--dir", folder, extra_env=place)
    assert "exited 0" in listed.stdout and "of this folder is in" not in listed.stderr
    # Those of other folders are none of this one's.
    other = tmp_path / "other"
    other.mkdir()
    assert "of this folder is in" not in type(nilo)(other)("runs", extra_env=place).stderr


def test_runs_that_had_to_lie_elsewhere_are_found(nilo, tmp_path):
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    place = {"TMPDIR": str(elsewhere)}
    (nilo.folder / ".nilo").write_text("not a folder")
    nilo("run", "--quiet", "--name", "kept", "--", "true", extra_env=place)
    assert "kept" in nilo("runs", extra_env=place).stdout
    for arguments in [["show"], ["show", "kept"], ["verify"], ["export", "kept"]]:
        result = nilo(*arguments, extra_env=place)
        assert result.returncode == 0, (arguments, result.stderr)
    # Beside runs that could be written: the newest of all is the last.
    (nilo.folder / ".nilo").unlink()
    nilo("run", "--quiet", "--name", "newer", "--", "true", extra_env=place)
    assert json.loads(nilo("show", "last", "--format", "json", extra_env=place).stdout)["name"] == "newer"
    assert json.loads(nilo("show", "last~1", "--format", "json", extra_env=place).stdout)["name"] == "kept"
    other = tmp_path / "other"
    other.mkdir()
    assert type(nilo)(other)("show", "kept", extra_env=place).returncode == 2


def test_a_broken_settings_file_is_named(nilo):
    named = {"NILO_CONFIG": "nilo.toml"}
    for text, sentence in [("interval = [", "nilo.toml"), ("interval = 0", "nilo.toml"), ("intervall = 1", "intervall")]:
        (nilo.folder / "nilo.toml").write_text(text)
        refused(nilo("run", "--", "true", extra_env=named), sentence, "hint:")


def test_settings_come_from_flag_variable_file_default_in_this_order(nilo):
    def interval(*arguments, **options):
        nilo("run", "--quiet", *arguments, "--", "true", **options)
        return nilo.show()["recorder"]["interval_secs"]

    assert interval() == 0.1
    (nilo.folder / "nilo.toml").write_text('interval = "50ms"')
    assert interval() == 0.05
    assert interval(extra_env={"NILO_INTERVAL": "0.03"}) == 0.03
    assert interval("--interval", "0.02", extra_env={"NILO_INTERVAL": "0.03"}) == 0.02


@contextlib.contextmanager
def disk_of(folder, size):
    """A real file system of this size."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        unavailable(f"cannot mount a tmpfs of {size}: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def small_disk(tmp_path):
    with disk_of(tmp_path / "small", "1m") as folder:
        yield folder


@pytest.fixture
def tiny_disk(tmp_path):
    """Too small for a run, its log and its summary."""
    with disk_of(tmp_path / "tiny", "64k") as folder:
        yield folder


def fill(folder):
    """Writes until there is no space left."""
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass


def test_a_disk_that_fills_up_costs_samples_and_nothing_else(nilo, small_disk):
    """The disk is filled while the job runs, and freed again: the loss is counted, and the record goes on."""
    code = "import time\nend=time.monotonic()+7\nx=[]\nwhile time.monotonic()<end: x.append(bytearray(20000)); time.sleep(.002)\nprint('finished')"
    process = nilo.start("run", "--dir", small_disk, "--interval", "0.001", "--", *python(code))
    time.sleep(1)
    fill(small_disk)
    time.sleep(3.5)
    os.unlink(small_disk / "filler")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "finished\n")
    assert "samples are being lost" in err, err
    shown = nilo.show("last", "--dir", str(small_disk))
    assert shown["status"] == "exited"
    assert shown["recorder"]["dropped_samples"] > 100
    assert any(finding["kind"] == "lost-samples" for finding in shown["findings"])
    rows = list(csv.DictReader(nilo("export", "--dir", small_disk).stdout.splitlines()))
    times = [float(row["timestamp_seconds"]) for row in rows]
    assert min(times) < 1 and max(times) > 6


def test_a_disk_that_is_full_from_the_start(nilo, small_disk, own_fallback):
    fill(small_disk)
    result = nilo("run", "--dir", small_disk, "--", "sh", "-c", "echo ran; exit 4")
    assert (result.returncode, result.stdout) == (4, "ran\n")
    assert "warning:" in result.stderr and "panicked" not in result.stderr
    assert list(own_fallback.glob("nilo-*/20*"))


@pytest.fixture
def full_disk(tmp_path):
    """Takes the folder of a run, and none of its points."""
    with disk_of(tmp_path / "full", "16k") as folder:
        yield folder


def test_what_python_cannot_store_at_all_is_counted(full_disk, tmp_path):
    program = """
        import sys, warnings, nilometer, nilometer.metrics
        warnings.simplefilter("ignore")
        run = nilometer.init(name="full", dir=sys.argv[1])
        assert run.path is None
        for step in range(3):
            run.log({"loss": 1.0}, step=step)
        run.mark("end")
        nilometer.metrics.MetricTracker(run).update("a", 1.0)
        print(run.dropped)
        try:
            nilometer.read_run(run.path)
        except ValueError as error:
            print(error)
    """
    told = run_program(program, tmp_path, full_disk / "runs", NILO_STRICT="")
    assert told.stdout.splitlines() == ["5", "read_run: None is not a run; a run that stores nothing has no path"]
    disabled = "import nilometer; run = nilometer.init(); run.log({'a': 1.0}); print(run.dropped)"
    assert run_program(disabled, tmp_path, NILO_MODE="disabled").stdout == "0\n"


def test_a_run_that_outgrows_the_disk_says_how_it_ended(nilo, tiny_disk):
    """No further segment can be written; the summary, `run.json` and a later reader know the end and the peak all the same."""
    code = "import time\nx=[]\nfor i in range(60): x.append(bytearray(1<<20)); time.sleep(.02)\nx.append(bytearray(80<<20)); time.sleep(1); raise SystemExit(3)"
    files = ["--dir", tiny_disk, "--memory-log", tiny_disk / "log.csv", "--json", tiny_disk / "summary.json"]
    process = nilo.start("run", "--interval", "0.001", *files, "--", *python(code))
    wait_until(lambda: len(list(tiny_disk.glob("2*/recorder-*.nilo"))) == 1, "the run")
    fill(tiny_disk)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 3
    assert "How It Ended:         exited with 3\n" in said and "still running" not in said, said
    assert "samples are being lost: disk full; the command continues" in said
    shown = nilo.show("last", "--dir", tiny_disk)
    assert json.loads(next(tiny_disk.glob("2*/run.json")).read_text())["ending"]["exit_code"] == 3
    assert (shown["status"], shown["exit_code"], shown["recorder"]["dropped_reason"]) == ("exited", 3, "disk full")
    assert shown["memory"]["peak_bytes"] > 140 * MIB
    assert shown["recorder"]["dropped_samples"] > 0
    assert "the memory curve has gaps; the peak is not affected" in nilo("show", "--dir", tiny_disk).stdout
    checked = nilo("verify", "--dir", tiny_disk)
    assert checked.returncode == 0
    assert f"incomplete: {shown['recorder']['dropped_samples']} rows could not be stored" in checked.stdout and ": ok" not in checked.stdout


def test_an_end_that_could_not_be_stored_is_put_down_to_the_full_disk(nilo, tiny_disk):
    """The recorder is killed while the disk is full, so nobody writes an end."""
    process = nilo.start("run", "--dir", tiny_disk, "--interval", "0.001", "--", "sleep", "600", stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(tiny_disk.glob("2*/recorder-*.nilo"))) == 1, "the run")
    fill(tiny_disk)
    wait_until(lambda: nilo.show("last", "--dir", tiny_disk)["recorder"]["dropped_samples"] > 0, "lost samples")
    root = nilo.show("last", "--dir", tiny_disk)["processes"][0]["pid"]
    process.kill()
    process.wait()
    os.kill(root, signal.SIGKILL)
    shown = nilo("show", "--dir", tiny_disk).stdout
    assert "How It Ended:         end not recorded: samples could not be stored\n" in shown, shown


def test_the_status_is_known_when_run_json_could_not_be_written_again(nilo):
    """A full disk may refuse the last `run.json`; the run file has the status all the same."""
    nilo("run", "--quiet", "--", "sh", "-c", "exit 6")
    path = nilo.run_folder() / "run.json"
    description = json.loads(path.read_text())
    del description["ending"]
    path.write_text(json.dumps(description))
    shown = nilo.show()
    assert (shown["status"], shown["exit_code"]) == ("exited", 6)


def damaged_copy(nilo, change):
    nilo("run", "--quiet", "--interval", "0.01", "--", "sleep", "0.6")
    folder = nilo.run_folder()
    segment = next(folder.glob("recorder-*.nilo"))
    change(segment)
    return folder


def test_garbage_in_a_run_file_costs_only_what_it_covers(nilo):
    def overwrite(segment):
        data = bytearray(segment.read_bytes())
        data[len(data) // 2 : len(data) // 2 + 40] = os.urandom(40)
        segment.write_bytes(data)

    damaged_copy(nilo, overwrite)
    shown = nilo.show()
    assert shown["memory"]["samples"] > 20
    assert shown["recorder"]["damage"]
    assert nilo("verify").returncode == 1
    assert nilo("plot", "-o", "x.svg").returncode == 0


def test_a_torn_tail_hides_nothing_before_it(nilo):
    damaged_copy(nilo, lambda segment: os.truncate(segment, segment.stat().st_size - 13))
    shown = nilo.show()
    assert shown["memory"]["samples"] > 20


def test_an_empty_run_file_and_random_bytes_are_survived(nilo):
    folder = damaged_copy(nilo, lambda segment: segment.write_bytes(b""))
    assert nilo("show").returncode == 0
    (folder / "recorder-9.0000.nilo").write_bytes(os.urandom(5000))
    (folder / "recorder-9.nilc").write_bytes(os.urandom(5000))
    result = nilo("show")
    assert result.returncode == 0 and "panicked" not in result.stderr
    (folder / "run.json").write_bytes(os.urandom(100))
    result = nilo("show", str(folder))
    refused(result, "run.json")
    # One broken run never hides the others.
    nilo("run", "--quiet", "--", "true")
    assert len(nilo.runs()) == 1


def test_a_run_from_a_future_version_is_refused_in_words(nilo):
    nilo("run", "--quiet", "--interval", "0.01", "--", "sleep", "0.2")
    segment = next(nilo.run_folder().glob("recorder-*.nilo"))
    data = bytearray(segment.read_bytes())
    data[8:10] = (99).to_bytes(2, "little")
    segment.write_bytes(data)
    result = nilo("show")
    assert "later version" in result.stdout + result.stderr


def test_what_verify_cannot_check_is_no_damage(nilo):
    """Status 0: nothing damaged; 1: damage; 2: could not be checked."""
    refused(nilo("verify", "--all"), "no runs in", "hint:")
    nilo("run", "--quiet", "--", "true")
    assert nilo("verify", "--all").returncode == 0
    refused(nilo("verify", "nothing"), "no run is called")
    folder = nilo.run_folder()
    segment = next(folder.glob("recorder-*.nilo"))
    whole = segment.read_bytes()
    segment.write_bytes(whole[:8] + (99).to_bytes(2, "little") + whole[10:])
    later = nilo("verify")
    assert later.returncode == 2 and "not checked" in later.stdout and "later version" in later.stdout
    segment.write_bytes(b"nonsense" + whole[8:])
    assert nilo("verify").returncode == 1
    segment.write_bytes(whole)
    assert nilo("verify").returncode == 0
    (folder / "run.json").write_text("{")
    assert nilo("verify", "--all").returncode == 1


def test_what_verify_may_not_read_is_not_checked(nilo):
    if os.getuid() != 0:
        unavailable("only root can become somebody who may not read its files")
    nilo("run", "--quiet", "--", "true")
    folder = nilo.run_folder()
    for path in folder.parents:
        if path.owner() == "root" and path.stat().st_mode & 0o005 != 0o005:
            path.chmod(path.stat().st_mode | 0o055)
    (folder / "run.json").chmod(0o644)
    next(folder.glob("recorder-*.nilo")).chmod(0o600)
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    result = nilo("verify", str(folder), preexec_fn=lambda: (os.setgid(65534), os.setuid(65534)))
    assert result.returncode == 2 and "not checked" in result.stdout, result


def test_prune_keeps_what_it_should(nilo):
    for _ in range(5):
        nilo("run", "--quiet", "--", "true")
    refused(nilo("prune"), "--keep")
    dry = nilo("prune", "--keep", "2", "--dry-run")
    *each, total = dry.stdout.splitlines()
    assert len(each) == 3 and all(line.startswith("would delete 20") for line in each)
    assert total.startswith("would delete 3 of 5 runs") and len(nilo.runs()) == 5
    newest = [run["run"] for run in nilo.runs()][-2:]
    assert nilo("prune", "--keep", "2").returncode == 0
    assert [run["run"] for run in nilo.runs()] == newest
    assert "0 of 2" in nilo("prune", "--older-than", "1d").stdout


def test_prune_leaves_what_is_not_a_run_of_ours_alone_and_tells_the_folder_of_a_copy(nilo):
    nilo("run", "--quiet", "--", "true")
    (run,) = (nilo.folder / ".nilo").glob("20*")
    shutil.copytree(run, run.parent / "copy")
    foreign = run.parent / "foreign"
    shutil.copytree(run, foreign)
    description = json.loads((foreign / "run.json").read_text())
    (foreign / "run.json").write_text(json.dumps(description | {"schema": "others.run/1", "id": "foreign"}))
    result = nilo("prune", "--keep", "0")
    assert result.returncode == 0, result.stderr
    deleted = sorted(line.split()[1] for line in result.stdout.splitlines()[:-1])
    assert deleted == sorted([run.name, "copy"]) and "deleted 2 of 2 runs" in result.stdout
    assert [path.name for path in run.parent.iterdir() if path.is_dir()] == ["foreign"]


def test_prune_leaves_a_running_run_alone(nilo):
    process = nilo.start("run", "--quiet", "--", "sleep", "2")
    wait_until(lambda: (nilo.folder / ".nilo").exists() and len(nilo.runs()) == 1, "the run")
    nilo("prune", "--keep", "0")
    assert len(nilo.runs()) == 1
    process.wait()


def test_closed_pipes_are_no_errors(nilo):
    nilo("run", "--quiet", "--interval", "0.001", "--", "sleep", "1")
    from conftest import NILO

    for verb in [["runs"], ["export", "--format", "json"], ["export", "--long"], ["ps", "--all"], ["--help"], ["man"]]:
        command = f"'{NILO}' {' '.join(verb)} | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}"
        result = subprocess.run(["bash", "-c", command], cwd=nilo.folder, capture_output=True, text=True)
        assert "panicked" not in result.stderr and "error" not in result.stderr, (verb, result.stderr)


def test_a_finished_run_that_lost_its_tail_is_damaged(nilo):
    damaged_copy(nilo, lambda segment: os.truncate(segment, 3000))
    result = nilo("verify")
    assert result.returncode == 1 and "the recording stops before that" in result.stdout
    assert nilo.show()["recorder"]["damage"]


LOG_2000 = "import nilometer as n; r = n.init(); [n.log({'loss': i, 'acc': i}, step=i) for i in range(2000)]; r.finish()"


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in-a-job"])
def test_a_python_run_that_lost_its_tail_is_damaged(nilo, inside):
    record_python(nilo, LOG_2000, inside)
    (segment,) = program_files(nilo, "*.nilo")
    assert nilo("verify").returncode == 0
    os.truncate(segment, os.path.getsize(segment) - 50)
    assert nilo.show()["recorder"]["damage"]
    result = nilo("verify")
    assert result.returncode == 1 and "damaged" in result.stdout, result.stdout


@pytest.mark.parametrize("damage", [os.unlink, lambda path: os.truncate(path, 128), lambda path: os.truncate(path, os.path.getsize(path) // 2)], ids=["gone", "header", "cut"])
def test_verify_finds_what_show_finds(nilo, damage):
    record_python(nilo, LOG_2000.replace("2000", "4000"), inside=False)
    (compacted,) = program_files(nilo, "*.nilc")
    assert nilo("verify").returncode == 0
    assert program_files(nilo, "*.nilo"), "a segment after it, by which a reader knows that there was one"
    damage(compacted)
    assert any("segment 0 is missing" in told for told in nilo.show()["recorder"]["damage"])
    result = nilo("verify", "--format", "json")
    assert result.returncode == 1 and json.loads(result.stdout)["ok"] is False, result.stdout


def record_python(nilo, code, inside):
    if inside:
        assert nilo("run", "--quiet", "--", *python(code)).returncode == 0
    else:
        run_program(code, nilo.folder)


def program_files(nilo, pattern):
    """What the program itself wrote, also into a run inside a job."""
    return sorted(path for path in nilo.run_folder().rglob(pattern) if path.name.startswith("python-"))


@pytest.mark.parametrize("verb", [["plot", "-o", "out.svg"], ["export", "-o", "out.csv"], ["export", "-o", "out.parquet"]], ids=lambda verb: verb[-1])
def test_a_file_that_does_not_fit_leaves_nothing(nilo, verb):
    nilo("run", "--quiet", "--", "true")

    def few_bytes():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    before = sorted(os.listdir(nilo.folder))
    result = nilo(*verb, preexec_fn=few_bytes)
    assert result.returncode == 2 and f"cannot write {verb[-1]}" in result.stderr, result
    assert sorted(os.listdir(nilo.folder)) == before
    (nilo.folder / verb[-1]).write_text("before")
    assert nilo(*verb, preexec_fn=few_bytes).returncode == 2
    assert (nilo.folder / verb[-1]).read_text() == "before"
    assert nilo(*verb).returncode == 0 and (nilo.folder / verb[-1]).stat().st_size > 100


def test_a_long_name_widens_no_table_and_an_empty_one_is_none(nilo):
    nilo("run", "--quiet", "--name", "n" * 500, "--", "true")
    nilo("run", "--quiet", "--name", "", "--", "true")
    assert [run["name"] for run in nilo.runs()] == ["n" * 500, None]
    listed = nilo("runs").stdout
    assert "nnn…" in listed and max(map(len, listed.splitlines())) < 200


def test_a_finished_run_without_its_record_is_damaged(nilo):
    damaged_copy(nilo, lambda segment: os.unlink(segment))
    assert nilo("verify").returncode == 1


def test_a_damaged_run_is_all_that_is_said_of_it(nilo):
    nilo("run", "--quiet", "--", "true")
    (nilo.run_folder() / "run.json").write_text("{")
    listed = nilo("runs")
    assert listed.stdout == "" and "run.json is damaged" in listed.stderr and "no runs in" not in listed.stderr


def test_a_mark_has_a_text_and_a_long_one_is_cut_on_the_screen_alone(nilo):
    program = "import nilometer; nilometer.mark('x' * 100_000)"
    ended = nilo("run", "-q", "--", "sh", "-c", f'{NILO} mark " "; echo "status $?"; {sys.executable} -c "{program}"')
    assert ended.stdout == "status 2\n" and "a mark needs a text" in ended.stderr
    (mark,) = nilo.show()["marks"]
    assert mark["text"] == "x" * 100_000
    assert f": {'x' * 199}…\n" in nilo("show").stdout.replace("\n  ", "")


def test_the_leak_of_a_damaged_run_is_not_looked_for_elsewhere(nilo):
    assert nilo("run", "-q", "--", "true").returncode == 0
    (nilo.run_folder() / "run.json").write_text("{")
    asked, plain = nilo("leak", "last"), nilo("leak")
    assert (plain.returncode, plain.stderr) == (asked.returncode, asked.stderr)
    assert plain.returncode == 2 and "run.json" in plain.stderr, plain.stderr


def test_files_that_cannot_be_written_or_approved_have_a_hint(nilo):
    nilo("run", "--quiet", "--", "true")
    refused(nilo("plot", "-o", "/nonexistent/x.svg"), "cannot write /nonexistent/x.svg", "hint: check that its folder exists")
    refused(nilo("export", "-o", "/nonexistent/x.csv"), "cannot write /nonexistent/x.csv", "hint: check that its folder exists")
    refused(nilo("trust", "/nonexistent"), "there is no such file", "hint: name a nilo.toml")


@pytest.mark.parametrize("word", ["maybe", "2", "False "])
def test_a_word_that_says_neither_yes_nor_no_is_refused(nilo, word):
    environment = {"NILO_HOOKS": word}
    refused(nilo("run", "--", "touch", "ran", extra_env=environment), f'NILO_HOOKS is "{word}"; it must be 1 or 0')
    assert not (nilo.folder / "ran").exists()
    # What the flag says needs no variable.
    assert nilo("run", "--quiet", "--no-hooks", "--", "true", extra_env=environment).returncode == 0
    for known in ("1", "on", "0", "off", ""):
        assert nilo("run", "--quiet", "--", "true", extra_env={"NILO_HOOKS": known}).returncode == 0
