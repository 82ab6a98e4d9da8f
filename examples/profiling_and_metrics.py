"""Profile a training loop and log its metrics: where the time goes, how fast it is, what it learns.

    python examples/profiling_and_metrics.py

Afterwards `nilo show --dir logs/.nilo` has all of it on one page. The model is a stand-in that only takes time.
"""

import random
import time

from nilometer.metrics import TrainingLogger
from nilometer.profiling import ComprehensiveProfiler

EPOCHS, BATCHES, BATCH_SIZE, TOKENS = 3, 5, 8, 256


def load_batch() -> list:
    time.sleep(0.006)
    return list(range(BATCH_SIZE))


def train(profiler: ComprehensiveProfiler, batch: list, done: int) -> tuple:
    with profiler.timer.phase("forward"):
        time.sleep(0.002)
    with profiler.timer.phase("backward"):
        time.sleep(0.004)
    with profiler.timer.phase("optimizer"):
        time.sleep(0.001)
    loss = 2.0 / (1 + done) + 0.01 * random.random()
    return loss, 1 - loss / 3, [random.choice([0.0, 0.5, 1.0, None]) for _ in batch]


def evaluate() -> None:
    time.sleep(0.1)


def main() -> None:
    random.seed(7)
    profiler = ComprehensiveProfiler(device=0)
    logger = TrainingLogger(log_dir="logs", experiment_name="verifier")
    profiler.set_baseline()
    done = 0
    for epoch in range(EPOCHS):
        for _ in range(BATCHES):
            with profiler.timer.phase("data"):
                batch = load_batch()
            profiler.start_iteration(step=done)
            loss, reward, scores = train(profiler, batch, done)
            profiler.end_iteration(num_samples=len(batch), num_tokens=TOKENS)
            logger.log_step(step=done, metrics={"loss": loss, "reward": reward}, scores=scores)
            done += 1
        # Neither the rates nor the iterations have this in them.
        evaluate()
        if profiler.detect_leak(threshold_gb=0.5):
            print(f"memory grew by more than 0.5 GB until epoch {epoch}")
        profiler.export_to_json(f"profiling_epoch{epoch}.json")
        logger.save_checkpoint_metrics(f"epoch{epoch}")
    exported = logger.export_all()

    summary = profiler.get_summary()
    print(f"{summary['iterations']} iterations of {1000 * summary['timing']['iteration']['mean_sec']:.1f} ms")
    print(f"{summary['throughput']['samples_per_sec']:.0f} samples/s, {summary['throughput']['tokens_per_sec']:.0f} tokens/s")
    print(f"{summary['throughput']['outside_sec']:.2f} s outside of iterations")
    print(f"slowest part: {summary['bottleneck']['text']}")
    for advice in summary["bottleneck"]["advice"]:
        print(f"  - {advice}")
    loss = exported["metric_summaries"]["loss"]
    print(f"loss: {loss['count']} values, from {loss['max']:.2f} down to {loss['min']:.2f}")
    print(f"scores: {exported['score_distribution']['valid_count']} of {exported['score_distribution']['total']} valid")


if __name__ == "__main__":
    main()
