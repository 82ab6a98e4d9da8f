"""The hooks of `nilo run` change nothing that a program can see: the same program prints the same with and without them."""

import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from conftest import NILO

PROBE = pathlib.Path(__file__).with_name("hook_probe.py")
# Whatever Pythons there are; those before 3.10 and others than CPython are left alone.
OTHERS = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python")))
PYTHONS = [sys.executable, *OTHERS, *filter(None, [shutil.which("pypy3")])]


# They differ from run to run.
PLACES = re.compile(r"0x[0-9a-fA-F]+|(?:pid|parent)=\d+")


def both(nilo, *program, env=None, cwd=None):
    """What a program prints and how it ends, without and with the hooks."""
    found = []
    for options in (["--no-hooks"], []):
        environment = nilo.environment | {"PYTHONDONTWRITEBYTECODE": "1"} | (env or {})
        command = [NILO, "run", "-q", "--dir", str(nilo.folder / "runs"), *options, "--", *map(str, program)]
        ended = subprocess.run(command, env=environment, cwd=cwd or nilo.folder, capture_output=True, text=True, timeout=120)
        texts = (PLACES.sub("", text) for text in (ended.stdout, ended.stderr))
        found.append((*texts, ended.returncode))
    return found


def assert_same(found):
    without, with_hooks = found
    assert without[0].splitlines() == with_hooks[0].splitlines()
    assert without[1:] == with_hooks[1:]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("flag", ["", "-I", "-E", "-s", "-B", "-Werror", "-O", "-u"])
def test_a_program_sees_the_same(nilo, python, flag):
    found = both(nilo, python, *filter(None, [flag]), PROBE)
    assert_same(found)
    assert "{" in found[0][0] or flag == "-I", found[0][1]


WATCHES_IMPORTS = """
import builtins
original = builtins.__import__
def watched(name, *arguments, **named):
    print(name)
    return original(name, *arguments, **named)
builtins.__import__ = watched
import threading, multiprocessing.process
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
raise ValueError
"""


@pytest.mark.parametrize("python", [sys.executable, *OTHERS])
def test_a_program_that_watches_its_imports_sees_its_own(nilo, python):
    assert_same(both(nilo, python, "-c", WATCHES_IMPORTS))


@pytest.mark.parametrize("python", PYTHONS)
def test_without_site_only_the_folder_is_in_the_path(nilo, python):
    without, with_hooks = both(nilo, python, "-S", "-c", "import sys\nfor each in sys.path: print(each)\nprint('sitecustomize' in sys.modules)")
    more = [line for line in with_hooks[0].splitlines() if not line.endswith("/hooks")]
    assert more == without[0].splitlines() and len(with_hooks[0].splitlines()) == len(more) + 1


SCRIPTS = ['"$PYTHONPATH:$PWD/src"', '"$PWD/src:$PYTHONPATH"', '"$PWD/src:$PYTHONPATH:/nowhere"', '"$PYTHONPATH:$PWD"', '"$PWD:$PYTHONPATH"']


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("before", [None, "", "/elsewhere"])
@pytest.mark.parametrize("added", SCRIPTS)
def test_a_script_may_add_to_an_empty_path(nilo, python, added, before):
    """`$PYTHONPATH:src` is `:src` where it was not set, and an empty place is the current folder: programs rely on it."""
    (nilo.folder / "src").mkdir()
    (nilo.folder / "scripts").mkdir()
    (nilo.folder / "mine.py").write_text("print('found')\n")
    program = nilo.folder / "scripts/train.py"
    program.write_text("import sys\nfor each in sys.path: print(each)\ntry:\n    import mine\nexcept ImportError:\n    print('not found')\n")
    script = f'export PYTHONPATH={added}; exec "$0" "$1"'
    env = {} if before is None else {"PYTHONPATH": before}
    found = both(nilo, "bash", "-c", script, python, program, env=env)
    assert_same(found)
    if not before:
        assert found[1][0].endswith("\nfound\n")


