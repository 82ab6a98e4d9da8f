"""`nilo rm`: what is named is gone, and nothing else."""

import json
import os
import subprocess

from conftest import wait_until


def record(nilo, *names):
    for name in names:
        assert nilo("run", "--quiet", "--name", name, "--", "true").returncode == 0


def names(nilo):
    return [run["name"] for run in nilo.runs()]


def test_named_runs_are_deleted_without_a_question(nilo):
    record(nilo, "a", "b", "c", "d")
    result = nilo("rm", "a", "last")
    assert result.returncode == 0 and result.stdout.count("deleted") == 2
    assert names(nilo) == ["b", "c"]
    gone = json.loads(nilo("rm", "b", "--format", "json").stdout)
    assert gone["schema"] == "nilo.rm/1" and len(gone["removed"]) == 1 and gone["removed"][0]["freed_bytes"] > 0
    assert names(nilo) == ["c"]


def test_a_wrong_name_deletes_nothing(nilo):
    record(nilo, "a", "b")
    result = nilo("rm", "a", "nobody")
    assert result.returncode == 2 and "nobody" in result.stderr
    assert names(nilo) == ["a", "b"]
    assert nilo("rm").returncode == 2


def test_a_run_that_is_recorded_is_refused_unless_forced(nilo):
    job = nilo.start("run", "--quiet", "--name", "alive", "--", "sh", "-c", "read x", stdin=subprocess.PIPE)
    try:
        wait_until(lambda: (nilo.folder / ".nilo").exists() and names(nilo) == ["alive"], "the run")
        refused = nilo("rm", "alive")
        assert refused.returncode == 2 and "still being recorded" in refused.stderr and "--force" in refused.stderr
        assert names(nilo) == ["alive"]
        assert nilo("rm", "alive", "--force").returncode == 0
        assert names(nilo) == []
    finally:
        job.communicate("\n", timeout=60)


def test_links_are_neither_followed_nor_deleted(nilo, tmp_path):
    record(nilo, "kept", "gone")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("data")
    kept, gone = sorted(path for path in (nilo.folder / ".nilo").iterdir() if path.is_dir())
    moved = outside / kept.name
    kept.rename(moved)
    kept.symlink_to(moved)
    for name in ["kept", str(kept), f"{kept}/"]:
        result = nilo("rm", name)
        assert result.returncode == 2 and "is a link" in result.stderr, (name, result)
    (gone / "link").symlink_to(outside)
    assert nilo("rm", "gone").returncode == 0
    assert (outside / "precious").read_text() == "data" and (moved / "run.json").exists() and os.path.islink(kept)


def test_only_runs_are_deleted(nilo):
    folder = nilo.folder / "project"
    folder.mkdir()
    (folder / "thesis").write_text("text")
    assert nilo("rm", "./project").returncode == 2
    (folder / "run.json").write_text("{}")
    assert nilo("rm", "./project").returncode == 2
    (folder / "run.json").write_text(json.dumps({"schema": "another/1", "id": "x", "mode": "run", "command": []}))
    assert nilo("rm", "./project").returncode == 2
    assert (folder / "thesis").read_text() == "text"
