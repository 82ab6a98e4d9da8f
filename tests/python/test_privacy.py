"""What a recording tells, and to whom: secrets are hidden, folders are private, text acts on nobody's screen."""

import csv
import io
import json
import os
import stat
import subprocess

import pytest
from conftest import NILO, python, unavailable
from package import only_run, run_program

SECRET = "correct-horse-battery"
ARGUMENTS = ["--token", SECRET, f"--api-key={SECRET}", f"HF_TOKEN={SECRET}", f"https://me:{SECRET}@example.org/", "hf_abcdefghijklmnopqrstuvwxyz012345"]
TOLD = [SECRET, "hf_abcdefgh"]


def everything_told(nilo):
    """Every byte of the run, its exports and its picture."""
    told = [path.read_bytes() for path in sorted(nilo.run_folder().iterdir())]
    for verb in (["show", "--all"], ["show", "--format", "json"], ["runs"], ["runs", "--format", "json"], ["runs", "--format", "csv"], ["export", "--format", "json"], ["export", "--format", "csv"], ["show", "--format", "csv"]):
        result = nilo(*verb)
        assert result.returncode == 0, (verb, result.stderr)
        told.append((result.stdout + result.stderr).encode())
    assert nilo("plot", "-o", "x.svg").returncode == 0
    told.append((nilo.folder / "x.svg").read_bytes())
    return b"\n".join(told).decode(errors="replace")


def test_secrets_in_command_lines_are_hidden_everywhere(nilo):
    code = "import subprocess, sys, time; subprocess.Popen(['sleep', '0.5']); time.sleep(0.4)"
    nested = f"HF_TOKEN={SECRET} sh -c 'sleep 0.5; : --password {SECRET}'"
    nilo("run", "--interval", "0.02", "--", "sh", "-c", f"{nested}; \"$0\" -c \"$1\" {' '.join(ARGUMENTS)}", python("")[0], code, *ARGUMENTS)
    told = everything_told(nilo)
    for secret in TOLD:
        assert secret not in told
    shown = nilo.show()
    assert shown["command"][-len(ARGUMENTS) :] == ["--token", "***", "--api-key=***", "HF_TOKEN=***", "https://me:***@example.org/", "***"]


def test_a_secret_of_several_words_is_hidden_to_its_end(nilo):
    secrets = ["--password", "correct horse battery staple", "--token", "line1\nSECRETLINE2", "--api-key=swordfish sesame"]
    told = ["correct", "horse", "staple", "line1", "SECRETLINE2", "swordfish", "sesame"]
    nilo("run", "--quiet", "--", "bash", "-c", "sleep 0.3; true", "x", *secrets)
    texts = [everything_told(nilo)]
    assert [process["command"] for process in nilo.show()["processes"] if "--password" in process["command"]] == ["bash -c sleep 0.3; true x --password *** --token *** --api-key=***"]
    with subprocess.Popen(["bash", "-c", "read; true", "x", *secrets], stdin=subprocess.PIPE) as process:
        watched = nilo("watch", "--quiet", "--pid", process.pid, "--duration", "0.3s")
        assert watched.returncode == 0, watched.stderr
        texts.append(everything_told(nilo))
        process.stdin.close()
    assert "--password ***" in texts[1]
    for text in texts:
        assert [word for word in told if word in text] == []


SAYING = f"""
import nilometer
nilometer.init(name="try password={SECRET}", config={{"db_pass": "{SECRET}", "data": "https://h/b?sig={SECRET}"}})
nilometer.mark("login with token={SECRET}")
try:
    raise ValueError("password={SECRET}")
except ValueError as cause:
    raise RuntimeError("401 for https://me:{SECRET}@host/ Authorization: Bearer {SECRET}, epoch 3: unexpected key: conv1") from cause
"""


@pytest.mark.parametrize("inside", [False, True])
def test_secrets_in_messages_marks_and_names_are_hidden(nilo, tmp_path, inside):
    (tmp_path / "say.py").write_text(SAYING)
    (tmp_path / "job.sh").write_text(f'{NILO} mark "secret={SECRET} epoch 4"\n{python("")[0]} say.py\n')
    if inside:
        nilo("run", "--name", f"job --db-pass {SECRET}", "--", "sh", "job.sh")
    else:
        subprocess.run([python("")[0], "say.py"], cwd=tmp_path, env=nilo.environment, capture_output=True)
    files = [path for path in (tmp_path / ".nilo").rglob("*") if path.is_file()]
    told = b"".join(path.read_bytes() + str(path).encode() for path in files).decode(errors="replace")
    assert SECRET not in told
    assert "https://me:***@host/ Authorization: Bearer ***, epoch 3: unexpected key: conv1" in told
    assert "ValueError: password=***" in told and "login with token=***" in told
    assert "try password=***" in told
    if inside:
        assert "job --db-pass ***" in told and "secret=*** epoch 4" in told


