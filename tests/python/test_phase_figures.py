"""Durations that are floats, phases that are timed in some steps only, the slowest part of a step, and `repeat`."""

import json
import statistics
import sys
import time
import timeit

import pytest
from conftest import Nilo
from package import run_program

import nilometer
from nilometer.profiling import TrainingTimer, repeat


def test_stop_gives_a_float(run):
    for timer in (TrainingTimer(), TrainingTimer(device=0), TrainingTimer(device=0, synchronize=True)):
        timer.start("forward")
        seconds = timer.stop("forward")
        assert type(seconds) is float
        assert json.loads(json.dumps({"forward": seconds})) == {"forward": seconds}
        assert statistics.mean([seconds, seconds]) == pytest.approx(seconds)
        assert -seconds <= 0 and int(seconds) == 0


class FakeEvent:
    """An event of a GPU that takes twice as long as the host."""

    def __init__(self, enable_timing=False):
        self.waited = 0

    def record(self, stream):
        self.at = time.perf_counter()

    def query(self):
        return self.waited > 0

    def synchronize(self):
        self.waited += 1

    def elapsed_time(self, other):
        return 2e3 * (other.at - self.at)


@pytest.fixture
def fake_cuda(monkeypatch):
    """The part of torch.cuda that a timer uses, without torch."""
    events = []

    class Cuda:
        is_available = staticmethod(lambda: True)
        current_stream = staticmethod(lambda device: None)

        @staticmethod
        def Event(enable_timing=False):
            events.append(FakeEvent())
            return events[-1]

    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"cuda": Cuda}))
    return events


def test_on_a_gpu_stop_gives_a_float_and_waits_for_nothing(run, fake_cuda):
    timer = TrainingTimer(device=0)
    began = time.perf_counter()
    timer.start("forward")
    time.sleep(0.01)
    seconds = timer.stop("forward")
    assert type(seconds) is float and 0.01 <= seconds <= time.perf_counter() - began
    assert json.dumps(seconds) and statistics.mean([seconds, 1.0]) and -seconds < 0 and int(seconds) == 0
    assert sum(event.waited for event in fake_cuda) == 0
    # What is kept is the GPU's time.
    assert timer.get_summary()["forward"]["mean_sec"] == pytest.approx(2 * seconds, rel=0.1)


def test_on_a_gpu_stop_can_wait_for_the_gpus_time(run, fake_cuda):
    timer = TrainingTimer(device=0, synchronize=True)
    timer.start("forward")
    time.sleep(0.01)
    seconds = timer.stop("forward")
    assert type(seconds) is float and seconds >= 0.02
    assert timer.get_summary()["forward"]["mean_sec"] == pytest.approx(seconds, rel=1e-6)


def test_the_bottleneck_is_named_with_what_to_do(run):
    timer = TrainingTimer()
    assert timer.get_bottleneck() is None
    for name, seconds in [("data", 0.9), ("forward", 1.0), ("backward", 2.0), ("optimizer", 0.1)]:
        timer.add(name, seconds)
    found = timer.get_bottleneck()
    assert (found["part"], found["phase"]) == ("data", "data")
    assert found["share"] == pytest.approx(0.225)
    assert "num_workers" in found["advice"][0]
    timer.reset()
    for name, seconds in [("data", 0.1), ("iteration/forward", 1.0), ("iteration/backward", 2.0), ("iteration/optimizer", 0.1)]:
        timer.add(name, seconds)
    assert timer.get_bottleneck()["part"] == "backward"


def test_a_step_with_one_timed_part_counts_whole(run):
    timer = TrainingTimer()
    # As in a Hugging Face Trainer, where nothing tells forward from backward.
    for _ in range(3):
        timer.add("data", 0.001)
        timer.add("step/optimizer", 0.001)
        timer.add("step", 0.021)
    assert timer.get_bottleneck() is None
    for _ in range(3):
        timer.add("data", 0.02)
    found = timer.get_bottleneck()
    assert found["part"] == "data" and found["share"] == pytest.approx(0.5)


def test_nilo_show_says_what_to_do_about_the_slowest_phase(tmp_path):
    code = """
        import nilometer
        timer = nilometer.TrainingTimer()
        for name, seconds in [("data", 0.1), ("forward", 1.0), ("backward", 0.9), ("optimizer", 1.9)]:
            timer.add(name, seconds)
    """
    run_program(code, tmp_path)
    nilo = Nilo(tmp_path)
    text = nilo("show").stdout
    assert "  `optimizer` takes 49 % of the step\n    - Use the fused optimizer (fused=True)\n" in text
    assert nilo.show()["bottleneck"]["part"] == "optimizer"


def test_a_phase_that_is_timed_in_some_steps_has_the_share_of_all(tmp_path):
    code = """
        import nilometer
        timer = nilometer.TrainingTimer()
        timer.add("forward", 0.5)
        for step in range(10, 50, 10):
            timer.add("forward", 0.5, step, 10)
        timer.add("evaluate", 2.0)
        print(timer.get_summary()["forward"]["total_sec"])
    """
    assert float(run_program(code, tmp_path).stdout) == 20.5
    nilo = Nilo(tmp_path)
    shown = nilo.show()
    phases = {phase["name"]: phase for phase in shown["phases"]}
    forward, evaluate = phases["forward"], phases["evaluate"]
    assert (forward["count"], forward["represented_count"], forward["mean_secs"]) == (5, 41, 0.5)
    assert forward["wall_share_ratio"] / evaluate["wall_share_ratio"] == pytest.approx(20.5 / 2)
    assert "timed in 5 of 41 steps" in nilo("show").stdout


def test_repeat_is_called_as_timeits(run):
    arguments = {"stmt": "sum(numbers)", "setup": "numbers = list(range(n))", "number": 50, "repeat": 3, "globals": {"n": 2000}}
    ours, theirs = repeat(**arguments), timeit.repeat(**arguments)
    assert isinstance(ours, list) and len(ours) == len(theirs) == 3
    # Seconds of a round, not of a call.
    assert 0.2 < min(ours) / min(theirs) < 5
    assert ours.minimum == min(ours) / 50
    calls = []
    repeat(lambda: calls.append("call"), lambda: calls.append("setup"), number=2, repeat=2)
    assert calls == ["setup", "call", "call", "setup", "call", "call"]
