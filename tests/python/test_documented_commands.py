"""Every command and option that the documents name exists."""

import re
import subprocess

import pytest
from conftest import NILO, ROOT

DOCUMENTS = sorted([ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"), ROOT / "docs/schema/README.md"])
OPTION = r"(?<![\w-])--[a-z][a-z-]+"
# Verbs that have verbs of their own.
GROUPS = ("bpe", "snapshot")
# Options of other programs that the documents name.
ELSEWHERE = {"--", "--path", "--mem", "--time", "--mem-per-cpu", "--mem-per-gpu", "--nproc-per-node", "--logdir", "--test", "--release", "--locked", "--generator", "--seeds", "--hf-token"}


def help_of(*verb):
    told = subprocess.run([NILO, *verb, "--help"], capture_output=True, text=True)
    return told.stdout if told.returncode == 0 else None


@pytest.fixture(scope="module")
def verbs():
    """The help of each verb, `bpe train` and its like included."""
    def commands(*verb):
        return re.findall(r"^  ([a-z]+) ", help_of(*verb).split("Commands:")[1].split("Options:")[0], re.M)

    every = [(name,) for name in commands()] + [(outer, name) for outer in GROUPS for name in commands(outer)]
    return {verb: help_of(*verb) for verb in every if verb[-1] != "help"}


def code_of(document):
    """What stands in backticks and in blocks of code, as command lines."""
    text = document.read_text()
    blocks = re.findall(r"```[a-z]*\n(.*?)```", text, re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    return lines + re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_commands_and_options_of_a_document_exist(document, verbs):
    known = set(re.findall(OPTION, "\n".join(verbs.values())))
    for code in code_of(document):
        for call in re.findall(r"(?:^|[ ;|&(])nilo ((?:(?:bpe|snapshot) )?[a-z]+)([^|;&]*)", code.split("#")[0]):
            verb = tuple(call[0].split())
            # After `--` come the options of the command.
            options = set(re.findall(OPTION, re.split(r" -- ", call[1])[0]))
            if verb not in verbs:
                assert not options and verb[0] in {"itself", "is", *GROUPS}, f"{document.name}: no such command: {code}"
                continue
            assert options <= set(re.findall(OPTION, verbs[verb])) | {"--help"}, f"{document.name}: {code}"
        if re.fullmatch(OPTION + r"( [A-Z0-9a-z./=-]+)?", code):
            assert {code.split()[0]} <= known | ELSEWHERE | {"--help", "--version"}, f"{document.name}: {code}"