# How programs begin others with a folder of their own in the path: a run inside the run, and one that asks first whether there is a path.
INSIDE = {
    "a run": [NILO, "run", "-q", "--"],
    "an optimization": [NILO, "optimize", "--"],
    "a script of a run": ["bash", "-c", f'"{NILO}" run -q -- "$@"', "bash"],
    "a tracer": ["bash", "-c", 'export PYTHONPATH=$PWD/tracer${PYTHONPATH:+:$PYTHONPATH}; exec "$@"', "bash"],
}


# As tracers do: it hands over to the one that it hides.
TRACER = """
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path.remove(here)
mine = sys.modules.pop("sitecustomize")
try:
    import sitecustomize
except ImportError:
    sys.modules["sitecustomize"] = mine
sys.path.insert(0, here)
"""


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("inside", INSIDE)
def test_programs_that_begin_others_bring_no_current_folder(nilo, python, inside):
    """A file of the project would be imported instead of Python's own."""
    for folder in ("scripts", "tracer"):
        (nilo.folder / folder).mkdir()
    (nilo.folder / "tracer/sitecustomize.py").write_text(TRACER)
    (nilo.folder / "random.py").write_text("raise ImportError('shadowed')\n")
    program = nilo.folder / "scripts/train.py"
    program.write_text("import sys\nfor each in sys.path: sys.stderr.write(each + '\\n')\nimport random\nsys.stderr.write('/imported\\n')\n")
    environment = {name: value for name, value in nilo.environment.items() if name != "PYTHONPATH"}
    found = []
    for hooks in ("0", "1"):
        command = [NILO, "run", "-q", "--", *INSIDE[inside], python, str(program)]
        ended = subprocess.run(command, env=environment | {"NILO_HOOKS": hooks}, cwd=nilo.folder, capture_output=True, text=True, timeout=120)
        found.append([line for line in ended.stderr.splitlines() if line.startswith("/")])
    assert found[0] == found[1] and found[1][-1] == "/imported"


@pytest.mark.parametrize("python", PYTHONS)
def test_the_environments_own_customization_runs_as_ever(nilo, python):
    own = nilo.folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import sys\nMINE = 'site'\nsys.stderr.write('site %s\\n' % __file__)\n")
    (own / "usercustomize.py").write_text("MINE = 'user'\n")
    (own / "helper.py").write_text("")
    found = both(nilo, python, PROBE, env={"PYTHONPATH": f"{own}:/nowhere:"})
    assert_same(found)
    assert '"site"' in found[1][0] and "sitecustomize.py" in found[1][1]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("code", ["raise ValueError('mine')", "import nothing_of_that_name", "import sys; sys.exit(3)"])
def test_a_customization_that_fails_fails_as_ever(nilo, python, code):
    own = nilo.folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(code + "\n")
    without, with_hooks = both(nilo, python, PROBE, env={"PYTHONPATH": str(own)})
    # Where Python gives up, it prints how it came there, and we are on the way.
    there = re.sub(r'  File "[^"]*/hooks/sitecustomize.py".*\n    import sitecustomize\n', "", with_hooks[1])
    assert (without[0], without[1], without[2]) == (with_hooks[0], there, with_hooks[2])


def test_a_virtual_environment_stays_one(nilo):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", nilo.folder / "venv"], check=True)
    python = nilo.folder / "venv/bin/python"
    (packages,) = (nilo.folder / "venv").glob("lib/python3*/site-packages")
    # A file of an installed package that is executed before us and imports what the hooks wait for.
    (packages / "early.pth").write_text("import threading, sys; sys.stderr.write('early\\n')\n")
    found = both(nilo, python, PROBE)
    assert_same(found)
    assert "early" in found[1][1]


