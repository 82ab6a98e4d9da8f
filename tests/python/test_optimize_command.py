"""`nilo optimize` on real recordings: what it says, what it refuses, and that it never changes how a command ends."""

import json
import re
import signal
import subprocess

import pytest
from answer_schemas import check, check_printed
from conftest import NILO, python
from test_narrow_terminals import on_terminal

# Three forked workers look at objects of their parent, and so copy them, page by page.
COPYING = """
import gc, os, time
gc.disable()
items = [f"{number:060d}" for number in range(500_000)]
def look():
    time.sleep(1.5)
    for start in range(0, len(items), 5000):
        seen = items[start : start + 5000]
        time.sleep(0.02)
    time.sleep(1.5)
workers = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        look()
        os._exit(0)
    workers.append(pid)
for pid in workers:
    os.waitpid(pid, 0)
"""
LEAKING = """
import sys, time
kept = []
for number in range(160):
    kept.append(bytearray(b"x") * (2 << 20))
    time.sleep(0.1)
sys.exit(3)
"""
MEMORY = r"Memory: peak \d+\.\d\d (KiB|MiB), (\d+ % of the limit of \d+\.\d\d (MiB|GiB|TiB) used|no limit known)"
FACTS = {
    "gc": {"total_seconds": 10.0, "wall_seconds": 100.0, "steps": "many"},
    "model": {"activation_bytes": 6 << 30, "peak_bytes": 10 << 30, "repeated_blocks": 24, "logits_bytes": 3 << 30},
    "buffers": [{"name": "replay", "float64_bytes": 1 << 30}],
    "loader": {"wait_ratio": 0.5},
    "unheard": {"of": 1},
}
TELLING = f"""
import json, nilometer
from nilometer.optimize import in_run
run = nilometer.init(memory=False)
for subject, values in json.loads('''{json.dumps(FACTS)}''').items():
    in_run.tell_facts(subject, values)
in_run.tell_optimization("checkpoint plan", applied=True, before_bytes=4.0 * 2**30, after_bytes=3.0 * 2**30, measured="peak of a step")
in_run.tell_optimization("autocast", applied=False, note="not tried: no GPU")
"""


def answer_of(result):
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    check("optimize", answer)
    return answer


def rules(answer):
    return [said["rule"] for said in answer["recommendations"]]


def test_workers_that_copy_their_parents_objects_are_told_to_share_them(nilo):
    made = nilo("optimize", "--name", "copies", "--report", "report.md", "--", *python(COPYING))
    assert made.returncode == 0, made.stderr
    assert re.search(r"forked workers held \d+\.\d\d MiB of copies of what they shared", made.stdout), made.stdout
    assert "SharedList" in made.stdout and "not measured:" in made.stdout
    # The summary of `nilo run` is not what was asked for.
    assert "MEMORY USAGE" not in made.stdout + made.stderr
    answer = answer_of(nilo("optimize", "copies", "--format", "json"))
    assert rules(answer) == ["share-dataset"]
    saved = answer["recommendations"][0]["saving"]
    finding = next(one for one in nilo.show("copies")["findings"] if one["kind"] == "copy-on-write")
    assert 50 << 20 <= saved["bytes"] <= 4 * (80 << 20) and 0 < saved["ratio"] <= 1
    # Said once: the finding's hint is the rule's advice, and the summary does not repeat it.
    shown = nilo("show", "copies").stdout
    assert shown.count("SharedList") == 1 and "SharedList" in finding["advice"][0]
    assert "Recommendations:" not in shown
    report = (nilo.folder / "report.md").read_text()
    assert "## Measured in this run" in report and "## Expected, not measured" in report


def test_a_leaking_command_keeps_its_status(nilo):
    made = nilo("optimize", "--mode", "quick", "--report", "report.json", "--", *python(LEAKING))
    assert made.returncode == 3, made.stderr
    assert "Look for objects retained across steps" in made.stdout
    assert re.search(r"memory grows by \d+\.\d\d [MG]iB a minute", made.stdout), made.stdout
    report = (nilo.folder / "report.json").read_text()
    assert check_printed(report) == {"optimize"}
    assert rules(json.loads(report)) == ["stop-the-leak"]


