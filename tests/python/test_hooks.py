"""What the hooks of `nilo run` tell of Python programs that know nothing of Nilometer."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import pytest
from conftest import NILO, unavailable, wait_until
from package import QUIET

CRASH = """
    import json
    def load(text):
        return json.loads(text)
    def main():
        load("{")
    main()
"""


@pytest.fixture
def record(nilo):
    """Runs a program below `nilo run` and shows the run."""

    def run(code, *, expect=1, options=(), command=None, env=None):
        (nilo.folder / "train.py").write_text(textwrap.dedent(code))
        command = command or [sys.executable, "train.py"]
        environment = nilo.environment | (env or {})
        ended = subprocess.run([NILO, "run", "-q", *options, "--", *command], cwd=nilo.folder, env=environment, capture_output=True, text=True, timeout=120)
        assert ended.returncode == expect, ended.stderr
        return nilo.show()

    return run


def exceptions(nilo):
    """Every exception of a run, as it is stored."""
    return [event for event in events(nilo) if event["event"] == "exception"]


def events(nilo):
    lines = nilo("export", "--format", "json", "last", "-o", "-").stdout
    return json.loads(lines)["events"]


def test_an_exception_is_told_with_its_last_frames(record, nilo):
    shown = record(CRASH)
    found = shown["exception"]
    assert found["type_name"] == "json.decoder.JSONDecodeError"
    assert found["message"].startswith("Expecting property name")
    assert [frame["function"] for frame in found["frames"][:3]] == ["<module>", "main", "load"]
    assert found["user_code"]["function"] == "load" and found["user_code"]["line"] == 4
    assert found["raised_at"] == found["frames"][-1]
    assert "JSONDecodeError" in nilo("show").stdout
    assert not (nilo.run_folder() / "hooks").exists(), "it was needed while the job ran"


@pytest.mark.parametrize(
    "command",
    [
        ["bash", "-c", "true; {python} train.py"],
        ["bash", "-c", "cd /; exec {python} $OLDPWD/train.py"],
        ["{python}", "-c", "import os, subprocess, sys; sys.exit(subprocess.call([sys.executable, 'train.py'], env=os.environ.copy()))"],
        ["{python}", "-c", "import subprocess, sys; subprocess.run([sys.executable, 'train.py'], check=True)"],
        ["{python}", "-m", "train"],
        ["{python}", "-c", "import runpy; runpy.run_path('train.py')"],
    ],
)
def test_programs_below_other_programs_tell_too(record, command):
    shown = record(CRASH, command=[word.format(python=sys.executable) for word in command])
    assert shown["exception"]["type_name"] == "json.decoder.JSONDecodeError"


LITTLE_LEFT = """
    import mmap, resource
    room = 200 << 20
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + room,) * 2)
    kept = mmap.mmap(-1, room - (128 << 10))
    bytearray(room)
"""


@pytest.mark.parametrize("imported", ["", "import nilometer"], ids=["hooks", "package"])
def test_an_exception_is_told_where_hardly_any_address_space_is_left(record, imported):
    shown = record(f"    {imported}{LITTLE_LEFT}")
    assert shown["exception"]["type_name"] == "MemoryError", shown["exception"]
    assert shown["oom"]["certainty"] == "certain"


def test_a_thread_is_named(record, nilo):
    shown = record("import threading\nt = threading.Thread(target=lambda: 1 / 0, name='loader')\nt.start()\nt.join()\n", expect=0)
    assert shown["exception"] is None
    (found,) = exceptions(nilo)
    assert (found["type_name"], found["thread"]) == ("ZeroDivisionError", "loader")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_tell(record, method):
    code = f"""
        import multiprocessing, sys
        def work():
            raise KeyError("in a child")
        if __name__ == "__main__":
            child = multiprocessing.get_context({method!r}).Process(target=work)
            child.start()
            child.join()
            sys.exit(child.exitcode)
    """
    assert record(code)["exception"]["type_name"] == "KeyError"


def test_of_a_forked_child_that_fails_the_child_is_told(record, nilo):
    shown = record("import os\nif os.fork() == 0:\n    raise ValueError('child')\nos.wait()\nraise SystemExit(4)\n", expect=4)
    assert shown["exception"]["message"] == "child"


# It catches the exception, keeps it where Python keeps the one that ended a program, and goes on.
CONSOLE = """
    import code, os, sys
    def look():
        code.InteractiveConsole().push("1 / 0")
    look()
    {more}
    sys.exit("nothing to do")
