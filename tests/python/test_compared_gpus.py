"""GPUs in comparisons: figures of each run beside each other, and a panel with a line for each."""

import csv
import json
import textwrap

import pytest
from conftest import python
from fake_nvml import GIB, PRELUDE, FakeDriver


@pytest.fixture
def record(nilo, tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    driver = FakeDriver(folder)

    def run(name, code):
        command = ["run", "--quiet", "--interval", "0.05", "--name", name, "--", *python(PRELUDE + textwrap.dedent(code))]
        result = nilo(*command, extra_env=driver.environment)
        assert result.returncode == 0, result.stderr

    return run


@pytest.fixture
def two_runs(record):
    record("small", "say(gpu(5 * GIB, busy=40), process(4 * GIB)); heard()")
    record("large", "say(gpu(9 * GIB, busy=80), process(6 * GIB)); heard()")
    record("none", "say(gpu(9 * GIB, busy=80)); heard()")


def test_the_gpus_of_runs_are_compared(nilo, two_runs):
    runs = json.loads(nilo("compare", "small", "large", "none", "--format", "json").stdout)["runs"]
    small, large = runs[0]["gpus"], runs[1]["gpus"]
    assert (small["count"], small["peak_job_bytes"], small["peak_used_bytes"]) == (1, 4 * GIB, 5 * GIB)
    assert (large["peak_job_bytes"], large["peak_job_change_ratio"]) == (6 * GIB, 0.5)
    assert large["mean_utilization"] > small["mean_utilization"] > 0
    assert "gpus" not in runs[2], "its job held nothing on a GPU"
    text = nilo("compare", "small", "large", "none").stdout
    title = "GPU memory (driver; fullest GPU):\n"
    rows = text[text.index(title) + len(title) :].splitlines()
    assert rows[0].split() == ["NAME", "GPUS", "JOB", "PEAK", "CHANGE", "PEAK", "USED", "CHANGE", "BUSY"]
    assert rows[2].split()[:6] == ["large", "1", "6.00", "GiB", "+50.0", "%"]
    rows = list(csv.DictReader(nilo("compare", "small", "none", "--format", "csv").stdout.splitlines()))
    assert [row["gpu_peak_job_bytes"] for row in rows] == [str(4 * GIB), ""]


def test_a_picture_of_several_runs_has_a_panel_of_their_gpus(nilo, two_runs):
    assert nilo("plot", "small", "large", "-o", "gpus.svg").returncode == 0
    picture = (nilo.folder / "gpus.svg").read_text()
    assert "GPU, GiB held by the job<" in picture
    assert "last " not in picture, "figures of one run would be taken for those of all"
    assert nilo("plot", "none", "none", "-o", "none.svg").returncode == 0
    assert "GPU" not in (nilo.folder / "none.svg").read_text()