def test_what_a_program_told_is_judged_and_what_it_tried_is_listed(nilo):
    told = nilo("run", "-q", "--name", "told", "--", *python(TELLING))
    assert told.returncode == 0, told.stderr
    full = answer_of(nilo("optimize", "--format", "json"))
    assert rules(full) == ["checkpoint-blocks", "chunk-cross-entropy", "store-float32", "load-data-faster", "raise-collection-thresholds"]
    assert [one["name"] for one in full["optimizations"]] == ["checkpoint plan", "autocast"]
    assert "batches" in [one["subject"] for one in full["not_looked_at"]]
    training = answer_of(nilo("optimize", "--mode", "training", "--format", "json"))
    assert "store-float32" not in rules(training) and training["left_out"] == 1 and training["optimizations"] == []
    quick = answer_of(nilo("optimize", "--mode", "quick", "--format", "json"))
    assert rules(quick) == rules(full)[:3] and quick["left_out"] == 2
    text = nilo("optimize").stdout
    assert "checkpoint plan: 4.00 GiB → 3.00 GiB (−25 %), measured (peak of a step)" in text
    assert "autocast: not applied; not tried: no GPU" in text
    shown = nilo("show").stdout
    assert "checkpoint plan: 4.00 GiB → 3.00 GiB (−25 %), measured" in shown and "and 2 more: nilo optimize" in shown
    check("show", nilo.show())


def test_where_nothing_is_recommended_the_peak_is_told_with_the_limit(nilo):
    made = nilo("optimize", "--mode", "quick", "--name", "small", "--", "printf", "no line end")
    assert made.returncode == 0 and made.stderr == ""
    first, memory, nothing = made.stdout.splitlines()
    assert (first, nothing) == ("no line end", "No recommendations for small.")
    assert re.fullmatch(MEMORY, memory)


