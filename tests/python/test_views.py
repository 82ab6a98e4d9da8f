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


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_are_generated(nilo, shell):
    script = nilo("completions", shell).stdout
    assert "nilo" in script and "watch" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_manual_pages_are_generated(nilo):
    assert ".TH nilo" in nilo("man").stdout
    assert nilo("man", "--output", "pages").returncode == 0
    assert (nilo.folder / "pages" / "nilo-run.1").exists()


def test_every_verb_has_help(nilo):
    for verb in ["run", "watch", "ps", "mark", "runs", "show", "compare", "plot", "export", "verify", "prune"]:
        result = nilo(verb, "--help")
        assert result.returncode == 0 and "Usage:" in result.stdout
