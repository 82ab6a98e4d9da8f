"""Which runs a folder holds: those that were meant for it, and an error where it cannot be read."""

import os


def test_a_run_that_fell_back_is_listed_for_the_folder_it_was_meant_for_alone(nilo, tmp_path):
    environment = {"TMPDIR": str(tmp_path / "elsewhere")}
    (tmp_path / "elsewhere").mkdir()
    (nilo.folder / "other").mkdir()
    (nilo.folder / ".nilo").write_text("not a folder")
    assert nilo("run", "--quiet", "--", "true", extra_env=environment).returncode == 0
    assert "true" in nilo("runs", extra_env=environment).stdout
    assert nilo("show", extra_env=environment).returncode == 0
    listed = nilo("runs", "--dir", "other", extra_env=environment)
    assert listed.stdout == "" and "no runs in other" in listed.stderr
    for command in (["show"], ["rm", "last"]):
        result = nilo(*command, "--dir", "other", extra_env=environment)
        assert result.returncode == 2 and "no runs in other" in result.stderr
    assert "true" in nilo("runs", extra_env=environment).stdout


def test_a_folder_that_may_not_be_read_is_not_told_as_empty(nilo, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    # Root may read everything.
    become_nobody = (lambda: (os.setgid(65534), os.setuid(65534))) if os.getuid() == 0 else None
    for verb in ("runs", "show"):
        result = nilo(verb, "--dir", str(closed), preexec_fn=become_nobody)
        assert result.returncode == 2, result.stderr
        assert (f"error: cannot read the folder {closed}: permission denied\nhint: ") in result.stderr, result.stderr
