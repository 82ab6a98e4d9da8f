"""A finished run of a Python program whose files were cut: `nilo verify` says so, wherever the cut is."""

import json
import textwrap

import pytest
from conftest import python
from package import only_run, run_program

import nilometer

PROGRAM = """
    import nilometer
    with nilometer.init(name="cut", memory=False) as run:
        for step in range(10):
            run.log({"loss": 1.0 / (step + 1)}, step=step)
"""
HEADER_BYTES = 128
# Commit word, checksum, table, time, step and one value.
ROW_BYTES = 8 + 12 + 8 + 8


@pytest.mark.parametrize("rows", [1, 3, 10])
def test_a_finished_run_that_was_cut_between_two_records_is_incomplete(nilo, folder, rows):
    run_program(PROGRAM, folder)
    assert nilo("verify").returncode == 0
    (stream,) = only_run(folder).glob("python-*.nilo")
    whole = stream.read_bytes()
    stream.write_bytes(whole[: len(whole) - rows * ROW_BYTES])
    assert len(nilometer.read_run("cut", dir=".nilo").summary()["metrics"][:1]) == (rows < 10)
    told = nilo("verify")
    assert told.returncode == 1 and f"{rows * ROW_BYTES} bytes at the end are missing" in told.stdout, told.stdout


@pytest.mark.parametrize("left", [0, HEADER_BYTES - 1])
def test_a_finished_run_whose_stream_was_emptied_is_incomplete(nilo, folder, left):
    run_program(PROGRAM, folder)
    (stream,) = only_run(folder).glob("python-*.nilo")
    stream.write_bytes(stream.read_bytes()[:left])
    told = nilo("verify")
    assert told.returncode == 1 and "the file ends within its header" in told.stdout, told.stdout


FAILING = """
    import nilometer
    with nilometer.init(name="failing", memory=False):
        raise MemoryError("boom")
"""


@pytest.mark.parametrize("left", [None, HEADER_BYTES, HEADER_BYTES + 40])
@pytest.mark.parametrize("in_a_job", [True, False])
def test_a_finished_run_whose_exception_was_cut_off_is_incomplete(nilo, folder, left, in_a_job):
    if in_a_job:
        assert nilo("run", "--quiet", "--", *python(textwrap.dedent(FAILING))).returncode == 1
        (marks,) = only_run(folder).glob("runs/*/marks.nilo")
    else:
        run_program(FAILING, folder, expect=1)
        marks = only_run(folder) / "marks.nilo"
    assert nilo("verify").returncode == 0
    assert nilo("mark", "noted later", "--run-dir", marks.parent).returncode == 0
    assert nilo("verify").returncode == 0
    marks.unlink() if left is None else marks.write_bytes(marks.read_bytes()[:left])
    told = nilo("verify")
    assert told.returncode == 1 and "marks.nilo" in told.stdout, told.stdout
    assert "damaged: " in nilo("show").stdout


READERS = {
    "oom": lambda answer: answer["damaged"],
    "leak": lambda answer: answer["damaged"],
    "request": lambda answer: answer["runs"][0]["damaged"],
    "compare": lambda answer: answer["runs"][0]["damaged"],
    "export": lambda answer: bool(answer["damage"]),
    "plot": None,
}


@pytest.mark.parametrize("command", READERS)
def test_whoever_reads_a_damaged_run_says_so(nilo, command):
    nilo("run", "--quiet", "--interval", "0.01", "--", *python("import time; x = bytearray(30 << 20); time.sleep(.5)"))
    path = nilo.run_folder()
    runs = ["last", "last"] if command == "compare" else ["last"]
    arguments = [command, *runs] + (["-o", "picture.svg"] if command == "plot" else ["--format", "json"])
    is_damaged = READERS[command]
    warning = f"warning: 1 run is damaged, and its figures may be incomplete: nilo verify {path.name}\n"
    sound = nilo(*arguments)
    assert "damaged" not in sound.stderr
    assert is_damaged is None or is_damaged(json.loads(sound.stdout)) is False
    (stream,) = [file for file in path.iterdir() if file.name.startswith("recorder-")]
    stream.write_bytes(stream.read_bytes()[: -stream.stat().st_size // 3])
    cut = nilo(*arguments)
    assert warning in cut.stderr and cut.returncode == sound.returncode, cut
    assert is_damaged is None or is_damaged(json.loads(cut.stdout)) is True


@pytest.mark.parametrize("content", [None, "", "{", "{}"])
def test_a_damaged_run_has_one_status_however_it_is_named(nilo, content):
    for name in ("whole", "broken"):
        assert nilo("run", "--quiet", "--name", name, "--", "true").returncode == 0
    broken = nilo.run_folder()
    if content is None:
        (broken / "run.json").unlink()
    else:
        (broken / "run.json").write_text(content)
    for run in (["--all"], [broken.name], [f".nilo/{broken.name}"], [broken]):
        told = nilo("verify", *run)
        assert told.returncode == 1 and "run.json" in told.stdout, (run, told)
    assert nilo("verify").returncode == 0, "the newest run that can be read"
    shown = nilo("show", broken.name)
    assert shown.returncode == 2 and "run.json" in shown.stderr, shown.stderr
    # What is not there is no finding.
    for run in ("no-such-run", ".nilo/no-such-run", "../nowhere", "."):
        assert nilo("verify", run).returncode == 2, run
    (whole,) = [path for path in (nilo.folder / ".nilo").iterdir() if path.is_dir() and path != broken]
    (whole / "run.json").write_text("")
    assert nilo("verify").returncode == 1, "the newest one, where none can be read"
