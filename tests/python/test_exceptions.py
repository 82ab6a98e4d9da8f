"""Exceptions that nobody caught are in the run: what, where, and whether they ended it."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import NILO, Nilo
from package import QUIET

# As PyTorch names it, with a message of its own.
CUDA_OOM = """
class OutOfMemoryError(RuntimeError):
    pass
OutOfMemoryError.__module__ = "torch"
def step():
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 1 has a total capacity of 79.10 GiB")
"""


def write(folder, code, name="train.py"):
    path = folder / name
    path.write_text(textwrap.dedent(code))
    return path


@pytest.fixture(params=["alone", "under nilo run"])
def record(request, nilo):
    """Runs a program that uses the package, by itself or recorded by the command, and shows its run."""

    def run(code, *arguments, expect=1, status="exited", **options):
        program = [sys.executable, *arguments, str(write(nilo.folder, code))]
        if request.param == "under nilo run":
            program = [NILO, "run", "-q", "--", *program]
        result = subprocess.run(program, cwd=nilo.folder, env=QUIET, capture_output=True, text=True, timeout=120, **options)
        assert result.returncode == expect, result.stderr
        shown = nilo.show()
        assert shown["status"] == status
        shown["stderr"] = result.stderr
        return shown

    return run


def test_the_exception_that_ended_a_training_is_shown(record, nilo):
    code = "import nilometer\nnilometer.log({'loss': 1})\n" + CUDA_OOM + "\ndef main():\n    step()\nmain()\n"
    shown = record(code, status="gpu-out-of-memory")
    found = shown["exception"]
    assert found["type_name"] == "torch.OutOfMemoryError"
    assert found["message"].startswith("CUDA out of memory. Tried to allocate 20.00 GiB")
    place = found["raised_at"]
    assert os.path.basename(place["file"]) == "train.py" and place["function"] == "step"
    assert "torch.OutOfMemoryError: CUDA out of memory" in shown["stderr"], "Python prints it as ever"
    text = nilo("show").stdout
    assert "torch.OutOfMemoryError: CUDA out of memory" in text and f"train.py:{place['line']}" in text
    assert "GPU out of memory after" in text and "tried to allocate 20.00 GiB on cuda:1, in train.py:" in text
    assert "gpu-out-of-memory" in nilo("runs").stdout
    assert nilo.runs()[-1]["exception"]["type_name"] == "torch.OutOfMemoryError"


def test_a_run_that_died_of_cuda_oom_ran_out(record, nilo):
    record("import nilometer\nnilometer.log({'loss': 1})\n" + CUDA_OOM + "step()\n", status="gpu-out-of-memory")
    result = nilo("oom")
    assert result.returncode == 1
    assert "[WARNING] OOM Warning: GPU 1\n   Risk Level: critical" in result.stdout
    assert "it ran out of memory" in result.stdout and "Predicted OOM Time: it has run out" in result.stdout
    answer = json.loads(nilo("oom", "--format", "json").stdout)
    (gpu,) = [resource for resource in answer["resources"] if resource["name"] == "GPU 1"]
    assert (answer["level"], gpu["warned"], gpu["ran_out"]["kind"]) == ("critical", True, "gpu-allocation")


def test_an_exception_has_the_time_at_which_it_ended_the_program_not_that_of_the_last_exit_handler(record):
    shown = record(
        """
        import atexit, nilometer, threading
        nilometer.init()
        atexit.register(nilometer.mark, "tidying up")
        threading.Thread(target=lambda: (threading.main_thread().join(), nilometer.mark("a thread goes on"))).start()
        raise MemoryError("boom")
        """
    )
    times = {mark["text"]: mark["secs"] for mark in shown["marks"]}
    assert times.keys() == {"tidying up", "a thread goes on"}
    assert shown["exception"]["secs"] < min(times.values())
    assert shown["oom"]["time_nanos"] / 1e9 == pytest.approx(shown["exception"]["secs"])


def test_the_users_own_line_is_named_beside_the_librarys(record):
    shown = record("import json, nilometer\nnilometer.log({'loss': 1})\n\ndef load():\n    json.loads('{')\nload()\n")
    found = shown["exception"]
    assert found["type_name"] == "json.decoder.JSONDecodeError"
    assert os.path.basename(found["raised_at"]["file"]) == "decoder.py"
    assert (os.path.basename(found["user_code"]["file"]), found["user_code"]["line"]) == ("train.py", 5)


def test_causes_are_kept(record):
    code = """
        import nilometer
        nilometer.log({"loss": 1})
        try:
            {}["batch"]
        except KeyError as error:
            raise ValueError("no such batch") from error
    """
    found = record(code)["exception"]
    assert (found["type_name"], found["causes"]) == ("ValueError", ["KeyError: 'batch'"])


@pytest.mark.parametrize("last", ["raise KeyboardInterrupt", "raise SystemExit(3)", "import sys; sys.exit('in words')", "pass"])
def test_ends_that_somebody_wanted_are_no_exceptions(record, last):
    expect = {"raise KeyboardInterrupt": -2, "raise SystemExit(3)": 3, "pass": 0}.get(last, 1)
    # Python dies of the signal, and so does `nilo run`.
    status = "killed" if expect == -2 else "exited"
    shown = record(f"import nilometer\nnilometer.log({{'loss': 1}})\n{last}\n", expect=expect, status=status)
    assert shown["exception"] is None and "exceptions" not in shown


def test_the_programs_own_hook_is_called_as_ever(record):
    code = """
        import sys, nilometer
        assert sys.excepthook is sys.__excepthook__
        nilometer.init(memory=False)
        assert sys.excepthook is sys.__excepthook__
        def hook(kind, error, trace):
            print("HOOKED", kind.__name__, file=sys.stderr)
        sys.excepthook = hook
        1 / 0
    """
    shown = record(code)
    assert shown["stderr"].count("HOOKED ZeroDivisionError") == 1 and "Traceback" not in shown["stderr"]
    assert shown["exception"]["type_name"] == "ZeroDivisionError"


def test_an_exception_of_a_thread_does_not_end_the_run(record):
    code = """
        import threading, nilometer
        nilometer.log({"loss": 1})
        def work():
            raise ValueError("in a thread")
        thread = threading.Thread(target=work, name="loader")
        thread.start(); thread.join()
    """
    shown = record(code, expect=0)
    assert shown["exception"] is None
    (found,) = shown["exceptions"]
    assert (found["type_name"], found["thread"], found["message"]) == ("ValueError", "loader", "in a thread")
    assert shown["stderr"].count("ValueError: in a thread") == 1, "the thread's own hook prints it as ever"


def test_asyncio_programs_are_programs(record):
    code = """
        import asyncio, nilometer
        async def main():
            nilometer.log({"loss": 1})
            await asyncio.sleep(0)
            raise LookupError("in a task")
        asyncio.run(main())
    """
    found = record(code)["exception"]
    assert (found["type_name"], found["message"]) == ("LookupError", "in a task")
    assert os.path.basename(found["raised_at"]["file"]) == "train.py"


def test_a_forked_worker_that_fails_is_told_apart_from_the_program(record):
    code = """
        import os, nilometer
        nilometer.log({"loss": 1})
        if os.fork() == 0:
            raise ValueError("in the worker")
        os.wait()
    """
    shown = record(code, expect=0)
    assert shown["exception"] is None
    (found,) = shown["exceptions"]
    assert found["message"] == "in the worker" and "thread" not in found


def test_the_exception_of_a_program_below_the_command_is_the_end_of_it(nilo):
    write(nilo.folder, "import nilometer\nraise RuntimeError('rank 1 failed')\n")
    result = nilo("run", "-q", "--", "sh", "-c", f"{sys.executable} train.py; exit $?")
    assert result.returncode == 1
    assert nilo.show()["exception"]["message"] == "rank 1 failed"


def test_messages_that_are_huge_or_cannot_be_made_do_no_harm(record):
    code = """
        import nilometer
        nilometer.log({"loss": 1})
        class Broken(Exception):
            def __str__(self):
                raise RuntimeError("no message")
        try:
            raise Broken
        except Broken:
            raise ValueError("x" * 50_000_000 + "\\udc80 the end")
    """
    found = record(code, stdin=subprocess.DEVNULL)["exception"]
    assert found["type_name"] == "ValueError" and len(found["message"]) <= 4000
    assert found["causes"] == ["Broken: <its message raised an exception>"]


def test_a_run_that_is_left_by_an_exception_knows_it(record):
    code = """
        import nilometer
        with nilometer.init() as run:
            run.log({"loss": 1})
            raise ValueError("inside")
    """
    shown = record(code)
    assert [found["message"] for found in shown["exceptions"]] == ["inside"]
    assert shown["exception"]["message"] == "inside"


def test_a_run_that_is_told_of_an_exception_later_knows_it(record):
    code = """
        import nilometer
        run = nilometer.init()
        run.log({"loss": 1})
        try:
            raise ValueError("inside")
        except ValueError as error:
            kept = error
        run.__exit__(type(kept), kept, kept.__traceback__)
    """
    shown = record(code, expect=0)
    assert [found["message"] for found in shown["exceptions"]] == ["inside"]


def test_a_run_that_is_finished_on_the_way_out_knows_why(record):
    code = """
        import nilometer
        run = nilometer.init()
        try:
            run.log({"loss": 1})
            raise ValueError("training failed")
        finally:
            run.finish()
    """
    shown = record(code)
    assert [found["message"] for found in shown["exceptions"]] == ["training failed"]


def test_a_run_that_begins_after_an_exception_does_not_have_it(tmp_path):
    code = """
        import nilometer
        try:
            raise ValueError("the batch was too large")
        except ValueError:
            run = nilometer.init()
            run.log({"loss": 1})
            run.finish()
    """
    result = subprocess.run([sys.executable, str(write(tmp_path, code))], cwd=tmp_path, env=QUIET, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    shown = Nilo(tmp_path).show()
    assert shown["exception"] is None and "exceptions" not in shown


def test_the_error_of_a_spawned_worker_is_the_programs_when_it_raises_it(record):
    code = """
        import concurrent.futures, multiprocessing, nilometer
        def work():
            raise ValueError("in the worker")
        if __name__ == "__main__":
            nilometer.log({"loss": 1})
            context = multiprocessing.get_context("spawn")
            with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
                pool.submit(work).result()
    """
    found = record(code)["exception"]
    assert (found["type_name"], found["message"]) == ("ValueError", "in the worker")
    assert found["causes"] and "in work" in found["causes"][0]


def test_an_interactive_session_is_not_ended_by_an_exception(nilo):
    program = write(nilo.folder, "import nilometer\nnilometer.log({'loss': 1})\n1 / 0\n")
    result = subprocess.run(
        [sys.executable, "-i", str(program)], cwd=nilo.folder, env=QUIET, input="nilometer.log({'loss': 2})\nexit(0)\n",
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    shown = nilo.show()
    assert (shown["exception"], shown["exit_code"]) == (None, 0)


def test_nothing_is_recorded_where_recording_is_off(tmp_path):
    program = write(tmp_path, "import nilometer\nnilometer.log({'loss': 1})\n1 / 0\n")
    result = subprocess.run(
        [sys.executable, str(program)], cwd=tmp_path, env=QUIET | {"NILO_MODE": "disabled"}, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 1 and result.stderr.count("ZeroDivisionError") == 1
    assert Nilo(tmp_path).runs() == []


def test_further_exceptions_are_counted(nilo):
    code = """
        import threading
        def fail():
            raise ValueError("worker")
        for _ in range(%d):
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()
    """
    for count, said in [(5, "Other Exceptions:     4 more, see `nilo show --format json`"), (1, None)]:
        (nilo.folder / "train.py").write_text(textwrap.dedent(code % count))
        told = nilo("run", "--", sys.executable, "train.py").stderr
        shown = nilo.show()["exceptions"]
        assert len(shown) == count
        assert (said in told) if said else ("Other Exceptions" not in told), told
