"""The examples of docs/integrations.md run as they stand."""

import os
import re
import subprocess
import sys

import numpy
import pytest
from conftest import ROOT

TEXT = (ROOT / "docs/integrations.md").read_text()
EXAMPLES = {
    title: code for title, code in re.findall(r"^## (.+?)\n.*?^```python\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE)
}


def test_every_section_has_an_example():
    assert list(EXAMPLES) == re.findall(r"^## (.+)$", TEXT, flags=re.MULTILINE)
    assert len(EXAMPLES) == 6


def test_the_keras_example_needs_no_variable(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    # Keras also remembers the backend in a file of the user.
    environment["KERAS_HOME"] = str(tmp_path / "keras")
    ran = subprocess.run([sys.executable, "-c", EXAMPLES["Keras"]], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_example_runs_and_reads_its_run_back(title, capsys):
    names = {"__name__": "example"}
    exec(compile(EXAMPLES[title], f"integrations.md: {title}", "exec"), names)
    # Each prints a series of the run it made, and none is empty.
    printed = capsys.readouterr().out
    assert re.search(r"\[.*\d.*\]|\['backward'", printed, flags=re.DOTALL), printed
    path = names["path"] if "path" in names else names["run"].path
    recorded = names["nilometer"].read_run(path)
    assert recorded.metrics
    for metric in recorded.metrics:
        assert len(recorded.series(metric).value) and not numpy.isinf(recorded.series(metric).value).any()
