"""Times nilometer's single calls in long loops, in turns, beside the clock and an empty loop."""

import time
from collections.abc import Callable

CALLS_PER_ROUND = 10_000


def measure_pieces(tracker, tell, folder: str, rounds: int) -> None:
    nilometer = tracker.load()
    run = nilometer.init(dir=folder, memory=False)
    pieces = pieces_of(nilometer, run)
    nanos = {name: [] for name in pieces}
    for _ in range(rounds):
        for name, piece in pieces.items():
            started = time.perf_counter_ns()
            piece(range(CALLS_PER_ROUND))
            nanos[name].append((time.perf_counter_ns() - started) / CALLS_PER_ROUND)
    run.finish()
    tell({"nanos": nanos})


def pieces_of(nilometer, run) -> dict[str, Callable[[range], None]]:
    """Each is a loop over one call, written out: a function around the call would cost as much as the call."""
    timer = nilometer.TrainingTimer(run=run)
    throughput = nilometer.ThroughputTracker(run=run)
    metrics = nilometer.MetricTracker(run)
    clock = time.perf_counter

    def empty_loop(steps):
        for _ in steps:
            pass

    def clock_pair(steps):
        for _ in steps:
            clock()
            clock()

    def timer_pair(steps):
        for _ in steps:
            timer.start("forward")
            timer.stop("forward")

    def timer_block(steps):
        for _ in steps:
            with timer.phase("forward"):
                pass

    def throughput_update(steps):
        for _ in steps:
            throughput.update(8, 1024)

    def metric_update(steps):
        for step in steps:
            metrics.update("loss", 0.5, step)

    def metric_update_batch(steps):
        for step in steps:
            metrics.update_batch({"loss": 0.5, "accuracy": 0.5, "learning_rate": 0.1, "gradient_norm": 2.0, "reward": 0.0}, step)

    def build_dictionary(steps):
        for _ in steps:
            {"loss": 0.5, "accuracy": 0.5, "learning_rate": 0.1, "gradient_norm": 2.0, "reward": 0.0}

    def log_one(steps):
        for step in steps:
            run.log({"loss": 0.5}, step)

    def log_five(steps):
        for step in steps:
            run.log({"loss": 0.5, "accuracy": 0.5, "learning_rate": 0.1, "gradient_norm": 2.0, "reward": 0.0}, step)

    def log_five_by_module(steps):
        for step in steps:
            nilometer.log({"loss": 0.5, "accuracy": 0.5, "learning_rate": 0.1, "gradient_norm": 2.0, "reward": 0.0}, step)

    return {
        "(empty loop)": empty_loop,
        "(dictionary of five)": build_dictionary,
        "time.perf_counter(), twice": clock_pair,
        "TrainingTimer.start, .stop": timer_pair,
        "with TrainingTimer.phase": timer_block,
        "ThroughputTracker.update": throughput_update,
        "MetricTracker.update": metric_update,
        "MetricTracker.update_batch, five values": metric_update_batch,
        "Run.log, one value": log_one,
        "Run.log, five values": log_five,
        "nilometer.log, five values": log_five_by_module,
    }
