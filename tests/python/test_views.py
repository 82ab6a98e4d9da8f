"""Exports, plots, comparisons, completions: what other programs and people get."""

import csv
import json
import subprocess
import xml.etree.ElementTree

import pyarrow.parquet
import pytest
from conftest import NILO, python


@pytest.fixture
def recorded(nilo):
    code = "import time\nx=[]\nfor i in range(20):\n  x.append(bytearray(b'x')*(2<<20)); time.sleep(.03)"
    nilo("run", "--quiet", "--interval", "0.02", "--name", "growing", "--", "sh", "-c", f'"{NILO}" mark start; exec {python("")[0]} -c "{code}"')
    return nilo


def test_csv_begins_with_the_columns_of_the_seed_document(recorded):
    rows = list(csv.reader(recorded("export", "growing").stdout.splitlines()))
    assert rows[0][:3] == ["timestamp_seconds", "memory_mb", "cpu_percent"]
    times = [float(row[0]) for row in rows[1:]]
    assert times == sorted(times) and len(times) > 10
    memory = [float(row[1]) for row in rows[1:] if row[1]]
    assert memory[-2] > memory[0]


def test_json_parses_and_has_every_table(recorded):
    data = json.loads(recorded("export", "--format", "json").stdout)
    assert data["schema"] == "nilo.recording/1"
    subjects = {table["subject"]["type"] for table in data["tables"]}
    assert {"tree", "process", "process-detail", "host", "recorder"} <= subjects
    for table in data["tables"]:
        assert all(len(column) == len(table["times_nanos"]) for column in table["values"])
    assert any(event["event"] == "mark" for event in data["events"])


def test_parquet_is_read_by_pyarrow(recorded):
    recorded("export", "-o", "run.parquet")
    table = pyarrow.parquet.read_table(recorded.folder / "run.parquet")
    assert table.column_names == ["time_nanos", "table", "column", "step", "value", "writer"]
    rows = table.to_pylist()
    memory = [row["value"] for row in rows if row["table"] == "tree" and row["column"] == "memory_bytes"]
    assert max(memory) == recorded.show()["memory"]["sampled_peak_bytes"]


def test_long_csv_agrees_with_the_summary(recorded):
    rows = list(csv.DictReader(recorded("export", "--long").stdout.splitlines()))
    memory = [float(row["value"]) for row in rows if row["table"] == "tree" and row["column"] == "memory_bytes" and row["value"]]
    assert max(memory) == recorded.show()["memory"]["sampled_peak_bytes"]


def test_plots_are_pictures(recorded):
    assert recorded("plot", "-o", "x.svg").returncode == 0
    root = xml.etree.ElementTree.parse(recorded.folder / "x.svg").getroot()
    text = " ".join("".join(node.itertext()) for node in root.iter())
    assert root.tag.endswith("svg") and "MiB" in text and "start" in text and "peak" in text
    assert recorded("plot", "-o", "x.png", "--dark").returncode == 0
    assert (recorded.folder / "x.png").read_bytes().startswith(b"\x89PNG")


def test_runs_are_compared_with_the_first(recorded):
    recorded("run", "--quiet", "--name", "small", "--", "sleep", "0.2")
    data = json.loads(recorded("compare", "growing", "small", "--format", "json").stdout)
    assert [run["label"] for run in data["runs"]] == ["growing", "small"]
    assert data["runs"][1]["peak_change_ratio"] < 0
    assert "growing" in recorded("compare", "growing", "small").stdout
    assert recorded("plot", "growing", "small", "-o", "both.png").returncode == 0


def test_show_in_words(recorded):
    out = recorded("show", "growing").stdout
    assert "MEMORY USAGE STATISTICS" in out and "mark at" in out and "exited with 0" in out


def test_show_begins_with_the_name_and_knows_what_the_kernel_counted(nilo):
    code = "open('x', 'wb').write(b'x' * (8 << 20)); import os; os.sync(); sum(range(3_000_000))"
    nilo("run", "--quiet", "--name", "my first run", "--", *python(code))
    out = nilo("show").stdout
    assert out.splitlines()[0] == "my first run"
    for label in ["User Time:", "System Time:", "Page Faults:", "Context Switches:", "Storage I/O:"]:
        assert label not in out and label in nilo("show", "--all").stdout
    shown = nilo.show()
    usage = shown["usage"]
    assert usage["user_secs"] + usage["system_secs"] == pytest.approx(shown["cpu"]["total_secs"], rel=0.5)
    assert usage["user_secs"] > 0 and usage["minor_faults"] > 500 and usage["voluntary_switches"] > 0
    assert usage["written_bytes"] % 512 == 0 and usage["read_bytes"] % 512 == 0


EXECS = """
import os, time
if os.fork() == 0:
    held = bytearray(b"x" * (100 << 20))
    time.sleep(0.5)
    os.execvp("sleep", ["sleep", "0.5"])
os.wait()
"""


