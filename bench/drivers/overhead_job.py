"""A training loop of matrix products: plain steps, steps with nilometer and steps with empty calls, in turns of random order.

Between two calls the matrices push everything else out of the processor's caches: calls cost more there than in a loop of calls.
"""

import random
import time

STEP_SECS = 0.005


def measure_overhead(tracker, tell, folder: str, turns: int) -> None:
    nilometer = tracker.load()
    run = nilometer.init(dir=folder, memory=False)
    training = Training()
    recorder, empty_recorder = Recorder(nilometer, run), EmptyRecorder()
    training.recorded_step(recorder)  # the first time opens tables
    steps = {
        "plain": training.plain_step,
        "empty": lambda: training.recorded_step(empty_recorder),
        "recorded": lambda: training.recorded_step(recorder),
    }
    cpu_nanos, order, chance = {kind: [] for kind in steps}, list(steps), random.Random(1)
    for _ in range(turns):
        chance.shuffle(order)
        for kind in order:
            cpu_nanos[kind].append(steps[kind]())
    cold_call_nanos = []
    for _ in range(turns // 5):
        training.plain_step()
        cold_call_nanos.append(calls_alone(recorder))
    warm_call_nanos = [calls_alone(recorder) for _ in range(turns)]
    run.finish()
    tell({"cpu_nanos": cpu_nanos, "cold_call_nanos": cold_call_nanos, "warm_call_nanos": warm_call_nanos})


class Recorder:
    """What a training loop does with nilometer in a step."""

    def __init__(self, nilometer, run) -> None:
        timer = nilometer.TrainingTimer(run=run)
        self.start, self.stop = timer.start, timer.stop
        self.update = nilometer.ThroughputTracker(run=run).update
        self.log = run.log
        self.set_step = run.set_step


class EmptyRecorder:
    """The same calls, to functions of Python that do nothing."""

    def __init__(self) -> None:
        self.start = self.stop = self.set_step = lambda name: None
        self.update = self.log = lambda values, step: None


class Training:
    """Steps of about five milliseconds on this machine, by one thread."""

    def __init__(self) -> None:
        import numpy

        self.weights = numpy.random.default_rng(1).normal(size=(256, 256))
        self.products = 1
        secs = min(self.timed_products() for _ in range(200))
        self.products = max(1, round(STEP_SECS / secs / 3))  # in each of the three phases
        self.number = 0

    def timed_products(self) -> float:
        started = time.perf_counter()
        self.multiply()
        return time.perf_counter() - started

    def multiply(self) -> float:
        for _ in range(self.products):
            product = self.weights @ self.weights
        return float(product[0, 0])

    def plain_step(self) -> int:
        """One step; gives the CPU time of the whole process in it."""
        self.number += 1
        started = time.process_time_ns()
        self.multiply()
        self.multiply()
        self.multiply()
        return time.process_time_ns() - started

    def recorded_step(self, recorder: Recorder) -> int:
        """The same with nilometer."""
        self.number += 1
        started = time.process_time_ns()
        recorder.set_step(self.number)
        recorder.start("forward")
        loss = self.multiply()
        recorder.stop("forward")
        recorder.start("backward")
        gradient = self.multiply()
        recorder.stop("backward")
        recorder.start("optimizer")
        self.multiply()
        recorder.stop("optimizer")
        recorder.update(8, 1024)
        recorder.log({"loss": loss, "gradient_norm": gradient, "learning_rate": 0.1, "accuracy": 0.5, "reward": 0.0}, self.number)
        return time.process_time_ns() - started


def calls_alone(recorder) -> int:
    """The wall time of one step's calls with no work between them."""
    started = time.perf_counter_ns()
    recorder.set_step(1)
    for name in ("forward", "backward", "optimizer"):
        recorder.start(name)
        recorder.stop(name)
    recorder.update(8, 1024)
    recorder.log({"loss": 1.0, "gradient_norm": 2.0, "learning_rate": 0.1, "accuracy": 0.5, "reward": 0.0}, 1)
    return time.perf_counter_ns() - started
