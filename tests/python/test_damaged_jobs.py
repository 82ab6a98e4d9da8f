"""Jobs in which something is damaged: what is whole is shown, what is not is named once."""

import json
import sys
import textwrap

import pytest

import nilometer
from nilometer import NilometerWarning

TRAINING = """
    import sys, time, nilometer
    with nilometer.init(name=sys.argv[1]) as run:
        held = bytearray(b"x") * (8 << 20)
        for step in range(30):
            run.log({"loss": step}, step=step)
            time.sleep(0.01)
"""


@pytest.fixture
def sweep(nilo, folder):
    """The folder of a job with the runs `first` and `second`."""
    (folder / "train.py").write_text(textwrap.dedent(TRAINING))
    line = " && ".join(f"{sys.executable} train.py {name}" for name in ("first", "second"))
    assert nilo("run", "--name", "sweep", "--", "sh", "-c", line).returncode == 0
    return nilo.run_folder()


def inner(sweep, name):
    return next(path for path in (sweep / "runs").iterdir() if path.name.endswith(f"-{name}"))


def warnings_of(outcome):
    return [line for line in outcome.stderr.splitlines() if line.startswith("warning:")]


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_run_hides_neither_its_job_nor_the_others(nilo, sweep, damage):
    described = inner(sweep, "first") / "run.json"
    described.write_text(described.read_text()[:100]) if damage == "cut" else described.unlink()
    for verb in (["show", "sweep"], ["runs"]):
        outcome = nilo(*verb)
        assert outcome.returncode == 0
        assert "-second" in outcome.stdout
        [warning] = warnings_of(outcome)
        assert str(inner(sweep, "first").name) in warning
    if damage == "cut":
        with pytest.warns(NilometerWarning, match="first"):
            runs = nilometer.read_run("sweep").runs
        assert [run.description["name"] for run in runs] == ["second"]


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_job_without_its_description_does_not_take_its_runs_along(nilo, sweep, damage):
    described = sweep / "run.json"
    described.write_text(described.read_text()[:100]) if damage == "cut" else described.unlink()
    outcome = nilo("runs", "--format", "json")
    assert [run["name"] for run in json.loads(outcome.stdout)["runs"]] == ["first", "second"]
    [warning] = warnings_of(outcome)
    assert sweep.name in warning
    told = nilo.show("first")
    assert told["metrics"][0]["count"] == 30
    [damaged] = told["recorder"]["damage"]
    assert damaged.startswith("its job cannot be read: ")
    assert len(nilometer.read_run("second").series("loss").value) == 30


def test_a_run_tells_that_the_recording_of_its_job_is_damaged(nilo, sweep):
    [recorded] = sweep.glob("recorder-*.nilo")
    recorded.write_bytes(b"\xa5" * 5000)
    told = nilo.show("first")
    memory = told["memory"]
    # What the program told of itself lacks its children.
    assert (memory["peak_bytes"], memory["samples"], memory["mean_bytes"], memory["min_bytes"]) == (None, 0, None, None)
    assert [recorded.name in text for text in told["recorder"]["damage"]] == [True]


def test_a_link_to_the_job_among_its_runs_is_not_a_run(nilo, sweep):
    listed = [run["run"] for run in nilo.runs()]
    (sweep / "runs" / "20990101-000000-000-link").symlink_to(sweep)
    assert [run["run"] for run in nilo.runs()] == listed
    assert len(nilometer.read_run("sweep").runs) == 2
    assert nilo("verify", "sweep").returncode == 0


def test_a_lost_declaration_is_reported_once_with_a_count(nilo, sweep):
    [stream] = inner(sweep, "first").glob("python-*.nilo")
    content = bytearray(stream.read_bytes())
    # The first record declares the table of the losses, or follows the one that does.
    place = content.index(b'"loss"')
    content[place] ^= 0xFF
    stream.write_bytes(content)
    damaged = nilo.show("first")["recorder"]["damage"]
    assert len(damaged) == len(set(damaged)) == 2, damaged
    assert any("not declared (30 times)" in text for text in damaged)
    listed = [line for line in nilo("verify", "first").stdout.splitlines() if "damaged: " in line]
    assert len(listed) == 2
