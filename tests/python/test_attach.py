"""Files that a program attaches to its run."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import warnings
from pathlib import Path

import pytest
from conftest import NILO, python

import nilometer
from nilometer import NilometerError, NilometerWarning


@pytest.fixture
def run(tmp_path):
    run = nilometer.init(name="attaching", dir=tmp_path / "runs", memory=False)
    yield run
    run.finish()


def attached(run) -> dict[str, bytes]:
    folder = Path(run.path) / "attachments"
    return {file.name: file.read_bytes() for file in folder.iterdir()} if folder.exists() else {}


def verify(run) -> tuple[int, dict]:
    told = subprocess.run([NILO, "verify", str(run.path), "--format", "json"], capture_output=True, text=True)
    files = json.loads(told.stdout)["runs"][0]["verification"]["files"]
    return told.returncode, {file["name"]: file for file in files if file["kind"] == "attachment"}


def test_files_and_bytes_are_stored_and_verified(run, tmp_path):
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(b"\x80\x04" * 100_000)
    run.attach(file)
    run.attach(str(file), name="second.bin")
    run.attach(b"\x89PNG", "curve.png")
    run.attach(bytearray(b"x"), "array")
    run.attach(memoryview(b"abcd")[::2], "view")
    assert attached(run) == {
        "snapshot.pickle": file.read_bytes(),
        "second.bin": file.read_bytes(),
        "curve.png": b"\x89PNG",
        "array": b"x",
        "view": b"ac",
    }
    status, files = verify(run)
    assert status == 0
    assert len(files) == 5
    (Path(run.path) / "attachments" / "curve.png").write_bytes(b"\x89PNg")
    status, files = verify(run)
    assert status == 1
    assert files["attachments/curve.png"]["damage"] == ["it is not what was attached: its checksum differs"]


def test_verify_names_attachments_in_text(run):
    run.attach(b"four", "a.txt")
    (Path(run.path) / "attachments" / ".b.txt.4711.1.tmp").write_bytes(b"half")
    told = subprocess.run([NILO, "verify", str(run.path)], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout
    assert "attachments/a.txt: 4 B\n" in told.stdout
    assert "attachments/b.txt: unfinished\n" in told.stdout


def test_verify_tells_the_size_of_a_changed_attachment(run):
    run.attach(b"four", "a.txt")
    (Path(run.path) / "attachments" / "a.txt").write_bytes(b"longer")
    told = subprocess.run([NILO, "verify", str(run.path)], capture_output=True, text=True)
    assert told.returncode == 1
    assert "attachments/a.txt: 6 B\n    damaged: it is not what was attached: it has 6 bytes instead of 4\n" in told.stdout


def test_show_lists_attachments(nilo, run):
    for number in range(7):
        run.attach(b"x" * number, f"file-{number}.txt", "text/plain")
    show = [NILO, "show", str(run.path)]
    told = json.loads(subprocess.run([*show, "--format", "json"], capture_output=True, text=True, check=True).stdout)
    assert [(file["name"], file["size_bytes"], file["media_type"]) for file in told["attachments"]] == [
        (f"file-{number}.txt", number, "text/plain") for number in range(7)
    ]
    text = subprocess.run([*show, "--all"], capture_output=True, text=True, check=True).stdout
    assert "Attachments:\n  NAME        SIZE  TYPE\n" in text
    assert all(f"  file-{number}.txt   {number} B  text/plain\n" in text for number in range(7))
    few = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    assert "file-4.txt" in few and "file-5.txt" not in few
    assert f"  and 2 more: nilo show --all --dir {run.path.parent} {run.path.name}\n" in few


def test_verify_of_a_job_lists_the_files_of_the_runs_inside_and_no_folder(nilo):
    code = "import nilometer; nilometer.init(name='inner').attach(b'four', 'a.txt')"
    assert nilo("run", "-q", "--", *python(code)).returncode == 0
    job = nilo.run_folder()
    (job / ".ranks-0123456789abcdef").write_text("a run")
    told = nilo("verify")
    assert told.returncode == 0 and "ranks" not in told.stdout and "  runs:" not in told.stdout
    assert ": ok\n" in told.stdout and "/attachments/a.txt: 4 B\n" in told.stdout
    (attachment,) = job.glob("runs/*/attachments/a.txt")
    attachment.unlink()
    told = nilo("verify")
    assert told.returncode == 1 and "damaged: the file is missing\n" in told.stdout


def test_wrong_arguments_raise(run):
    with pytest.raises(TypeError, match="bytes need a name"):
        run.attach(b"x")
    for wrong in (None, 3, ["a"]):
        with pytest.raises(TypeError, match="a path or bytes"):
            run.attach(wrong)
    with pytest.raises(TypeError, match="name must be str"):
        run.attach(b"x", 3)
    with pytest.raises(TypeError, match="media_type must be str"):
        run.attach(b"x", "a", 3)
    for name in ("", ".hidden", "../run.json", "a/b", "a b", "x" * 101):
        with pytest.raises(ValueError, match="cannot name an attachment"):
            run.attach(b"x", name)
    with pytest.raises(ValueError, match="media type"):
        run.attach(b"x", "a", "png")
    assert attached(run) == {}


def test_what_cannot_be_stored_is_a_warning(run, tmp_path):
    run.attach(b"first", "a")
    with pytest.warns(NilometerWarning, match="has an attachment of this name already"):
        run.attach(b"second", "a")
    with pytest.warns(NilometerWarning, match="No such file"):
        run.attach(tmp_path / "missing.bin")
    with pytest.warns(NilometerWarning, match=f"read what to attach: {tmp_path}: it is not a regular file"):
        run.attach(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Nobody writes to it: whoever waits for that waits for ever.
    with pytest.warns(NilometerWarning, match=f"read what to attach: {pipe}: it is not a regular file"):
        run.attach(pipe)
    assert attached(run) == {"a": b"first"}


def test_strict_mode_raises(run, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "1")
    run.attach(b"first", "a")
    with pytest.raises(NilometerError, match="already"):
        run.attach(b"second", "a")


def test_a_full_disk_is_a_warning_and_leaves_no_part(run, monkeypatch):
    # No space for a file of this size in this process: as a full disk, the kernel refuses the write.
    import resource
    import signal

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
        with pytest.warns(NilometerWarning, match="could not write the attachment"):
            run.attach(bytes(2 << 20), "large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert attached(run) == {}
    run.attach(b"small", "large")
    assert verify(run)[0] == 0


def test_a_run_that_stores_nothing_and_one_that_is_finished(tmp_path):
    nilometer.Run(None).attach(b"x", "a")
    run = nilometer.init(name="short", dir=tmp_path / "runs", memory=False)
    run.finish()
    with pytest.warns(NilometerWarning, match="the run is finished"):
        run.attach(b"x", "a")
    assert attached(run) == {}


def test_threads_attach_while_others_log(run):
    names = [f"file-{index}" for index in range(16)]
    threads = [threading.Thread(target=run.attach, args=(name.encode() * 1000, name)) for name in names]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for step in range(1000):
            run.log({"loss": 1.0}, step=step)
        for thread in threads:
            thread.join()
    assert sorted(attached(run)) == sorted(names)
    status, files = verify(run)
    assert status == 0
    assert len(files) == 16
