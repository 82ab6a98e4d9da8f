"""Every example in a docstring is run, and every public class has one."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import nilometer

# Modules that need a framework are tested with the framework.
ELSEWHERE = ("nilometer.fit.", "nilometer.integrations", "nilometer.optimize.", "nilometer.torch")


def modules():
    for found in pkgutil.walk_packages(nilometer.__path__, "nilometer."):
        if not found.name.startswith(ELSEWHERE) and found.name != "nilometer._native":
            yield found.name


@pytest.mark.parametrize("name", sorted(modules()))
def test_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NILO_STRICT", "1")
    monkeypatch.delenv("NILO_RUN_DIR", raising=False)
    outcome = doctest.testmod(importlib.import_module(name), verbose=False)
    nilometer.finish(0)
    assert outcome.failed == 0


def test_every_public_class_and_function_has_a_runnable_example():
    # What is explained by the example of another: exceptions, and functions that Run's example stands for.
    exempt = {"NilometerError", "NilometerWarning", "active_run", "current_run", "finish", "init", "log", "mark", "peak_rss", "read_run", "__version__"}
    for name in set(nilometer.__all__) - exempt:
        thing = getattr(nilometer, name)
        assert ">>> " in (inspect.getdoc(thing) or ""), f"{name} has no example"


def test_every_public_thing_is_explained():
    for name in set(nilometer.__all__) - {"__version__"}:
        thing = getattr(nilometer, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for attribute, member in vars(thing).items():
                if not attribute.startswith("_") and callable(member):
                    assert inspect.getdoc(getattr(thing, attribute)), f"{name}.{attribute}"
