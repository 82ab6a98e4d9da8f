"""`nilo fit --check`: an estimate beside what a run recorded on its (fake) GPU."""

import json

from conftest import MIB
from test_gpu_accounts import record  # noqa: F401

SETTINGS = ("gpt2", "--batch", "1", "--seq", "64", "--dtype", "fp32")


def checked(nilo, *more):
    result = nilo("fit", *SETTINGS, "--check", "last", "--format", "json", *more)
    assert result.stderr == "", result.stderr
    return result.returncode, json.loads(result.stdout)


def test_figures_stand_beside_their_estimates(record, nilo):  # noqa: F811
    record("""
        say(card(300 * MIB), card(0, "GPU-b"), process(250 * MIB)); heard(2)
        time.sleep(2)
    """)
    status, told = checked(nilo)
    figures = {figure["name"]: figure for figure in told["figures"]}
    assert [figures[name]["recorded_bytes"] for name in ("allocated", "reserved", "context", "process")] == [200 * MIB, 202 * MIB, 48 * MIB, 250 * MIB]
    for figure in figures.values():
        expected = figure["estimated_bytes"]["expected"]
        assert figure["error_percent"] == round(10000 * (expected / figure["recorded_bytes"] - 1)) / 100
        low, high = figure["estimated_bytes"]["low"], figure["estimated_bytes"]["high"]
        assert figure["is_within_range"] is (low <= figure["recorded_bytes"] <= high)
    # GPT-2 takes far more than this program did.
    assert status == 1 and told["furthest"] == "process"
    assert "Outside of the range, and furthest off: process." in nilo("fit", *SETTINGS, "--check", "last").stdout


def test_a_run_without_a_gpu_is_refused(nilo):
    assert nilo("run", "--quiet", "--", "true").returncode == 0
    result = nilo("fit", *SETTINGS, "--check", "last")
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("error: the run has no GPU memory to compare with\nhint: record one with `nilo run")
