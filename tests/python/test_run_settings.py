"""What a run says of itself: settings as they were given, and where it came from."""

import argparse
import collections
import dataclasses
import json
import math
import pathlib
import subprocess
import sys
import types

import numpy
import pytest
from package import run_program

import nilometer
from nilometer import NilometerWarning


def test_settings_keep_their_types_and_their_length(folder):
    @dataclasses.dataclass
    class Settings:
        layers: int = 3
        path: object = pathlib.Path("/data")
        text: str = "x" * 50_000

    @dataclasses.dataclass
    class Outer:
        inner: Settings = dataclasses.field(default_factory=Settings)
        space: object = dataclasses.field(default_factory=lambda: argparse.Namespace(x=types.SimpleNamespace(y=2)))

    values = {"lr": 1e-4, "on": True, "none": None, "list": [1, "a", 2.5], "scalar": numpy.float32(0.5), "half": "a\udc80b"}
    with nilometer.init(memory=False, config=values) as run:
        run.config(Settings(), nested={"a": {"b": 2**40}}, bad=float("nan"), big=10**30)
        run.config(outer=Outer(), spaces=[argparse.Namespace(x=1)], simple=types.SimpleNamespace(y=Settings()), kind=Settings, device=numpy.dtype("f4"))
    config = nilometer.read_run(run.path).config
    assert config["outer/inner/layers"] == 3 and config["outer/space/x/y"] == 2 and config["simple/y/layers"] == 3
    assert config["spaces"] == [{"x": 1}] and "Settings" in config["kind"] and config["device"] == "float32"
    assert config["lr"] == 1e-4 and config["on"] is True and config["none"] is None
    assert config["list"] == [1, "a", 2.5] and config["scalar"] == 0.5 and config["nested/a/b"] == 2**40
    assert config["layers"] == 3 and config["path"] == "/data" and len(config["text"]) == 50_000
    assert math.isnan(config["bad"]) and config["big"] == 10**30 and config["half"] == r"a\udc80b"



def test_two_settings_with_one_name_are_both_kept(folder):
    values = {"d": {"a": 1}, "d/a": 2, "list": [{1: "x", "1": "y"}], "lr": 1}
    with pytest.warns(NilometerWarning, match=r"two settings are called 'd/a'; the second is stored as 'd/a \(2\)'"):
        with nilometer.init(memory=False, config=values) as run:
            # The usual way to say otherwise: a setting that is given again is the new one.
            run.config({"lr": 2}, lr=3)
    config = nilometer.read_run(run.path).config
    assert config == {"d/a": 1, "d/a (2)": 2, "list": [{"1": "x", "1 (2)": "y"}], "lr": 3}


def test_what_json_has_no_type_for_comes_back_as_the_documents_say(folder):
    values = {"tuple": (1, 2), "set": {3}, "bytes": b"x", "complex": 1j, "path": pathlib.Path("/data"), "inner": [{"a": (1,)}]}
    with nilometer.init(memory=False, config=values) as run:
        pass
    config = nilometer.read_run(run.path).config
    assert config == {"tuple": [1, 2], "set": [3], "bytes": "b'x'", "complex": "1j", "path": "/data", "inner": [{"a": [1]}]}


def test_settings_that_json_has_no_number_for_come_back_as_they_were(nilo, folder):
    values = {
        "nan": float("nan"), "up": math.inf, "down": numpy.float32("-inf"), "big": 2**64, "negative": -(2**63) - 1, "huge": 7**9000,
        "list": [math.inf, 2**70, {"x": -math.inf}], "text": "NaN", "unlike": {"$number": 3}, "word": [{"$number": "many"}],
    }  # fmt: skip
    with nilometer.init(name="numbers", memory=False, config=values):
        pass
    config = nilometer.read_run("numbers", dir=".nilo").config
    assert math.isnan(config["nan"]) and config["up"] == math.inf and config["down"] == -math.inf
    assert config["big"] == 2**64 and config["negative"] == -(2**63) - 1 and config["huge"] == 7**9000
    assert config["list"] == [math.inf, 2**70, {"x": -math.inf}]
    assert config["text"] == "NaN" and config["unlike/$number"] == 3 and config["word"] == [{"$number": "many"}]
    shown = nilo("show", "--all").stdout
    assert "  nan = NaN\n" in shown and "  big = 18446744073709551616\n" in shown, shown
    assert '  text = "NaN"\n' in shown


class Picky(collections.abc.Mapping):
    """As OmegaConf's: a value that is missing raises where it is asked for."""

    def __iter__(self):
        return iter(["lr", "data", "sizes"])

    def __len__(self):
        return 3

    def __getitem__(self, key):
        if key == "data":
            raise LookupError("data is missing")
        return 0.5 if key == "lr" else collections.UserList([1, 2])


class Closed:
    __slots__ = ()


def test_settings_that_raise_when_they_are_asked_for_cost_only_themselves(folder, monkeypatch):
    monkeypatch.setenv("NILO_STRICT", "0")
    with nilometer.init(memory=False, config=Picky()) as run:
        run.config(inner=Picky(), items=[Picky()], text="x")
        with pytest.warns(NilometerWarning, match="config must be a dictionary"):
            run.config(Closed())
    config = nilometer.read_run(run.path).config
    assert (config["lr"], config["data"], config["sizes"]) == (0.5, "<without a value: LookupError>", [1, 2])
    assert config["inner/lr"] == 0.5 and config["items"][0]["sizes"] == [1, 2] and config["text"] == "x"


def test_a_run_says_what_it_is_made_of(folder):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@y", *words], cwd=folder, check=True, capture_output=True)

    def told():
        run_program("import numpy, nilometer; nilometer.init(memory=False)", folder)
        newest = sorted((folder / ".nilo").glob("2*"))[-1]
        return json.loads((newest / "run.json").read_text())["provenance"]

    assert "git" not in told()
    git("init", "-q", "-b", "trunk")
    (folder / "file").write_text("one")
    git("add", "file")
    git("commit", "-qm", "one")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True).stdout.strip()
    clean = told()
    assert clean["git"] == {"commit": head, "branch": "trunk", "dirty": False}
    (folder / "file").write_text("two")
    assert told()["git"]["dirty"] is True
    assert clean["python"] == sys.version.split()[0] and clean["user"]
    assert {"nilometer", "numpy"} <= set(clean["packages"])
