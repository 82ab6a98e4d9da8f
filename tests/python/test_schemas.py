"""The JSON of every command is as `docs/schema/` says. `conftest.Nilo` checks it of every answer that any other test reads."""

import json
import subprocess

import jsonschema
import pytest
from answer_schemas import check, check_printed, published
from conftest import MIB, NILO, ROOT, python

SNAPSHOTS = ROOT / "crates/nilo-allocator/testdata"

GROWING = "kept = []\nimport time\nfor _ in range(30):\n    kept.append(bytearray(1 << 20))\n    time.sleep(0.02)\n"
LEAKING_FILE = "t_s,rss_bytes\n" + "".join(f"{second},{(100 + second) * MIB}\n" for second in range(300))


@pytest.fixture
def recorded(nilo):
    """Two runs: one that ends well, with a tag and a mark, and one that fails."""
    job = python(GROWING + "import subprocess, sys\nsubprocess.run([sys.argv[1], 'mark', 'grown'], check=True)\n")
    assert nilo("run", "-q", "--name", "good", "--tag", "size=small", "--json", "good.json", "--", *job, NILO).returncode == 0
    assert nilo("run", "-q", "--name", "bad", "--", "sh", "-c", "sleep 0.2; exit 3").returncode == 3
    return nilo


def printed(result, *names, statuses=(0,)):
    """The answer, after a look that it is of this name and as published."""
    assert result.returncode in statuses, result.stderr
    assert check_printed(result.stdout) == set(names)
    return result.stdout


def test_what_is_recorded_is_answered_as_published(recorded):
    nilo = recorded
    as_json = ["--format", "json"]
    printed(nilo("show", "good", *as_json), "show")
    assert check_printed((nilo.folder / "good.json").read_text()) == {"show"}
    printed(nilo("runs", *as_json), "runs")
    exported = json.loads(printed(nilo("export", "good", *as_json), "recording"))
    assert exported["tables"] and {"mark", "process-started", "command-ended"} <= {event["event"] for event in exported["events"]}
    printed(nilo("verify", "--all", *as_json), "verify")
    printed(nilo("compare", "good", "bad", *as_json), "compare")
    printed(nilo("request", "good", *as_json), "request")
    printed(nilo("oom", "good", *as_json), "oom", statuses=(0, 1))
    printed(nilo("leak", "good", *as_json), "leak", statuses=(0, 1))
    (nilo.folder / ".nilo/broken").mkdir()
    (nilo.folder / ".nilo/broken/run.json").write_text("{")
    verified = json.loads(printed(nilo("verify", "--all", *as_json), "verify", statuses=(1,)))
    assert not verified["ok"] and "error" in verified["runs"][-1]
    would = json.loads(printed(nilo("prune", "--keep", "0", "--dry-run", *as_json), "prune"))
    assert would["dry_run"] and len(would["removed"]) >= 1 and would["kept"] == 0
    assert would["freed_bytes"] == sum(run["freed_bytes"] for run in would["removed"])
    printed(nilo("rm", "good", *as_json), "rm")


def test_a_file_of_another_tool_is_answered_as_published(nilo):
    (nilo.folder / "leak.csv").write_text(LEAKING_FILE)
    options = ["--csv", "leak.csv", "--limit", "450MB", "--format", "json"]
    answer = json.loads(printed(nilo("oom", *options), "oom", statuses=(1,)))
    assert answer["warned"] and answer["resources"][0]["warnings"]
    answer = json.loads(printed(nilo("leak", *options), "leak", statuses=(1,)))
    assert answer["leak"]


def test_what_runs_is_answered_as_published(nilo, job):
    target = job("sleep", "60")
    of_target = ["--pid", target.pid, "--duration", "1", "--format", "json"]
    printed(nilo("ps", "--all", "--format", "json"), "ps")
    printed(nilo("profile", *of_target), "profile")
    lines = printed(nilo("monitor", *of_target), "monitor").splitlines()
    assert [json.loads(line)["event"] for line in lines][-1] == "end"
    printed(nilo("oom", "--monitor", *of_target), "monitor")
    printed(nilo("oom", *of_target), "oom", statuses=(0, 1))