def test_no_bytecode_of_the_hooks_is_left_where_it_lies_apart(nilo):
    prefix = nilo.folder / "bytecode"
    (nilo.folder / "module.py").write_text("")
    code = "import sys, module; print(sys.dont_write_bytecode)"
    environment = {name: value for name, value in nilo.environment.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"PYTHONPYCACHEPREFIX": str(prefix)}
    ended = subprocess.run([NILO, "run", "-q", "--", sys.executable, "-c", code], env=environment, cwd=nilo.folder, capture_output=True, text=True, timeout=120)
    assert ended.stdout == "False\n", ended.stderr
    left = {path.name.split(".")[0] for path in prefix.rglob("*")}
    assert "module" in left and not left & {"hooks", "sitecustomize", "nilo_hooks"}


ENDS = {
    "an exception": "raise ValueError('no')",
    "an exception in a module": "import broken",
    "a module that is missing": "import nothing_of_that_name",
    "a module that is not Python": "import unreadable",
    "a chain": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise KeyError('x') from error",
    "deep": "def f(): f()\nf()",
    "exit": "import sys; sys.exit(7)",
    "exit with text": "import sys; sys.exit('no more')",
    "exit at once": "import os; os._exit(9)",
    "its own hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0])\n1 / 0",
    "a hook for threads": "import threading\nthreading.excepthook = lambda a: print('mine', a.exc_type)\nt = threading.Thread(target=lambda: 1 / 0)\nt.start()\nt.join()",
    "a thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='loader')\nt.start()\nt.join()",
    "Ctrl-C": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time\ntime.sleep(30)",
    "killed": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nimport time\ntime.sleep(30)",
    "exit handlers": "import atexit\natexit.register(print, 'first')\natexit.register(print, 'second')\n1 / 0",
    "cleared exit handlers": "import atexit\natexit.register(print, 'first')\natexit._clear()\n1 / 0",
    "an exception that cannot be printed": "class E(Exception):\n    def __str__(self): raise RuntimeError('no text')\nraise E",
    "a message that exits": "class E(Exception):\n    def __str__(self): raise SystemExit(5)\nraise E",
    "a cause that exits": "class E(Exception):\n    @property\n    def __cause__(self): raise SystemExit(5)\nraise E",
    "a message that is no plain text": "import os\nclass Text(str):\n    def __len__(self): os._exit(99)\nclass E(Exception):\n    def __str__(self): return Text('no')\nraise E",
    "a thread whose message exits": "import threading\nclass E(Exception):\n    def __str__(self): raise SystemExit(5)\ndef work(): raise E\nt = threading.Thread(target=work, name='loader')\nt.start()\nt.join()",
    "warnings": "import warnings\nwarnings.warn('mind', stacklevel=2)\nimport warns",
    "output that is closed": "import sys\nsys.stdout.close()\nsys.stderr.close()\n1 / 0",
    "a fork": "import os\nif os.fork() == 0:\n    raise ValueError('child')\nprint(os.wait()[1])",
}


@pytest.mark.parametrize("name", ENDS)
def test_every_end_is_the_same(nilo, name):
    (nilo.folder / "broken.py").write_text("def f():\n    raise ValueError('in a module')\nf()\n")
    (nilo.folder / "unreadable.py").write_text("def (:\n")
    (nilo.folder / "warns.py").write_text("import warnings\nwarnings.warn('from a module', DeprecationWarning, stacklevel=2)\n")
    (nilo.folder / "train.py").write_text(ENDS[name] + "\n")
    assert_same(both(nilo, sys.executable, "-Wdefault", "train.py"))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_print_the_same(nilo, method):
    (nilo.folder / "train.py").write_text(
        textwrap.dedent(f"""
            import multiprocessing, sys
            def work():
                print(sorted(sys.modules), sys.path, multiprocessing.current_process().name, flush=True)
                raise KeyError("in a child")
            if __name__ == "__main__":
                child = multiprocessing.get_context({method!r}).Process(target=work, name="worker-1")
                child.start()
                child.join()
                print(child.exitcode, child)
        """)
    )
    assert_same(both(nilo, sys.executable, "train.py"))
