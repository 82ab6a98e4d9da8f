"""What Tab offers, asked of a real bash; the scripts of other shells ask the same program."""

import os
import shutil
import subprocess

import pytest
from conftest import NILO, unavailable

# Completes as readline would: the words up to the cursor are those of the line.
ASK = """
source <(nilo completions bash)
function=$(complete -p nilo | sed 's/.*-F \\([^ ]*\\).*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMP_TYPE=9
$function nilo "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def offered(nilo, tmp_path):
    """Answers what bash offers for the words of a line."""
    path = tmp_path / "bin"
    path.mkdir()
    os.symlink(NILO, path / "nilo")

    def ask(*words, **variables):
        environment = nilo.environment | {"PATH": f"{path}:{os.environ['PATH']}"} | variables
        result = subprocess.run(
            ["bash", "-c", ASK, "bash", *words], cwd=nilo.folder, env=environment, capture_output=True, text=True, timeout=60
        )
        assert result.stderr == "", result.stderr
        return [word.strip() for word in result.stdout.splitlines() if word.strip()]

    return ask


@pytest.fixture
def named(nilo):
    for name in ["base", "bigger", "other"]:
        assert nilo("run", "--quiet", "--name", name, "--", "true").returncode == 0
    return nilo


def test_bash_offers_the_names_of_runs(named, offered):
    assert offered("nilo", "show", "b") == ["bigger", "base"], "the newest first"
    assert offered("nilo", "compare", "base", "bi") == ["bigger"]
    for verb in ["show", "plot", "export", "verify", "rm", "oom", "leak", "request"]:
        assert "other" in offered("nilo", verb, "o"), verb


def test_ids_and_last_are_offered_too(named, offered):
    ids = [run["run"] for run in named.runs()]
    assert sorted(offered("nilo", "show", ids[0][:8])) == sorted(ids)
    assert offered("nilo", "show", "la") == ["last"]


def test_the_folder_that_was_typed_counts(named, offered, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (named.folder / ".nilo").rename(elsewhere / "runs")
    assert offered("nilo", "show", "ba") == []
    assert offered("nilo", "show", "--dir", str(elsewhere / "runs"), "ba") == ["base"]
    assert offered("nilo", "show", "ba", NILO_DIR=str(elsewhere / "runs")) == ["base"]


def test_verbs_and_options_are_offered(offered):
    assert offered("nilo", "wa") == ["watch"]
    assert "--interval" in offered("nilo", "run", "--int")


def test_names_with_escape_sequences_are_not_offered(named, offered):
    named("run", "--quiet", "--name", "b\x1b[2Jad", "--", "true")
    assert "\x1b" not in "".join(offered("nilo", "show", "b"))


def test_a_job_runs_whatever_the_environment_says_about_completion(nilo):
    """Only a variable of our own makes nilo answer a shell."""
    result = nilo("run", "--quiet", "--", "echo", "ran", extra_env={"COMPLETE": "bash"})
    assert (result.returncode, result.stdout) == (0, "ran\n")


# What zsh would list is handed to `_describe`, which works only on a line that is being edited.
ASK_ZSH = """
autoload -Uz compinit; compinit -u -d compdump
source <(nilo completions zsh)
_describe() { local values=${@[-1]}; print -l -- ${(P)values%%:*}; }
words=("$@"); CURRENT=$#
$_comps[nilo]
"""
ASK_FISH = "nilo completions fish | source; complete -C (string join ' ' $argv) | string split -f1 \\t"


@pytest.mark.parametrize(("shell", "ask"), [("zsh", ["-f", "-c", ASK_ZSH, "zsh"]), ("fish", ["--no-config", "-c", ASK_FISH])])
def test_other_shells_offer_the_names_of_runs(named, tmp_path, shell, ask):
    if not shutil.which(shell):
        unavailable(f"{shell} is not installed")
    (tmp_path / "bin").mkdir()
    os.symlink(NILO, tmp_path / "bin/nilo")
    environment = named.environment | {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    result = subprocess.run(
        [shell, *ask, "nilo", "show", "b"], cwd=named.folder, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (result.stdout.split(), result.stderr) == (["bigger", "base"], "")