"""


@pytest.mark.parametrize("imported", ["", "import nilometer"])
def test_an_exception_that_a_console_has_handled_is_not_why_the_program_ended(record, nilo, imported):
    shown = record(CONSOLE.format(more=imported), env=QUIET)
    assert shown["exit_code"] == 1 and shown["exception"] is None and exceptions(nilo) == []


@pytest.mark.parametrize("code", ["def (:", "raise ValueError('x')", "import wrong"])
@pytest.mark.parametrize("command", [["train.py"], ["-m", "train"], ["-c", "{code}"]])
def test_an_exception_of_the_program_itself_is_told_however_it_was_started(record, nilo, code, command):
    (nilo.folder / "wrong.py").write_text("def (:\n")
    shown = record(code, command=[sys.executable, *(word.format(code=code) for word in command)])
    assert shown["exception"]["type_name"] == ("ValueError" if "raise" in code else "SyntaxError")


def test_a_child_that_is_forked_when_the_program_ends_does_not_tell_the_same_again(record, nilo):
    record("import atexit, os\ndef end():\n    if os.fork():\n        os.wait()\natexit.register(end)\nraise ValueError('no')\n")
    (found,) = exceptions(nilo)
    assert found["message"] == "no"


NOTEBOOK = """
    class CellExecutionError(Exception):
        pass
    CellExecutionError.__module__ = "nbclient.exceptions"
    raise CellExecutionError("An error occurred while executing the following cell:\\n[][0]\\nIndexError: list index out of range")
"""


def test_a_notebook_that_fails_without_telling_why_is_told_by_what_executes_it(record):
    shown = record(NOTEBOOK)
    assert shown["exception"]["type_name"] == "nbclient.exceptions.CellExecutionError"
    assert shown["exception"]["message"].endswith("IndexError: list index out of range")


def test_that_programs_of_other_users_tell_nothing_is_said(record, nilo):
    if os.geteuid() != 0:
        unavailable("only root can become another user")
    code = """
        import os, time
        open("began", "w").close()
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            os.execv("/bin/sleep", ["python3", "60"])
        while not os.path.exists("seen"):
            time.sleep(0.02)
        os.kill(child, 9)
        os.wait()
    """
    (nilo.folder / "train.py").write_text(textwrap.dedent(code))
    recorder = nilo.start("run", "-q", "--", sys.executable, "train.py")
    try:
        wait_until((nilo.folder / "began").exists, "the program to begin")
        wait_until(lambda: any("of other users" in text for text in nilo.show()["blind_spots"]), "the recorder to see it")
    finally:
        (nilo.folder / "seen").write_text("")
        recorder.wait()


@pytest.mark.parametrize("how", ["flag", "variable", "settings", "variable inside"])
def test_hooks_can_be_turned_off(record, nilo, how):
    options, env, command = [], {}, None
    if how == "flag":
        options = ["--no-hooks"]
    elif how == "variable":
        env = {"NILO_HOOKS": "0"}
    elif how == "settings":
        (nilo.folder / "nilo.toml").write_text("hooks = false\n")
    else:
        command = ["env", "NILO_HOOKS=0", sys.executable, "train.py"]
    assert record(CRASH, options=options, env=env, command=command)["exception"] is None


def test_where_the_program_imports_nilometer_it_is_told_once(nilo):
    code = """
        import threading
        import nilometer
        nilometer.log({"loss": 1})
        t = threading.Thread(target=lambda: 1 / 0)
        t.start()
        t.join()
        raise ValueError("no")
    """
    (nilo.folder / "train.py").write_text(textwrap.dedent(code))
    subprocess.run([NILO, "run", "-q", "--", sys.executable, "train.py"], cwd=nilo.folder, env=QUIET, capture_output=True, timeout=120)
    shown = nilo.show()
    assert shown["exception"]["message"] == "no" and shown["exception"]["frames"][-1]["function"] == "<module>"
    told = [event["type_name"] for event in exceptions(nilo)]
    assert sorted(told) == ["ValueError", "ZeroDivisionError"]


def test_what_was_told_is_not_lost_with_the_recorder(nilo):
    code = """
        import sys, threading, time
        def fail():
            raise ValueError("password=hunter2secret of a thread")
        t = threading.Thread(target=fail, name="loader")
        t.start()
        t.join()
        open("failed", "w").close()
        time.sleep(60)
    """
    (nilo.folder / "train.py").write_text(textwrap.dedent(code))
    recorder = nilo.start("run", "-q", "-i", "3600", "--", sys.executable, "train.py")
    wait_until((nilo.folder / "failed").exists, "the thread to fail")
    (child,) = subprocess.run(["pgrep", "-P", str(recorder.pid), "-f", "train.py"], capture_output=True, text=True).stdout.split()
    recorder.kill()
    recorder.wait()
    os.kill(int(child), signal.SIGKILL)
    text = nilo("show").stdout
    assert "ValueError" in text and "loader" in text
    assert "hunter2secret" not in text


# As PyTorch says it.
OUT_OF_MEMORY = """
    class OutOfMemoryError(RuntimeError):
        pass
    OutOfMemoryError.__module__ = "torch"
    def step():
        raise OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which 122.97 GiB is free. "
            "16.78 GiB allowed; Process 4711 has 17.28 GiB memory in use. Of the allocated memory 16.76 GiB is allocated by PyTorch."
        )
    step()