@pytest.mark.parametrize("terminator", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_as_it_ended_the_command(nilo, terminator):
    made = nilo("optimize", "--", "sh", "-c", f"kill -{int(terminator)} $$")
    assert made.returncode == -terminator
    assert "No recommendations" in made.stdout


def test_a_command_that_cannot_be_run(nilo):
    made = nilo("optimize", "--", "no-such-command-anywhere")
    assert made.returncode == 127 and "hint:" in made.stderr


def test_without_a_run_there_is_a_hint(nilo):
    for arguments in [[], ["--mode", "quick"], ["nobody"]]:
        said = nilo("optimize", *arguments)
        assert said.returncode == 2 and said.stdout == "" and "hint:" in said.stderr, said.stderr


REFUSED_REPORTS = {
    "report.txt": "cannot tell what to write to report.txt",
    "report": "cannot tell what to write to report",
    "missing/deep/report.md": "cannot write the report missing/deep/report.md: the folder missing/deep does not exist",
    "file/report.md": "cannot write the report file/report.md: file is not a folder",
    "folder.md": "cannot write the report folder.md: it is a folder",
    "/proc/report.md": "cannot write the report /proc/report.md: No such file or directory",
    "-": "cannot be written to standard output",
}


@pytest.mark.parametrize("name", REFUSED_REPORTS)
def test_a_report_that_cannot_be_written_is_refused_before_anything_is_recorded(nilo, name):
    (nilo.folder / "folder.md").mkdir()
    (nilo.folder / "file").write_text("")
    said = nilo("optimize", "--report", name, "--", "touch", "begun")
    first, hint = said.stderr.splitlines()
    assert said.returncode == 2 and first.startswith("error:") and hint.startswith("hint:")
    assert REFUSED_REPORTS[name] in first and ".nilo-" not in first
    assert not (nilo.folder / "missing").exists()
    assert not (nilo.folder / "begun").exists() and not (nilo.folder / ".nilo").exists()


@pytest.mark.parametrize(
    "config, sentence",
    [
        ("{", "not JSON"),
        ("[]", "a list, not a JSON object"),
        ('{"memory": {"max_memory_gb": 8}}', 'unknown setting "max_memory_gb"'),
        ('{"max_memory_usage_gb": "8"}', "must be a number above 0"),
        ('{"memory_threshold": 85}', "must be a number above 0 and at most 1"),
        ('{"memory_warning_threshold": 0.95}', "is not below memory_critical_threshold"),
        ('{"min_batch_size": 600}', "is more than initial_batch_size"),
        ('{"training": {"gc_threshold_0": 1}}', "in the wrong place"),
        ("\x00\xff", "not JSON"),
    ],
)
def test_a_wrong_configuration_is_one_sentence_and_a_hint(nilo, config, sentence):
    (nilo.folder / "memory.json").write_text(config)
    said = nilo("optimize", "--config", "memory.json", "--", "touch", "begun")
    assert said.returncode == 2 and sentence in said.stderr, said.stderr
    assert len(said.stderr.splitlines()) == 2 and said.stderr.splitlines()[1].startswith("hint:")
    assert not (nilo.folder / "begun").exists()


def test_the_template_is_a_configuration(nilo):
    template = nilo("optimize", "--template")
    assert template.returncode == 0
    settings = json.loads(template.stdout)
    assert settings["memory"]["memory_warning_threshold"] == 0.75 and settings["training"]["max_batch_size"] == 512
    (nilo.folder / "memory.json").write_text(template.stdout)
    made = nilo("optimize", "--mode", "quick", "--config", "memory.json", "--name", "small", "--", "true")
    memory, nothing = made.stdout.strip().splitlines()
    assert nothing == "No recommendations for small within the budget of 8.00 GiB."
    assert re.fullmatch(MEMORY, memory)
    settings["memory"]["max_memory_usage_gb"] = 0.0001
    (nilo.folder / "memory.json").write_text(json.dumps(settings))
    refused = nilo("optimize", "--config", "memory.json")
    assert refused.returncode == 2 and "buffer_size_limit_mb (1024 MB) is more than half of max_memory_usage_gb (0.0001 GB)" in refused.stderr
    settings["memory"]["buffer_size_limit_mb"] = 0.05
    (nilo.folder / "memory.json").write_text(json.dumps(settings))
    answer = answer_of(nilo("optimize", "--config", "memory.json", "--format", "json"))
    assert rules(answer) == ["stay-within-budget"] and "critical from 90 % on" in answer["recommendations"][0]["evidence"][0]
    assert answer["budget_bytes"] == pytest.approx(0.0001 * 2**30)


def test_an_answer_that_nobody_reads_and_one_that_cannot_be_written(nilo):
    nilo("run", "-q", "--", "true")
    script = '"$NILO" optimize; echo "status $?" >&2'
    shown = subprocess.run(["bash", "-c", f"({script}) | true"], cwd=nilo.folder, env={**nilo.environment, "NILO": NILO}, capture_output=True, text=True)
    # Whether the reader is gone before the answer comes is a matter of luck.
    assert shown.stderr in ("status 0\n", "status 141\n")
    with open("/dev/full", "w") as full:
        unwritten = nilo("optimize", stdout=full)
        assert unwritten.returncode == 2 and "error:" in unwritten.stderr
        # The command's status stands.
        assert nilo("optimize", "--", "sh", "-c", "exit 5", stdout=full).returncode == 5


def test_lines_wrap_on_a_narrow_terminal(nilo):
    nilo("run", "-q", "--name", "told", "--", *python(TELLING))
    status, text = on_terminal(nilo, 60, "optimize", "told")
    assert status == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    # A name of code stays in one piece, so that it can be copied.
    too_long = [line for line in lines if len(line) > 60 and " " in line.strip()]
    assert not too_long, too_long
    assert re.search(r"4\.32 GiB", text)