def test_secrets_in_messages_are_kept_when_asked_for(nilo, tmp_path):
    run_program(SAYING, tmp_path, expect=1, NILO_KEEP_SECRETS="1")
    assert f"Bearer {SECRET}" in nilo("show").stdout


@pytest.mark.parametrize("how", ["flag", "variable", "settings"])
def test_secrets_are_kept_when_asked_for(nilo, how):
    environment = {"NILO_KEEP_SECRETS": "1"} if how == "variable" else {}
    if how == "settings":
        (nilo.folder / "nilo.toml").write_text("keep_secrets = true\n")
        nilo("run", "--quiet", "--", "sh", "-c", "sleep 0.3", *ARGUMENTS)
        assert nilo.show()["command"][4] == "***", "not from a file that nobody approved"
        nilo("trust")
    nilo("run", "--quiet", *(["--keep-secrets"] if how == "flag" else []), "--", "sh", "-c", "sleep 0.3", *ARGUMENTS, extra_env=environment)
    shown = nilo.show()
    assert shown["command"][-len(ARGUMENTS) :] == ARGUMENTS
    assert any(SECRET in process["command"] for process in shown["processes"])


def test_python_hides_them_too(tmp_path):
    code = "import nilometer, time; nilometer.init().log({'a': 1.0}); time.sleep(0.3)"
    run_program(code, tmp_path, *ARGUMENTS)
    told = b"".join(path.read_bytes() for path in only_run(tmp_path).iterdir())
    for secret in TOLD:
        assert secret.encode() not in told
    run_program(code, tmp_path / ".nilo", *ARGUMENTS, NILO_KEEP_SECRETS="1")
    kept = json.loads((only_run(tmp_path / ".nilo") / "run.json").read_text())["command"]
    assert kept[-len(ARGUMENTS) :] == ARGUMENTS


def test_settings_under_secret_names_are_hidden(nilo):
    config = {"api_key": SECRET, "db": {"password": SECRET}, "servers": [{"token": SECRET}], "cmd": f"train --token {SECRET}", "argv": ["--pass", SECRET], "max_tokens": 512, "optimizer": "adam"}
    code = f"import nilometer; nilometer.init(config={config!r}); nilometer.current_run().config(hftoken={SECRET!r})"
    nilo("run", "--quiet", "--", *python(code))
    (inner,) = [path for path in (nilo.run_folder() / "runs").iterdir() if path.is_dir()]
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in inner.iterdir())
    hidden = json.loads(nilo("show", inner, "--format", "json").stdout)["config"]
    assert hidden == {"api_key": "***", "db/password": "***", "servers": [{"token": "***"}], "cmd": "train --token ***", "argv": ["--pass", "***"], "max_tokens": 512, "optimizer": "adam", "hftoken": "***"}
    nilo("run", "--quiet", "--keep-secrets", "--dir", "kept", "--", *python(code))
    (kept,) = [path for path in (nilo.folder / "kept").glob("*/runs/*") if path.is_dir()]
    shown = json.loads(nilo("show", kept, "--format", "json").stdout)["config"]
    assert (shown["api_key"], shown["hftoken"]) == (SECRET, SECRET)


def test_secrets_in_tags_are_hidden(nilo):
    nilo("run", "--quiet", "--tag", f"token={SECRET}", "--tag", "lr=1", "--", "true")
    assert SECRET not in everything_told(nilo)
    assert nilo.runs()[0]["tags"] == {"lr": "1", "token": "***"}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_private_unless_told_otherwise(nilo, tmp_path):
    def open_to_all():
        os.umask(0o022)

    nilo("run", "--quiet", "--", "true", preexec_fn=open_to_all)
    assert (mode(nilo.folder / ".nilo"), mode(nilo.run_folder())) == (0o700, 0o700)
    for place, flags, environment in [("a", ["--shared"], {}), ("b", [], {"NILO_SHARED": "1"})]:
        nilo("run", "--quiet", *flags, "--dir", place, "--", "true", extra_env=environment, preexec_fn=open_to_all)
        (run,) = [path for path in (nilo.folder / place).iterdir() if path.is_dir()]
        assert (mode(nilo.folder / place), mode(run)) == (0o755, 0o755)
    folder = tmp_path / "program"
    folder.mkdir()
    run_program("import nilometer; nilometer.log({'a': 1.0})", folder)
    assert (mode(folder / ".nilo"), mode(only_run(folder))) == (0o700, 0o700)