"""
SENTENCE = "tried to allocate 16.00 MiB on cuda:0 with 16.76 of 16.78 GiB allowed allocated, in train.py:6 (step)"


def test_gpu_out_of_memory_is_an_ending_of_its_own(record, nilo):
    shown = record(OUT_OF_MEMORY)
    assert (shown["status"], shown["exit_code"]) == ("gpu-out-of-memory", 1)
    assert shown["oom"]["gpu"]["requested_bytes"] == 16 << 20
    text = nilo("show").stdout
    assert "GPU out of memory after" in text and SENTENCE in text
    # The device had room: it was the program's own limit.
    assert shown["oom"]["gpu_cause"]["kind"] == "allowed-fraction"
    assert "the program limits itself to 16.78 GiB; the GPU has 122.97 GiB free" in text
    assert "hint: raise the fraction of torch.cuda.set_per_process_memory_fraction" in text
    assert "gpu-out-of-memory" in nilo("runs").stdout
    assert nilo.runs()[-1]["status"] == "gpu-out-of-memory"
    judged = json.loads(nilo("oom", "--format", "json").stdout)
    (gpu,) = [resource for resource in judged["resources"] if resource["name"] == "GPU 0"]
    assert gpu["ran_out"]["kind"] == "gpu-allocation"
    written = json.loads((nilo.run_folder() / "run.json").read_text())
    assert written["ending"]["status"] == "exited", "earlier versions read it"


def test_gpu_out_of_memory_is_an_alert(record, nilo):
    shown = record(OUT_OF_MEMORY, options=["--on-alert", "cat >> alerts.json"])
    (alert,) = shown["alerts"]
    assert (alert["kind"], alert["severity"], alert["resource"]) == ("gpu-out-of-memory", "critical", "GPU 0")
    assert SENTENCE in alert["text"]
    delivered = json.loads((nilo.folder / "alerts.json").read_text())
    assert delivered["kind"] == "gpu-out-of-memory" and SENTENCE in delivered["text"]


def test_of_a_launcher_the_worker_that_ran_out_is_told(record, nilo):
    (nilo.folder / "launch.py").write_text("import subprocess, sys\nsubprocess.run([sys.executable, 'train.py'], check=True)\n")
    shown = record(OUT_OF_MEMORY, command=[sys.executable, "launch.py"])
    assert shown["status"] == "gpu-out-of-memory" and shown["exception"]["type_name"] == "torch.OutOfMemoryError"


def test_a_program_that_catches_it_and_ends_well_did_not_run_out(record):
    code = OUT_OF_MEMORY.rstrip()[: -len("step()")] + "try:\n        step()\n    except OutOfMemoryError:\n        pass\n"
    assert record(code, expect=0)["status"] == "exited"


WRAPPED = OUT_OF_MEMORY.rstrip()[: -len("step()")] + "try:\n        step()\n    except OutOfMemoryError as error:\n        raise RuntimeError('training failed') from error\n"


def test_an_exception_raised_because_the_gpu_ran_out_tells_of_that(record, nilo):
    shown = record(WRAPPED)
    assert shown["status"] == "gpu-out-of-memory" and shown["exception"]["message"] == "training failed"
    assert shown["oom"]["gpu"]["requested_bytes"] == 16 << 20 and shown["oom"]["gpu_cause"]["kind"] == "allowed-fraction"
    judged = nilo("oom")
    assert judged.returncode == 1 and "Risk Level: critical" in judged.stdout


# What other processes hold is not in it, so there is no cause that is known.
HAND_RAISED = """
    class OutOfMemoryError(RuntimeError): pass
    OutOfMemoryError.__module__ = "torch"
    def step():
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 16.00 MiB. GPU 0 has a total capacity of 139.80 GiB of which 5.00 MiB is free. "
            "Of the allocated memory 9.00 GiB is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated.")
    step()
