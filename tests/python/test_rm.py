"""`nilo rm`: what is named is gone, and nothing else."""

import json
import os
import subprocess

from conftest import python, wait_until


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
    for name in [str(kept), f"{kept}/"]:
        result = nilo("rm", name)
        assert result.returncode == 2 and "is a symbolic link" in result.stderr, (name, result)
    assert nilo("rm", "kept").returncode == 2 and names(nilo) == ["gone"]
    (gone / "link").symlink_to(outside)
    assert nilo("rm", "gone").returncode == 0
    assert (outside / "precious").read_text() == "data" and (moved / "run.json").exists() and os.path.islink(kept)


def test_a_link_beside_a_run_is_no_second_run(nilo):
    record(nilo, "a")
    folder = nilo.run_folder()
    link = folder.with_name("zz-link")
    link.symlink_to(folder.name)
    assert names(nilo) == ["a"]
    assert nilo("prune", "--keep", "1").returncode == 0 and names(nilo) == ["a"]
    assert nilo("rm", "a").returncode == 0 and names(nilo) == [] and link.is_symlink()


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


BEGIN_TT = python("import nilometer; nilometer.init(name='tt', memory=False).finish()")


def runs_called_tt(nilo):
    """Two in jobs, then two at the top, in this order."""
    for job in ("sw1", "sw2"):
        assert nilo("run", "--quiet", "--name", job, "--", *BEGIN_TT).returncode == 0
    subprocess.run(BEGIN_TT, cwd=nilo.folder, env=nilo.environment, check=True)
    record(nilo, "tt")
    found = [run for run in nilo.runs() if run["name"] == "tt"]
    assert len(found) == 4
    return sorted(run["run"] for run in found)


def test_a_name_means_the_newest_run_wherever_it_lies(nilo):
    *older, newest = runs_called_tt(nilo)
    assert nilo.show("tt")["run"] == newest
    import nilometer

    assert nilometer.read_run("tt", dir=nilo.folder / ".nilo").path.name == newest
    # A job that is older than the run inside of another.
    assert nilo("run", "--quiet", "--name", "sw3", "--", *BEGIN_TT).returncode == 0
    inside = nilo.show("tt")
    assert inside["run"] not in [*older, newest] and inside["parent"] == nilo.show("sw3")["run"]


def test_a_name_of_several_runs_deletes_nothing(nilo):
    found = runs_called_tt(nilo)
    result = nilo("rm", "tt")
    assert result.returncode == 2 and '4 runs are called "tt"' in result.stderr and "by its id" in result.stderr
    assert all(run in result.stderr for run in found)
    assert sorted(run["run"] for run in nilo.runs() if run["name"] == "tt") == found
    assert nilo("rm", found[0], found[3]).returncode == 0
    assert sorted(run["run"] for run in nilo.runs() if run["name"] == "tt") == found[1:3]


def test_comparing_a_run_with_itself_says_so(nilo):
    record(nilo, "a", "b")
    assert nilo("compare", "a", "b").stderr == ""
    result = nilo("compare", "b", "last")
    assert result.returncode == 0 and '"b" and "last" are the same run' in result.stderr