HOSTILE = "=cmd()\x1b]0;x\x07\u202etxt\u200b\u2066"


def test_names_tags_and_marks_act_on_no_screen(nilo):
    mark = f"import subprocess, os; subprocess.run([os.environ['NILO'], 'mark', {HOSTILE!r}], check=True)"
    nilo("run", "--name", HOSTILE, "--tag", f"k={HOSTILE}", "--", *python(mark + f"; {HOSTILE!r}"), HOSTILE, extra_env={"NILO": NILO})
    for verb in (["show", "--all"], ["show"], ["runs"], ["runs", "--format", "csv"], ["compare", "last", "last"], ["compare", "last", "last", "--format", "csv"], ["export", "--format", "csv"], ["export", "--format", "csv", "--long"], ["show", "--format", "csv"], ["oom"], ["leak"], ["show", HOSTILE + "?"], ["show", "--format", "json"], ["runs", "--format", "json"], ["export", "--format", "json"]):
        result = nilo(*verb)
        for character in "\x1b\x07\u202e\u200b\u2066":
            assert character not in result.stdout + result.stderr, (verb, result.stdout, result.stderr)


def test_no_cell_of_a_csv_file_is_a_formula(nilo):
    for formula in ("=1+1", "+1", "-1", "@SUM(A1)", "\t=1"):
        nilo("run", "--quiet", "--", "sh", "-c", "exec \"$NILO\" mark -- \"$0\"", formula, extra_env={"NILO": NILO})
        cells = list(csv.reader(io.StringIO(nilo("export", "--format", "csv").stdout)))
        marks = cells[0].index("marks")
        assert "'" + formula in [row[marks] for row in cells], cells
    # A command may begin so, too.
    link = nilo.folder / "=run"
    link.symlink_to("/bin/true")
    nilo("run", "--quiet", "--", "./=run", extra_env={"PATH": os.environ["PATH"]})
    nilo("run", "--quiet", "--", "=run", extra_env={"PATH": f"{nilo.folder}:{os.environ['PATH']}"})
    commands = [row["command"] for row in csv.DictReader(io.StringIO(nilo("runs", "--format", "csv").stdout))]
    assert commands[-2:] == ["./=run", "'=run"]


def test_a_stranger_who_took_the_fallback_folders_name_gets_nothing(nilo, tmp_path):
    taken = tmp_path / "shared" / f"nilo-{os.getuid()}"
    taken.mkdir(parents=True)
    try:
        os.chown(taken, 54321, 54321)
    except PermissionError as error:
        unavailable(f"cannot give a folder to another user: {error}")
    (nilo.folder / ".nilo").write_text("not a folder")
    environment = {"TMPDIR": str(taken.parent)}
    for _ in range(2):
        result = nilo("run", "--", "echo", "worked", extra_env=environment)
        assert (result.returncode, result.stdout) == (0, "worked\n")
    assert list(taken.iterdir()) == []
    (ours,) = [path for path in taken.parent.iterdir() if path != taken]
    assert ours.name.startswith(taken.name + "-") and mode(ours) == 0o700
    assert f"2 runs of this folder are in {ours}" in nilo("runs", extra_env=environment).stderr


@pytest.fixture
def few_inodes(tmp_path):
    folder = tmp_path / "inodes"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=24", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        unavailable(f"cannot mount a tmpfs: {mounted.stderr}")
    yield folder
    subprocess.run(["umount", folder], check=True)


TAKE_ALL = "import itertools\nfor i in itertools.count():\n    try: open(f'{i}', 'x').close()\n    except OSError: break\n"


def test_a_run_without_a_free_inode_has_an_end(few_inodes, nilo):
    here = type(nilo)(few_inodes)
    result = here("run", "--", *python(TAKE_ALL + "raise SystemExit(3)"))
    assert result.returncode == 3 and "exited with 3" in result.stderr and "still running" not in result.stderr
    assert here.show()["status"] == "exited"
    assert json.loads((here.run_folder() / "run.json").read_text())["ending"]["exit_code"] == 3


def test_a_program_without_a_free_inode_has_an_end(few_inodes):
    code = TAKE_ALL.replace("import itertools", "import itertools, nilometer\nrun = nilometer.init()")
    code += "run.finish(4)\nprint(nilometer.RecordedRun(run.path).summary()['status'])\n"
    assert run_program(code, few_inodes, NILO_STRICT="0").stdout == "exited\n"
    assert json.loads((only_run(few_inodes) / "run.json").read_text())["ending"]["exit_code"] == 4
