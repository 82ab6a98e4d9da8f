"""Watch memory while a tokenizer is trained: as a class, in one call, and for several vocabulary sizes.

    python examples/tokenizer_memory.py [TEXT_FILE]

Each training prints its memory figures and leaves a CSV file of its samples beside it.
From outside the same is `nilo bpe train TEXT --vocab-size 400 --save-memory-log`, or `nilo watch --process-name python` in a second terminal.
"""

import pathlib
import sys

from nilometer.bpe import BPEWithMonitoring, train_bpe_with_monitoring


def text_file() -> pathlib.Path:
    """The file named on the command line, or one of some thousand sentences."""
    if len(sys.argv) > 1:
        return pathlib.Path(sys.argv[1])
    animals, places = ("otter", "heron", "beetle", "lynx", "newt"), ("river", "marsh", "orchard", "quarry")
    sentences = [f"The {a} number {n} went to the {p}, and the {p} was quiet.\n" for n in range(2000) for a in animals for p in places]
    path = pathlib.Path("sentences.txt")
    path.write_text("".join(sentences))
    return path


def main() -> None:
    path = text_file()

    print("--- drop-in replacement for BPE")
    bpe = BPEWithMonitoring(monitor_interval=0.05)
    bpe.train(path, vocab_size=400, special_tokens=["<|end|>"], save_memory_log=True)
    figures = bpe.get_memory_stats()
    print(f"{figures['total_samples']:.0f} samples, peak {figures['peak_memory_mb']:.1f} MB")

    print("--- in one call")
    bpe, figures = train_bpe_with_monitoring(path, vocab_size=500, monitor_interval=0.05, verbose=False)
    print(f"'The otter' is {len(bpe.encode('The otter'))} tokens, peak {figures['peak_memory_mb']:.1f} MB")

    print("--- for several vocabulary sizes")
    for size in (300, 600, 900):
        _, figures = train_bpe_with_monitoring(path, vocab_size=size, save_memory_log=True, verbose=False)
        print(f"{size:>5} tokens: peak {figures['peak_memory_mb']:.1f} MB, growth {figures['memory_growth_mb']:+.1f} MB")


if __name__ == "__main__":
    main()
