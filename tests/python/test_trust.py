"""Whose settings file may say what: a cloned repository and a stranger's file decide nothing."""

import json
import os
import stat
import sys

import pytest
from conftest import NILO, unavailable
from package import run_program

# The machine's memory is above a thousandth of its limit, so that there is an alert at once.
ALERT = '[alerts]\nmemory_warning = 0.001\non_alert = "touch ran"\n'
UNTIL_RAN = ["sh", "-c", "for i in $(seq 300); do [ -e ran ] && exit 0; sleep 0.1; done; exit 9"]
STRANGER = 54321


def settings(folder, text, name="nilo.toml"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(0o644)
    return path


def given_to_a_stranger(path):
    try:
        os.chown(path, STRANGER, STRANGER)
    except PermissionError as error:
        unavailable(f"cannot give a file to another user: {error}")


def alerted(nilo):
    return [alert["kind"] for alert in nilo.show()["alerts"]]


def one_line(stderr, *words):
    lines = [line for line in stderr.splitlines() if "nilo.toml" in line]
    assert len(lines) == 1 and lines[0].startswith("warning:"), stderr
    assert all(word in lines[0] for word in words), lines
    return lines[0]


def test_a_cloned_repository_runs_no_command(nilo):
    path = settings(nilo.folder, ALERT)
    result = nilo("run", "--", "sh", "-c", "sleep 2.5; echo worked")
    assert (result.returncode, result.stdout) == (0, "worked\n")
    one_line(result.stderr, "on_alert", f"nilo trust {path}")
    # The harmless part took effect; the command did not run.
    assert "memory-warning" in alerted(nilo)
    assert not (nilo.folder / "ran").exists()


def test_an_approval_is_for_one_file_with_one_content(nilo):
    path = settings(nilo.folder, ALERT)
    approved = nilo("trust")
    assert approved.returncode == 0 and approved.stdout == f'approved {path}\n  on_alert = "touch ran"\n'
    assert nilo("run", "--quiet", "--", *UNTIL_RAN).stderr == ""
    assert (nilo.folder / "ran").exists()
    # Another content, another place, or an approval taken back: not approved.
    (nilo.folder / "copy").mkdir()
    settings(nilo.folder / "copy", ALERT)
    one_line(type(nilo)(nilo.folder / "copy")("run", "--quiet", "--", "true").stderr, "on_alert")
    settings(nilo.folder, ALERT.replace("touch ran", "touch other"))
    one_line(nilo("run", "--quiet", "--", "true").stderr, "on_alert")
    settings(nilo.folder, ALERT)
    assert nilo("run", "--quiet", "--", "true").stderr == ""
    assert nilo("trust", "--revoke").stdout == f"no longer approved: {path}\n"
    one_line(nilo("run", "--quiet", "--", "true").stderr, "on_alert")
    assert "was not approved" in nilo("trust", "--revoke", path).stderr


def test_approvals_are_the_users_alone(nilo, tmp_path):
    state = tmp_path / "state"
    settings(nilo.folder, 'dir = "elsewhere"\n')
    assert nilo("trust", extra_env={"XDG_STATE_HOME": str(state)}).returncode == 0
    folder = state / "nilo/trusted"
    (record,) = folder.iterdir()
    assert (stat.S_IMODE(folder.stat().st_mode), stat.S_IMODE(record.stat().st_mode)) == (0o700, 0o600)

    def run():
        return nilo("run", "--quiet", "--", "true", extra_env={"XDG_STATE_HOME": str(state)})

    assert run().stderr == "" and (nilo.folder / "elsewhere").is_dir()
    # One that somebody else put there does not count.
    given_to_a_stranger(record)
    one_line(run().stderr, "dir")
    os.chown(record, os.getuid(), os.getgid())
    folder.chmod(0o777)
    one_line(run().stderr, "dir")


@pytest.mark.parametrize(
    "text",
    [
        '[alerts]\nmemory_warning = 0.001\nsignal = "KILL"\n',
        'dir = "theirs"\ninterval = 3600\nquiet = true\n',
        '[alerts]\nmemory_warning = 0.001\nwebhook = "http://127.0.0.1:9/"\n',
        ALERT,
        b"\xff\xfe\x1b]0;title\x07 broken",
        "interval = [",
        "unknown = 1",
    ],
)
def test_a_strangers_file_above_has_no_effect(nilo, text):
    given_to_a_stranger(settings(nilo.folder, text))
    below = nilo.folder / "mine"
    below.mkdir()
    mine = type(nilo)(below)
    result = mine("run", "--", "sh", "-c", "sleep 1.5; echo worked")
    assert (result.returncode, result.stdout) == (0, "worked\n"), result.stderr
    one_line(result.stderr, "ignored", f"another user (UID {STRANGER})")
    assert "\x1b" not in result.stderr
    assert mine.show()["recorder"]["interval_secs"] == 0.1 and mine.show()["alerts"] == []
    assert not (below / "ran").exists() and not (nilo.folder / "ran").exists() and not (nilo.folder / "theirs").exists()
    assert "cannot approve" in mine("trust").stderr


def test_a_strangers_file_does_not_hide_the_users_own_above_it(nilo):
    settings(nilo.folder, "interval = 0.05\n")
    below = nilo.folder / "theirs/mine"
    below.mkdir(parents=True)
    given_to_a_stranger(settings(nilo.folder / "theirs", "interval = 3600\n"))
    mine = type(nilo)(below)
    mine("run", "--quiet", "--", "true")
    assert mine.show()["recorder"]["interval_secs"] == 0.05


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_can_write_is_left_alone(nilo, mode):
    path = settings(nilo.folder, ALERT + "[extra]\n")
    path.chmod(mode)
    result = nilo("run", "--", "echo", "worked")
    assert (result.returncode, result.stdout) == (0, "worked\n")
    one_line(result.stderr, f"mode {mode:o}", "chmod go-w")
    assert nilo("trust").returncode == 2


def test_a_link_and_a_fifo_are_not_followed(nilo, tmp_path):
    target = settings(tmp_path / "target", ALERT, "other.toml")
    (nilo.folder / "nilo.toml").symlink_to(target)
    result = nilo("run", "--", "echo", "worked")
    assert (result.returncode, result.stdout) == (0, "worked\n")
    one_line(result.stderr, "symbolic link")
    (nilo.folder / "nilo.toml").unlink()
    os.mkfifo(nilo.folder / "nilo.toml")
    one_line(nilo("run", "--quiet", "--", "true", timeout=30).stderr, "it is a FIFO, not a file")


def test_a_file_that_is_swapped_while_it_is_read_never_wins(nilo, job):
    """One of ours and one of a stranger's take turns at the same path; only ours has an effect."""
    ours = settings(nilo.folder, "interval = 0.05\n", "ours")
    theirs = settings(nilo.folder, "interval = 3600\n", "theirs")
    given_to_a_stranger(theirs)
    swap = """
import os
while True:
    for name in ("ours", "theirs"):
        os.link(name, "next"); os.rename("next", "nilo.toml")
"""
    job(sys.executable, "-c", swap, cwd=nilo.folder)
    seen = set()
    for _ in range(60):
        assert nilo("run", "--quiet", "--", "true").returncode == 0
    for run in nilo.runs():
        seen.add(nilo.show(run["run"])["recorder"]["interval_secs"])
    assert seen <= {0.05, 0.1} and ours.exists(), seen


def test_the_users_own_file_and_a_named_one_need_no_approval(nilo, tmp_path):
    config = tmp_path / "config"
    settings(config, ALERT, "nilo/config.toml")
    own = {"XDG_CONFIG_HOME": str(config)}
    assert nilo("run", "--quiet", "--", *UNTIL_RAN, extra_env=own).stderr == ""
    # The project wins over it, and a named file over the search.
    settings(nilo.folder, "interval = 0.05\n")
    settings(config, "interval = 0.02\nquiet = true\n", "nilo/config.toml")
    assert nilo("run", "--", "true", extra_env=own).stderr == ""
    assert nilo.show()["recorder"]["interval_secs"] == 0.05
    named = settings(nilo.folder, 'dir = "there"\ninterval = 0.03\n', "my.toml")
    nilo("run", "--quiet", "--", "true", extra_env={"NILO_CONFIG": str(named)})
    assert nilo.show("last", "--dir", "there")["recorder"]["interval_secs"] == 0.03
    result = nilo("run", "--", "true", extra_env={"NILO_CONFIG": "missing.toml"})
    assert result.returncode == 2 and "NILO_CONFIG" in result.stderr


def test_python_asks_for_the_same_approval(nilo, tmp_path):
    path = settings(tmp_path, 'dir = "there"\ninterval = 0.05\n')
    code = "import nilometer; run = nilometer.init(); run.log({'a': 1.0}); print(run.path)"
    result = run_program(code, tmp_path)
    assert result.stdout.startswith(str(tmp_path / ".nilo"))
    assert result.stderr.count("NilometerWarning") == 1 and f"nilo trust {path}" in result.stderr
    assert json.loads(next(tmp_path.glob(".nilo/*/run.json")).read_text())["interval_nanos"] == 50_000_000
    assert nilo("trust").returncode == 0
    result = run_program(code, tmp_path)
    assert result.stdout.startswith(str(tmp_path / "there")) and result.stderr == ""
    settings(tmp_path, b"\xff broken")
    given_to_a_stranger(path)
    result = run_program(code, tmp_path)
    assert result.stdout.startswith(str(tmp_path / ".nilo")) and "another user" in result.stderr


def test_errors_in_the_users_own_file_show_no_escape_bytes(nilo):
    settings(nilo.folder, b'"\x1b]0;title\x07' + b'evil" = 1\n')
    result = nilo("run", "--quiet", "--", "true")
    assert "\x1b" not in one_line(result.stderr, "line 1")
    settings(nilo.folder, '"\\u001b]0;x\\u0007\\u202eevil" = 1\n')
    result = nilo("run", "--quiet", "--", "true")
    assert not {"\x1b", "\u202e"} & set(one_line(result.stderr, "evil"))


def test_a_mistake_as_long_as_the_file_is_told_in_a_short_line(nilo):
    settings(nilo.folder, "a" * 100_000 + " = 1")
    result = nilo("run", "--quiet", "--", "true")
    told = one_line(result.stderr, "line 1: unknown setting `aaaa")
    assert result.returncode == 0 and told.endswith("…") and len(told) < 1000


MISTAKES = [
    ("intervall = 3", "line 1: unknown setting `intervall`, expected one of `dir`, `interval`"),
    (b'x="\xff"\n', "not UTF-8 after byte 3"),
    ('quiet = true\n[alerts]\nmemory_warning = "a"', 'line 3: invalid type: string "a", expected a number'),
    ("interval = [1]", "line 1: expected seconds such as 0.1, or text such as \"100ms\""),
    ("alerts = 3", "line 1: invalid type: integer `3`, expected a table: [alerts]"),
    ("a = [", "line 1: unclosed array, expected `]`"),
    ("quiet = true\ninterval = \"abc\"", 'line 2: interval: not a duration: "abc"'),
    ("[alerts]\nleak = true\nsignal = \"USR9\"", 'line 3: [alerts] signal: no signal is called "USR9"'),
    ("[alerts]\nmemory_critical = 0.1", "line 2: [alerts] memory_"),
    ("[alerts]\nmemory_warning = 7", "line 2: [alerts] memory_warning = 7 is not a share of the limit"),
]


@pytest.mark.parametrize(("text", "mistake"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_in_a_found_file_does_not_stop_the_job(nilo, text, mistake):
    settings(nilo.folder, text)
    below = nilo.folder / "below"
    below.mkdir()
    mine = type(nilo)(below)
    result = mine("run", "--", "sh", "-c", "echo hi; exit 7")
    assert (result.returncode, result.stdout) == (7, "hi\n"), result.stderr
    one_line(result.stderr, f"{nilo.folder}/nilo.toml is ignored: ", mistake)
    # Nothing of it holds, and reading works too.
    shown = mine("show", "last", "--format", "json")
    assert shown.returncode == 0 and json.loads(shown.stdout)["exit_code"] == 7
    one_line(shown.stderr, mistake)
    code = "import nilometer; nilometer.init().finish(); print('hi')"
    result = run_program(code, below, NILO_STRICT="0")
    assert result.stdout == "hi\n" and mistake in result.stderr


def test_a_mistake_in_the_users_own_file_does_not_stop_the_job_but_one_in_a_named_file_does(nilo, tmp_path):
    config = tmp_path / "config"
    settings(config, "intervall = 3", "nilo/config.toml")
    result = nilo("run", "--quiet", "--", "echo", "hi", extra_env={"XDG_CONFIG_HOME": str(config)})
    assert (result.returncode, result.stdout) == (0, "hi\n")
    assert result.stderr.startswith(f"warning: {config}/nilo/config.toml is ignored: line 1")
    named = settings(nilo.folder, "intervall = 3", "my.toml")
    result = nilo("run", "--quiet", "--", "echo", "hi", extra_env={"NILO_CONFIG": str(named)})
    assert (result.returncode, result.stdout) == (2, "") and "unknown setting `intervall`" in result.stderr


def behind_link(nilo, target):
    """A cloned repository whose `.nilo` leads elsewhere."""
    repository = nilo.folder / "repository"
    repository.mkdir()
    (repository / ".nilo").symlink_to(target)
    return type(nilo)(repository)


@pytest.mark.parametrize("target", ["../victim", "."])
def test_nothing_is_written_behind_a_link_that_is_not_approved(nilo, target, tmp_path):
    victim = nilo.folder / "victim"
    victim.mkdir()
    (victim / "file").write_text("precious")
    cloned = behind_link(nilo, target)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    own = {"TMPDIR": str(scratch)}
    result = cloned("run", "--quiet", "--name", "here", "--", "sh", "-c", "echo hi; exit 7", extra_env=own)
    assert (result.returncode, result.stdout) == (7, "hi\n")
    (line,) = result.stderr.splitlines()
    assert f".nilo is a symbolic link to {target}" in line and "nilo trust .nilo" in line and str(scratch) in line
    code = "import nilometer; nilometer.init(name='python').finish(); print('hi')"
    result = run_program(code, cloned.folder, NILO_STRICT="0", TMPDIR=str(scratch))
    assert result.stdout == "hi\n" and "nilo trust .nilo" in result.stderr
    assert [path.name for path in victim.iterdir()] == ["file"]
    assert [path.name for path in cloned.folder.iterdir()] == [".nilo"]
    assert len(list(scratch.glob("nilo-*/*/run.json"))) == 2
    # They are found there by name, and nothing is deleted behind the link.
    assert json.loads(cloned("show", "here", "--format", "json", extra_env=own).stdout)["name"] == "here"
    result = cloned("prune", "--keep", "0")
    assert result.returncode == 2 and "nilo trust .nilo" in result.stderr


@pytest.mark.parametrize("mode, is_strangers, why", [(0o777, True, "another user"), (0o755, True, "another user"), (0o777, False, "everybody can write")])
def test_nothing_is_recorded_where_a_stranger_can_change_it(nilo, tmp_path, mode, is_strangers, why):
    found = nilo.folder / ".nilo"
    found.mkdir()
    found.chmod(mode)
    if is_strangers:
        given_to_a_stranger(found)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    own = {"TMPDIR": str(scratch)}
    result = nilo("run", "--quiet", "--name", "here", "--", "sh", "-c", "echo hi; exit 7", extra_env=own)
    assert (result.returncode, result.stdout) == (7, "hi\n")
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning:") and why in line and ("--dir" in line or "chmod" in line) and str(scratch) in line, line
    assert list(found.iterdir()) == []
    assert len(list(scratch.glob("nilo-*/*/run.json"))) == 1
    assert json.loads(nilo("show", "here", "--format", "json", extra_env=own).stdout)["name"] == "here"
    assert nilo("prune", "--keep", "0").returncode == 2
    # Whoever names the folder means it.
    assert nilo("run", "--quiet", "--dir", str(found), "--", "true").stderr == ""
    assert len(list(found.glob("*/run.json"))) == 1


@pytest.mark.parametrize("mode", [0o700, 0o775, 0o1777])
def test_a_folder_of_ours_in_which_others_replace_nothing_holds_the_runs(nilo, mode):
    (nilo.folder / ".nilo").mkdir()
    (nilo.folder / ".nilo").chmod(mode)
    assert nilo("run", "--quiet", "--", "true").stderr == "" and len(nilo.runs()) == 1


def test_with_sudo_the_folder_of_the_invoking_user_holds_the_runs(nilo):
    (nilo.folder / ".nilo").mkdir()
    given_to_a_stranger(nilo.folder / ".nilo")
    invoking = {"SUDO_UID": str(STRANGER)}
    assert nilo("run", "--quiet", "--", "true", extra_env=invoking).stderr == "" and len(nilo.runs()) == 1


def test_an_approved_link_holds_the_runs(nilo, tmp_path):
    (tmp_path / "scratch").mkdir()
    nilo.environment["TMPDIR"] = str(tmp_path / "scratch")
    storage = nilo.folder / "storage"
    storage.mkdir()
    linked = behind_link(nilo, "../storage")
    linked.environment = nilo.environment
    approved = linked("trust", ".nilo")
    assert (approved.returncode, approved.stdout) == (0, f"approved {linked.folder}/.nilo -> ../storage\n")
    assert linked("run", "--quiet", "--", "true").stderr == ""
    result = run_program("import nilometer; nilometer.init().finish()", linked.folder)
    assert result.stderr == "" and len(list(storage.glob("*/run.json"))) == 2 == len(linked.runs())
    # A folder that was there before is the user's own.
    assert not (storage / ".gitignore").exists()
    # The approval is for this target.
    (linked.folder / ".nilo").unlink()
    (linked.folder / ".nilo").symlink_to("../../storage")
    assert "nilo trust .nilo" in linked("run", "--quiet", "--", "true").stderr
    (linked.folder / ".nilo").unlink()
    (linked.folder / ".nilo").symlink_to("../storage")
    assert linked("trust", "--revoke", ".nilo").stdout == "no longer approved: .nilo\n"
    assert "nilo trust .nilo" in linked("run", "--quiet", "--", "true").stderr


def test_a_folder_that_was_there_before_gets_no_gitignore(nilo):
    (nilo.folder / "results").mkdir()
    assert nilo("run", "--quiet", "--dir", "results", "--", "true").returncode == 0
    assert not (nilo.folder / "results/.gitignore").exists()
    assert nilo("run", "--quiet", "--", "true").returncode == 0
    assert (nilo.folder / ".nilo/.gitignore").read_text() == "*\n"


def test_a_notice_is_given_once_in_a_job(nilo):
    settings(nilo.folder, ALERT)
    train = f"{sys.executable} -c 'import nilometer; nilometer.init(memory=False)'"
    result = nilo("run", "--quiet", "--", "sh", "-c", f"{train}; {train}; {NILO} runs > /dev/null")
    assert result.returncode == 0
    one_line(result.stderr, "on_alert")


def test_children_of_a_program_do_not_repeat_its_notice(nilo):
    path = settings(nilo.folder, ALERT)
    code = """
        import os, subprocess, sys, nilometer
        nilometer.init(memory=False)
        if not sys.argv[1:]:
            subprocess.run([sys.executable, "-c", sys.orig_argv[2], "child"], check=True)
    """
    said = run_program(code, nilo.folder).stderr
    assert said.count(f"nilo trust {path}") == 1


@pytest.mark.parametrize(
    ("name", "value", "arguments"),
    [("NILO_INTERVAL", "abc", ["run"]), ("NILO_INTERVAL", "5000000", ["watch", "--pid", "1"]), ("NILO_ALERT_WEBHOOK", "ftp://x", ["run"])],
)
def test_a_wrong_value_is_blamed_on_the_variable_that_has_it(nilo, name, value, arguments):
    # What the command itself is given is not ours.
    command = ["--", "echo", "--interval", "zz", "--alert-webhook", "zz"] if arguments == ["run"] else []
    result = nilo(*arguments, *command, extra_env={name: value})
    first = result.stderr.splitlines()[0]
    assert result.returncode == 2 and name in first and value in first and "--" not in first, result.stderr
    # Whoever types one is told of that one.
    option = "--interval" if name == "NILO_INTERVAL" else "--alert-webhook"
    result = nilo(*arguments, option, "typed", *command, extra_env={name: value})
    first = result.stderr.splitlines()[0]
    assert result.returncode == 2 and option in first and "typed" in first and name not in first, result.stderr
