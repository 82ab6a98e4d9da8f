"""Text that is not UTF-8: package and command write lone surrogates and bytes as Python's backslashreplace does. Nothing raises in the loop."""

import json
import subprocess
import sys
import textwrap

import nilometer
from conftest import NILO, unavailable
from package import QUIET, only_run, run_program

ODD = "a\udcff\ud800b"


def test_an_argument_that_is_not_utf8_stops_no_call(tmp_path):
    code = textwrap.dedent("""
        import nilometer
        for step in range(3):
            nilometer.log({"loss": 1.0}, step=step)
    """)
    result = subprocess.run([sys.executable, "-c", code, b"--data=\xff\xfe"], cwd=tmp_path, env=QUIET | {"NILO_STRICT": "1"}, capture_output=True)
    assert result.returncode == 0, result.stderr
    recorded = nilometer.RecordedRun(only_run(tmp_path))
    assert len(recorded.series("loss").value) == 3
    assert recorded.description["command"][-1] == r"--data=\udcff\udcfe"


def test_the_command_takes_such_arguments_too(nilo):
    result = subprocess.run([NILO, "run", "--quiet", "--", "echo", b"\xff"], cwd=nilo.folder, env=nilo.environment, capture_output=True)
    assert (result.returncode, result.stdout) == (0, b"\xff\n")
    assert nilo.show()["command"] == ["echo", r"\udcff"]


def test_the_command_takes_such_names_tags_and_marks_too(nilo):
    def call(*arguments):
        return subprocess.run([NILO, *arguments], cwd=nilo.folder, env=nilo.environment, capture_output=True)

    result = call("run", "--quiet", "--name", b"n\xff", "--tag", b"k=\xfe", "--", NILO, "mark", b"epoch \xff")
    assert result.returncode == 0, result.stderr
    shown = nilo.show()
    assert (shown["name"], shown["tags"]) == (r"n\udcff", {"k": r"\udcfe"})
    assert [mark["text"] for mark in shown["marks"]] == [r"epoch \udcff"]
    assert b"udcff" in call("runs", "--tag", b"k=\xfe").stdout
    assert call("request", "--name", b"n\xff").returncode == 0
    assert call("plot", b"n\xff", "--title", b"\xff", "-o", "plot.svg").returncode == 0
    unknown = call("plot", b"n\xff", "--metric", b"\xff", "-o", "plot.svg")
    assert unknown.returncode == 2 and b"no metric is called" in unknown.stderr
    process = subprocess.Popen(["sleep", "30"])
    try:
        watched = call("watch", "--quiet", "--pid", str(process.pid), "--run-name", b"w\xff", "--duration", "0.2")
    finally:
        process.kill()
        process.wait()
    assert watched.returncode == 0 and nilo.show()["name"] == r"w\udcff", watched.stderr


def test_surrogates_are_escaped_wherever_text_is_taken(tmp_path):
    code = f"""
        import json, nilometer
        from nilometer.metrics import MetricTracker
        from nilometer.profiling import TrainingTimer
        odd = {ascii(ODD)}
        run = nilometer.init(name=odd, tags={{odd: odd}}, config={{odd: odd, "nested": {{odd: 1}}}})
        run.mark(odd)
        nilometer.mark(odd)
        run.config({{odd: odd}})
        for step in range(3):
            run.log({{odd: 1.0, "plain": 2.0, "deep": {{odd: 3.0}}}}, step=step)
            with run.phase(odd):
                pass
            run.phase(odd, 0.5)
        timer = TrainingTimer()
        timer.start(odd)
        timer.stop(odd)
        tracker = MetricTracker()
        tracker.update(odd, 1.0)
        tracker.update(odd, 3.0)
        assert tracker.get_mean(odd) == 2.0
        read = nilometer.RecordedRun(run.path)
        assert len(read.series(odd).value) >= 3
        print(json.dumps(read.description))
        raise ValueError(odd)
    """
    result = run_program(code, tmp_path, expect=1)
    assert "ValueError" in result.stderr and "NilometerError" not in result.stderr
    description = json.loads(result.stdout)
    clean = nilometer.RecordedRun(only_run(tmp_path))
    (name,) = [name for name in clean.metrics if "plain" not in name and "/" not in name]
    assert name == r"a\udcff\ud800b" and description["name"] == name
    assert description["tags"] == {name: name}
    assert clean.summary()["config"][name] == name
    assert "ValueError" in json.dumps(clean.summary()["exception"])


def test_lost_calls_are_counted_once_and_steps_do_not_drift(tmp_path):
    """Literal keys take another way into the file than names made on the fly; on a full disk both lose a call once."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], capture_output=True).returncode:
        unavailable("cannot mount a tmpfs")
    code = """
        import nilometer, random
        from nilometer.metrics import MetricTracker
        run = nilometer.init(memory=False)
        calls = 0
        while run.dropped < 1000:
            run.log({"a": random.random(), "b": random.random(), "c": random.random()})
            calls += 1
        lost = run.dropped
        tracker = MetricTracker(run=run)
        for _ in range(50):
            run.log({"a": 1.0, "b": 2.0, "c": 3.0})
            tracker.update("t", 1.0)
            run.mark("m")
            with run.phase("p"): pass
        assert run.dropped == lost + 200, (run.dropped, lost)
        print(calls + 50, run.newest_step)
        run.finish()
        assert run.dropped == lost + 200
        run.log({"a": 1.0, "b": 2.0, "c": 3.0})
        run.mark("late")
        assert run.dropped == lost + 202, run.dropped
    """
    try:
        result = run_program(code, small, NILO_STRICT="0")
        calls, newest = map(int, result.stdout.split())
        assert newest == calls - 1
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_names_that_differ_in_a_surrogate_are_two_metrics(run):
    for step in range(3):
        run.log({"\ud800a": step, "\udfffa": 2 * step, "deep": {"\ud800a": 1}}, step=step)
    run.finish()
    recorded = nilometer.read_run(run.path)
    assert recorded.metrics == [r"\ud800a", r"\udfffa", r"deep/\ud800a"]
    assert list(recorded.series("\udfffa").value) == [0, 2, 4]


def test_a_step_beyond_64_bits_is_told_in_its_own_digits(tmp_path):
    told = run_program("import nilometer; nilometer.log({'loss': 1}, step=2**63)", tmp_path, expect=1).stderr
    assert "the step is 9223372036854775808, beyond 64 bits" in told, told
