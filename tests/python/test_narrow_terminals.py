"""On terminals of 40, 60 and 80 columns: columns are left out, numbers are not cut; severity in colour, and only there."""

import json
import re
import subprocess

import pytest
from conftest import MIB, NILO, python
from test_terminal import Terminal
from tmux import Tmux

LOGS = """
import time, nilometer
run = nilometer.init()
for step in range(8):
    run.log({"loss": 1234.5678 / (step + 1), "groups/frac_all_max": 0.25, "a_rather_long_name_of_a_metric": step * 1e-5}, step=step)
    time.sleep(0.05)
"""
# Two digits or more behind a point, then a unit: how memory is written.
SIZE = r"\d+\.\d\d [KMG]iB"
ESCAPE = r"\x1b\[[0-9;]*m"


def on_terminal(nilo, columns, *arguments, variables=()):
    """What a terminal of that width gets; its size is set before nilo looks at it."""
    script = f'stty cols {columns} rows 40; exec env {" ".join(variables)} "$@"'
    terminal = Terminal(["sh", "-c", script, "sh", NILO, *map(str, arguments)], nilo.folder)
    terminal.read(seconds=60)
    return terminal.wait(), terminal.text.replace("\r\n", "\n")


@pytest.fixture
def recorded(nilo):
    for name, code in [("base", 0), ("much-longer-name-of-a-run", 3)]:
        made = nilo("run", "--quiet", "--name", name, "--", *python(LOGS + f"raise SystemExit({code})"))
        assert made.returncode == code, made.stderr
    return nilo


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("verb", [["runs"], ["show", "base", "--all"], ["ps", "--all"], ["compare", "base", "much-longer-name-of-a-run"]], ids=lambda verb: verb[0])
def test_tables_fit_and_their_numbers_are_whole(recorded, verb, columns):
    status, text = on_terminal(recorded, columns, *verb)
    assert status == 0
    text = re.sub(ESCAPE, "", text)
    lines = text.splitlines()
    # Tables have headings in capitals; sentences may wrap.
    for at, head in enumerate(lines):
        if not re.match(r" *[A-Z%]+( {2,}[A-Z0-9%. ]+)+$", head):
            continue
        for line in [head, *lines[at + 1 : at + 3]]:
            assert len(line) <= columns, (columns, line)
        # Directories and command lines are texts, and may end anywhere, also behind a number of their own.
        texts = [head.index(name) for name in ["DIRECTORY", "COMMAND"] if name in head]
        lines[at:] = [line[: min(texts, default=columns)] for line in lines[at:]]
    for line in lines:
        assert not re.search(r"(?<!\S)\d+(?:\.\d+)? ?(?:[KMG]i?)?…", line), f"a number was cut: {line} in\n{text}"
    if verb[0] != "show":
        assert re.search(SIZE, text), text


def test_the_curve_of_memory_fits(nilo):
    assert nilo("run", "--quiet", "--interval", "0.01", "--", "sleep", "1").returncode == 0
    for columns, width in [(40, 40), (200, 52)]:
        _, text = on_terminal(nilo, columns, "show", variables=["NO_COLOR=1"])
        curve = text.split("Memory over time")[1].splitlines()[1]
        assert len(curve) == width and set(curve.strip()) <= set(" ▁▂▃▄▅▆▇█"), text


def test_a_wide_terminal_has_what_a_narrow_one_leaves_out(recorded):
    _, narrow = on_terminal(recorded, 40, "runs")
    _, wide = on_terminal(recorded, 300, "runs")
    assert "MEAN" in wide and "COMMAND" in wide and "PEAK" in narrow
    table, left_out = narrow.split("Not shown: ")
    assert "MEAN" not in table and "COMMAND" not in table
    assert "STATUS" in table and "DURATION" in left_out and "MEAN" in left_out and "Not shown" not in wide
    _, compared = on_terminal(recorded, 40, "compare", "base", "much-longer-name-of-a-run")
    assert "CHANGE of PEAK" in " ".join(compared.split())
    piped = recorded("runs").stdout
    assert re.sub(ESCAPE, "", wide) == piped, "a wide terminal shows what a pipe gets"


def test_a_narrow_list_has_name_and_status(recorded):
    _, text = on_terminal(recorded, 40, "runs", variables=["NO_COLOR=1"])
    rows = [line.split() for line in text.splitlines()[:5]]
    assert rows[0] == ["RUN", "STATUS", "PEAK"], text
    assert any(row[:3] == ["base", "exited", "0"] for row in rows), text
    assert any(row[0].startswith("much-longe") and row[1:3] == ["exited", "3"] for row in rows), text
    # A run without a name is told by its id, of which commands take the beginning.
    assert recorded("run", "--quiet", "--", "true").returncode == 0
    _, text = on_terminal(recorded, 40, "runs", variables=["NO_COLOR=1"])
    (nameless,) = [line.split() for line in text.splitlines() if re.match(r"20\d{6}-", line)]
    assert nameless[1:3] == ["exited", "0"], text
    shown = recorded("show", nameless[0].rstrip("…"))
    assert shown.returncode == 0 and "-true\n" in shown.stdout, shown.stdout + shown.stderr