"""


def test_without_a_known_cause_show_and_oom_give_the_same_advice_and_figures(record, nilo):
    shown = record(HAND_RAISED)
    assert shown["status"] == "gpu-out-of-memory" and shown["oom"].get("gpu_cause") is None
    advice = "ake the step fit on the GPU: a smaller micro-batch (nilometer.optimize.find_batch_size"
    assert advice in " ".join(nilo("show").stdout.split()) and advice in " ".join(nilo("oom").stdout.split())
    (gpu,) = [resource for resource in json.loads(nilo("oom", "--format", "json").stdout)["resources"] if resource.get("ran_out")]
    assert gpu["limit_bytes"] == gpu["ran_out"]["limit_bytes"] == pytest.approx(139.80 * (1 << 30))
    assert gpu["used_percent"] == pytest.approx(100, abs=0.01), "the device was full, whoever had filled it"
    assert gpu["used_bytes"] == gpu["limit_bytes"] - (5 << 20)


def test_memory_that_the_system_refuses_pytorch_is_out_of_memory(record, nilo):
    code = 'raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can\'t allocate memory: you tried to allocate 70368744177664 bytes. Error code 12 (Cannot allocate memory)")'
    shown = record(code)
    assert shown["oom"]["kind"] == "host-allocation", shown["oom"]
    judged = nilo("oom")
    assert judged.returncode == 1 and "out of memory" in judged.stdout
    assert "DefaultCPUAllocator" in nilo("show").stdout
    assert json.loads(nilo("optimize", "--format", "json").stdout)["recommendations"]


def test_lines_that_no_hook_wrote_do_no_harm(record, nilo):
    code = """
        import os, sys
        path = os.environ["PYTHONPATH"].split(":")[0] + "/told.jsonl"
        with open(path, "ab") as told:
            told.write(b"\\xff\\x00 not json\\n" + b"[" * 100_000 + b"\\n" + b"x" * 1_000_000 + b"\\n{}\\n")
            told.write(b'{"event":"command-ended","exit_code":0,"time_nanos":1}\\n')
            told.write(b'{"event":"exception","type_name":"E","message":"","time_nanos":18446744073709551615,"pid":1}\\n')
        raise ValueError("the real one")
    """
    shown = record(code)
    assert (shown["exit_code"], shown["exception"]["message"]) == (1, "the real one")
    assert len(exceptions(nilo)) == 1


def test_a_run_inside_a_run_tells_both(record, nilo):
    inner = nilo.folder / "inner"
    shown = record(CRASH, command=[NILO, "run", "-q", "--dir", str(inner), "--", sys.executable, "train.py"])
    assert shown["exception"]["type_name"] == "json.decoder.JSONDecodeError"
    assert nilo.show("last", "--dir", str(inner))["exception"]["type_name"] == "json.decoder.JSONDecodeError"