def test_a_trained_tokenizer_is_answered_as_published(nilo):
    (nilo.folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 20)
    options = ["--vocab-size", "280", "--output", "tokenizer", "--format", "json"]
    printed(nilo("bpe", "train", "text.txt", *options), "bpe-train")


def test_snapshots_are_answered_as_published(nilo):
    leaking, fragmented = (str(SNAPSHOTS / f"{name}.pickle.gz") for name in ("window-retain-graph", "full-fragmentation-oom"))
    as_json = ["--format", "json"]
    printed(nilo("snapshot", "summary", leaking, fragmented, *as_json), "snapshot-summary")
    for file in leaking, fragmented:
        printed(nilo("snapshot", "why", file, *as_json), "snapshot-why", statuses=(1,))
        printed(nilo("snapshot", "whatif", file, *as_json), "snapshot-whatif")
    printed(nilo("snapshot", "leaks", leaking, *as_json), "snapshot-leaks", statuses=(1,))
    for verb in "why", "leaks":
        for answer in json.loads(nilo("snapshot", verb, leaking, fragmented, *as_json).stdout):
            check(f"snapshot-{verb}", answer)
    printed(nilo("snapshot", "diff", leaking, fragmented, *as_json), "snapshot-diff")


def test_an_alert_is_delivered_as_published(nilo, cgroup):
    cgroup.limit(128 * MIB)
    job = python("held = bytearray(118 << 20)\nimport time\ntime.sleep(3)\n")
    options = ["--on-alert", "cat >> alerts.json", "--json", "summary.json"]
    result = nilo("run", "-q", *options, "--", *job, preexec_fn=cgroup.enter, stdout=subprocess.DEVNULL)
    assert result.returncode == 0, result.stderr
    lines = (nilo.folder / "alerts.json").read_text()
    assert check_printed(lines) == {"alert"} and len(lines.splitlines()) >= 2
    summary = json.loads((nilo.folder / "summary.json").read_text())
    check("show", summary)
    assert summary["alerts"]


def test_a_training_is_answered_as_published(nilo):
    code = """
import math, nilometer, time
run = nilometer.init(config={"lr": 0.1, "layers": [1, 2]})
for step in range(20):
    run.log({"loss": 1 / (step + 1), "broken": math.nan if step == 3 else math.inf}, step=step)
    time.sleep(0.01)
"""
    for name in "first", "second":
        assert nilo("run", "-q", "--name", name, "--", *python(code)).returncode == 0
    shown = json.loads(printed(nilo("show", "first", "--format", "json"), "show"))
    assert {metric["name"] for metric in shown["metrics"]} >= {"loss", "broken"}
    printed(nilo("compare", "first", "second", "--format", "json"), "compare")
    exported = json.loads(printed(nilo("export", "first", "--format", "json"), "recording"))
    (broken,) = [table["values"] for table in exported["tables"] if "broken" in [column["name"] for column in table["columns"]]]
    assert "NaN" in sum(broken, []) and "Infinity" in sum(broken, [])


def test_the_check_finds_what_is_not_published(nilo):
    assert published() >= {"show", "runs", "monitor", "alert"}
    answer = {"schema": "nilo.rm/1", "removed": [{"run": "a", "path": "b", "freed_bytes": 1}]}
    check("rm", answer)
    for wrong in [
        answer | {"more": 1},
        answer | {"schema": "nilo.rm/2"},
        {"schema": "nilo.rm/1"},
        {"schema": "nilo.rm/1", "removed": [{"run": "a", "path": "b", "freed_bytes": "1"}]},
        {"schema": "nilo.rm/1", "removed": [{"run": "a", "path": "b", "freed_bytes": 1, "more": 1}]},
    ]:
        with pytest.raises(jsonschema.ValidationError):
            check("rm", wrong)