def test_a_long_name_is_shortened_in_text_and_whole_in_json(nilo):
    name = "n" * 400
    made = nilo("run", "--name", name, "--", "true")
    assert made.returncode == 0 and "n" * 80 not in made.stderr and "n" * 60 in made.stderr, made.stderr
    text = nilo("show").stdout
    assert text.splitlines()[0] == "n" * 79 + "…", text
    assert all(len(line) <= 120 for line in text.splitlines() if "n" * 60 in line), text
    assert json.loads(nilo("show", "--format", "json").stdout)["name"] == name


def test_severity_is_in_colour_on_a_terminal_and_nowhere_else(recorded):
    yellow = "\x1b[1m\x1b[33m"
    _, text = on_terminal(recorded, 200, "runs")
    assert f"{yellow}exited 3" in text and f"{yellow}exited 0" not in text
    _, shown = on_terminal(recorded, 200, "show", "last")
    assert f"{yellow}exited with 3" in shown
    for verb in ["runs", "show"]:
        _, plain = on_terminal(recorded, 200, verb, variables=["NO_COLOR=1"])
        assert not re.search(ESCAPE, plain) and "exited" in plain
        assert "\x1b" not in recorded(verb).stdout
    _, dumb = on_terminal(recorded, 200, "runs", variables=["TERM=dumb"])
    assert not re.search(ESCAPE, dumb)


def test_findings_are_coloured_by_their_severity(nilo, cgroup):
    cgroup.limit(200 << 20)
    nilo("run", "--quiet", "--", *python("x = bytearray(b'x') * (400 << 20)"), preexec_fn=cgroup.enter)
    _, text = on_terminal(nilo, 100, "show")
    assert "\x1b[1m\x1b[31mcritical:\x1b[0m" in text, text
    assert "\x1b[1m\x1b[31mOOM-killed" in text
    assert "critical: " in nilo("show").stdout


def test_rules_and_lines_of_scripts_fit(recorded):
    for verb in [["profile", "--duration", "0.3"], ["request", "base"]]:
        status, text = on_terminal(recorded, 40, *verb)
        assert status == 0, text
        text = re.sub(ESCAPE, "", text)
        lines = [line for line in text.splitlines() if re.match(r" *(=|#)", line)]
        assert lines and all(len(line) <= 40 for line in lines), text
    assert "  #SBATCH --time=" in text and "  # 50 % above" in text


def test_json_has_no_colour(recorded):
    _, text = on_terminal(recorded, 40, "runs", "--format", "json")
    assert len([run for run in json.loads(text)["runs"] if run["parent"] is None]) == 2
    assert subprocess.run([NILO, "show", "--format", "json"], cwd=recorded.folder, capture_output=True).stdout.startswith(b"{")


@pytest.mark.parametrize("columns", [40, 60])
@pytest.mark.parametrize("verb", ["show", "oom", "leak", "optimize"])
def test_sentences_wrap_between_words(recorded, verb, columns):
    # The run's folder is the only word that may be longer than a line.
    _, narrow = on_terminal(recorded, columns, verb, "base")
    _, wide = on_terminal(recorded, 400, verb, "base")
    narrow, wide = (re.sub(ESCAPE, "", text) for text in (narrow, wide))
    words = set(wide.split())
    is_rule = re.compile(r"[=\u2581-\u2588\u2800-\u28ff ]+$")
    lines = [line for line in narrow.splitlines() if not is_rule.match(line)]
    for line in lines:
        # Tables leave columns out and shorten texts instead.
        broken = [word for word in line.split() if word not in words and "…" not in word]
        assert not broken, (broken, narrow)
        assert len(line) <= columns or len(line.split()[-1]) > columns // 2, (line, narrow)
    units = "|".join(["%", "B", "KiB", "MiB", "GiB", "ms", "s"])
    assert not re.search(rf"\d\n +({units})\b", narrow), narrow


@pytest.mark.parametrize("columns", [40, 60])
def test_live_warnings_wrap_between_words(nilo, cgroup, job, tmp_path, columns):
    cgroup.limit(128 * MIB)
    held = job(*python("held = bytearray(b'x') * (116 << 20)\nprint('held', flush=True)\nimport time\ntime.sleep(600)"), stdout=subprocess.PIPE, preexec_fn=cgroup.enter)
    held.stdout.readline()
    options = ["oom", "--monitor", "--pid", held.pid, "--duration", "3", "--no-record"]
    piped = nilo(*options)
    assert "Recommendation: " in piped.stdout and "monitoring " in piped.stderr, (piped.stdout, piped.stderr)
    tmux = Tmux(tmp_path)
    try:
        text = tmux.run("narrow", [NILO, *options], columns=columns).wait().screen()
    finally:
        tmux.end()
    assert "Recommendation:" in text and "monitoring" in text, text
    words = set((piped.stdout + piped.stderr).split())
    # Figures are read anew; of everything else each word stands whole on a line.
    broken = [word for word in text.split() if word not in words and not re.search(r"\d", word)]
    assert not broken, (broken, text)