@pytest.mark.parametrize("below", [[], ["bash", "-c", '"$@"; true', "bash"]], ids=["directly", "below-bash"])
def test_a_peak_is_that_of_the_program_that_had_it_and_not_of_the_next_one(nilo, below):
    made = nilo("run", "--", *below, *python(EXECS))
    assert made.returncode == 0, made.stderr
    largest, *others = json.loads(nilo("show", "--format", "json").stdout)["processes"]
    assert largest["name"].startswith("python") and "held" in largest["command"], largest
    assert largest["later_name"] == "sleep" and largest["peak_added_bytes"] > 100 << 20
    for text in [made.stderr, nilo("show").stdout]:
        (line,) = [line for line in text.splitlines() if f"(PID {largest['pid']}, RSS" in line]
        assert line.split("MiB  ")[1].startswith("python") and line.endswith(", later sleep)"), text
    assert nilo("plot", "-o", "exec.svg").returncode == 0
    texts = [element.text or "" for element in xml.etree.ElementTree.parse(nilo.folder / "exec.svg").iter()]
    assert any("python" in text for text in texts) and not any(text.endswith("sleep") for text in texts), texts


def test_a_run_shorter_than_a_second_has_no_busiest_second(nilo):
    short = nilo("run", "--", "true")
    # Far below a second unless the machine stands still; then it has one.
    lasted = json.loads(nilo("show", "--format", "json").stdout)["duration_secs"]
    assert ("busiest second" in short.stderr) == (lasted >= 1), short.stderr
    longer = nilo("run", "--", "sleep", "1.2")
    assert "in the busiest second" in longer.stderr, longer.stderr


def test_compare_keeps_exit_codes_and_tells_runs_of_one_name_apart(nilo):
    for code in [0, 3]:
        nilo("run", "--quiet", "--name", "same", "--", "sh", "-c", f"exit {code}")
    first, second = [run["run"] for run in nilo.runs()]
    compared = nilo("compare", first, second).stdout
    assert "exited 0" in compared and "exited 3" in compared
    data = json.loads(nilo("compare", first, second, "--format", "json").stdout)
    assert [run["exit_code"] for run in data["runs"]] == [0, 3]
    labels = [run["label"] for run in data["runs"]]
    assert len(set(labels)) == 2 and all(label.endswith(" same") for label in labels)
    rows = list(csv.DictReader(nilo("compare", first, second, "--format", "csv").stdout.splitlines()))
    assert [row["exit_code"] for row in rows] == ["0", "3"]
    nilo("plot", first, second, "-o", "x.svg")
    svg = (nilo.folder / "x.svg").read_text()
    assert all(f">{label}<" in svg or f">{label}<title>" in svg for label in labels), labels


def test_a_comparison_draws_limits_and_kills(nilo, cgroup):
    cgroup.limit(200 << 20)
    leaks = "import time\nx=[]\nwhile True: x.append(bytearray(b'x')*(8<<20)); time.sleep(.02)"
    nilo("run", "--quiet", "--name", "killed", "--", *python(leaks), preexec_fn=cgroup.enter)
    nilo("run", "--quiet", "--name", "fine", "--", *python("import time\nx=bytearray(b'x')*(150<<20); time.sleep(1)"), preexec_fn=cgroup.enter)
    assert nilo("plot", "killed", "fine", "-o", "x.svg").returncode == 0
    svg = (nilo.folder / "x.svg").read_text()
    assert "OOM kill: killed" in svg and "limit 200.00 MiB" in svg and 'class="kill"' in svg


def test_a_plot_has_processor_time_below_the_memory(nilo):
    nilo("run", "--quiet", "--interval", "0.02", "--", *python("import time\nend=time.monotonic()+1\nwhile time.monotonic()<end: pass"))
    nilo("plot", "-o", "x.svg")
    svg = (nilo.folder / "x.svg").read_text()
    assert 'class="cpu panel"' in svg and "CPU, % of a core" in svg


def test_an_unknown_option_of_run_is_said_to_be_one(nilo):
    for option, hint in [("--intervall", "did you mean --interval?"), ("--colour", "`nilo run --help` lists the options")]:
        result = nilo("run", option, "1", "--", "touch", "ran")
        assert result.returncode == 2 and f"unknown option {option}" in result.stderr and hint in result.stderr, result.stderr
    assert not (nilo.folder / "ran").exists() and nilo.runs() == []
    # What stands behind the command is the command's own.
    assert nilo("run", "--quiet", "echo", "--intervall", "-x").stdout == "--intervall -x\n"
    assert nilo("run", "--quiet", "--", "echo", "--", "-y").stdout == "-- -y\n"
    missing = nilo("run", "--dir", "x").stderr
    assert "Usage: nilo run [OPTIONS] <COMMAND>..." in missing, missing


def test_manual_pages_are_generated(nilo):
    assert ".TH nilo" in nilo("man").stdout
    assert nilo("man", "--output", "pages").returncode == 0
    assert (nilo.folder / "pages" / "nilo-run.1").exists()


def test_every_verb_has_help(nilo):
    for verb in ["run", "watch", "ps", "mark", "runs", "show", "compare", "plot", "export", "verify", "rm", "prune"]:
        result = nilo(verb, "--help")
        assert result.returncode == 0 and "Usage:" in result.stdout
