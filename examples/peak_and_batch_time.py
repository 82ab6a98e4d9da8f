"""How much memory does a job need, and how long does a batch take? Answers for the line `#SBATCH --mem=... --time=...`.

    python examples/peak_and_batch_time.py

`nilo run -- python your_job.py`, then `nilo request`, answers the same without a change to the job.
"""

from resource import RUSAGE_SELF, getrusage

import nilometer

SENTENCES = ["the quick brown fox jumps over the lazy dog"] * 200


def tag(sentences: list) -> list:
    """Stands in for a tagger."""
    return [[(word, "NOUN" if len(word) > 4 else "OTHER") for word in sentence.split()] for sentence in sentences]


def main() -> None:
    # How long a batch takes, as timeit measures it: statements as text or functions, and the minimum is the figure to quote.
    setup = "sentences = ['the quick brown fox jumps over the lazy dog'] * 200"
    rounds = nilometer.repeat(stmt="[s.split() for s in sentences]", setup=setup, number=20, repeat=3)
    print("seconds for 20 batches:", [round(seconds, 6) for seconds in rounds])
    print("splitting a batch:", nilometer.repeat(lambda: tag(SENTENCES), number=20, repeat=3).describe())

    # A line every N batches says when it will be done.
    batches = [SENTENCES] * 60
    tracker = nilometer.ThroughputTracker(total_batches=len(batches), log_every=20)
    timer = nilometer.TrainingTimer()
    tagged = []
    for batch in batches:
        timer.start("batch")
        tagged.append(tag(batch))
        seconds = timer.stop("batch")
        tracker.update(num_samples=len(batch))
    print(f"the last batch took {1000 * seconds:.2f} ms, the mean is {1000 * timer.get_summary()['batch']['mean_sec']:.2f} ms")

    # The peak is what has to be asked for. The kernel keeps it, so no sample can miss it.
    print(f"peak memory: {nilometer.peak_rss() / 2**20:.1f} MiB (getrusage: {getrusage(RUSAGE_SELF).ru_maxrss / 2**10:.1f} MiB)")


if __name__ == "__main__":
    main()
