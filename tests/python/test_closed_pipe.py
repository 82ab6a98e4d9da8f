"""A reader that has seen enough, as `head` does, changes no verdict."""

import os
import signal

import pytest

PIPE_CLOSED = 128 + signal.SIGPIPE


def status_of_closed(nilo, *arguments):
    """The status where nobody reads what is printed."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        result = nilo(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert result.stderr == ""
    return result.returncode


@pytest.fixture
def recorded(nilo):
    nilo("run", "--quiet", "--", "sleep", "0.2")
    rows = [f"{second},{1000 + 2 * second}" for second in range(600)]
    (nilo.folder / "leak.csv").write_text("\n".join(["seconds,rss_mb", *rows]) + "\n")
    return nilo


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_verdict_stands_although_nobody_reads_it(recorded, form):
    nilo = recorded
    found = [["leak", "--csv", "leak.csv"], ["oom", "--csv", "leak.csv", "--limit", "2400MiB"]]
    for arguments in found:
        arguments = [*arguments, "--format", form]
        assert nilo(*arguments).returncode == 1
        assert status_of_closed(nilo, *arguments) == 1, arguments
    assert status_of_closed(nilo, "verify", "--format", form) == 0
    (nilo.run_folder() / "run.json").write_text("{}")
    assert nilo("verify", "--all").returncode != 0
    assert status_of_closed(nilo, "verify", "--all", "--format", form) == nilo("verify", "--all").returncode


@pytest.mark.parametrize("arguments", [["show"], ["show", "--format", "json"], ["runs"], ["export", "--format", "csv"], ["export", "--format", "json"], ["plot", "-o", "-"]], ids=" ".join)
def test_without_a_verdict_the_status_is_that_of_a_closed_pipe(recorded, arguments):
    assert status_of_closed(recorded, *arguments) == PIPE_CLOSED
