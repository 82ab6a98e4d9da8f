"""Small words on the screen: numbers and their nouns, values and their types, errors that a user can read."""

import json
import os

from conftest import python
from package import run_program


def test_json_on_a_screen_turns_no_line_around(nilo):
    assert nilo("run", "--quiet", "--name", "a\u202eb", "--", "true").returncode == 0
    for arguments in (["runs"], ["show"], ["compare", "last", "last~0"]):
        result = nilo(*arguments, "--format", "json")
        assert "\u202e" not in result.stdout and "a\\u202eb" in result.stdout
        assert json.loads(result.stdout)


def test_a_text_that_looks_like_a_number_is_told_apart(nilo):
    for value in ("0.1", "'0.1'"):
        code = f"import nilometer; nilometer.init(config={{'lr': {value}, 'name': 'x'}}, memory=False).finish()"
        run_program(code, nilo.folder)
    differ = nilo("compare", "last~1", "last").stdout
    assert 'lr  0.1 | "0.1"' in differ
    assert '"0.1"' in nilo("show", "last").stdout and '"x"' not in nilo("show", "last").stdout


def test_a_damaged_description_is_told_in_plain_words(nilo):
    nilo("run", "--quiet", "--", "true")
    description = nilo.run_folder() / "run.json"
    whole = json.loads(description.read_text())
    for text, said in [
        ("[]", "expected an object"),
        (json.dumps(whole | {"recorder_pid": "x"}), 'string "x", expected a whole number'),
        ("{", "run.json is damaged (it is cut off at line 1 column 1): "),
        ("x", "run.json is damaged (it is not JSON, at line 1 column 1): "),
    ]:
        description.write_text(text)
        result = nilo("show", description.parent)
        assert result.returncode == 2 and "run.json is damaged" in result.stderr and said in result.stderr, result.stderr
        assert "hint: restore run.json from a copy, or delete the folder" in result.stderr
        assert "struct" not in result.stderr and "u32" not in result.stderr
    assert nilo("runs").stderr.count("run.json is damaged") == 1


def test_a_fraction_is_a_threshold_as_in_python(nilo):
    (nilo.folder / "flat.csv").write_text("time,used_mb\n" + "".join(f"{n},800\n" for n in range(120)))
    options = ["oom", "--csv", "flat.csv", "--limit", "1000MiB", "--format", "json"]
    for asked, percent in [("0.75", 75.0), ("75", 75.0), ("1", 1.0)]:
        assert json.loads(nilo(*options, "--threshold", asked).stdout)["threshold_percent"] == percent
    assert nilo(*options, "--threshold", "0.85").returncode == 0
    assert nilo(*options, "--threshold", "0.75").returncode == 1


def test_reaching_back_too_far_says_how_many_runs_there_are(nilo):
    begin = python("import nilometer; [nilometer.init(name=n, memory=False).finish() for n in 'ab']")
    nilo("run", "--quiet", "--", *begin)
    result = nilo("show", "last~3")
    assert result.returncode == 2 and "there is 1 run (not counting runs inside jobs)" in result.stderr


def test_phases_that_overlap_say_why_they_take_more_than_all_of_the_time(nilo):
    code = """
        import asyncio, nilometer
        nilometer.init(memory=False)
        timer = nilometer.TrainingTimer()
        async def fetch():
            with timer.phase("fetch"):
                await asyncio.sleep(0.2)
        async def all_of_them():
            await asyncio.gather(*(fetch() for _ in range(9)))
        asyncio.run(all_of_them())
    """
    run_program(code, nilo.folder)
    shown = nilo("show").stdout
    assert "threads or tasks ran the phase at the same time" in shown, shown


def test_an_unknown_metric_lists_those_that_there_are(nilo):
    run_program("import nilometer; nilometer.init(memory=False).log({'loss': 1.0})", nilo.folder)
    result = nilo("plot", "--metric", "nothing")
    assert result.returncode == 2 and "hint: the metrics are loss" in result.stderr
    assert os.listdir(nilo.folder) == [".nilo"]
