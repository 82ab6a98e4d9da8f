"""Training that is watched: the examples of the document on memory monitoring, and the bars."""

import os
import pathlib
import pty
import re
import subprocess
import sys
import threading

import pytest

import nilometer
from bpe_texts import english
from nilometer.bpe import BPE, BPEWithMonitoring, compare_vocab_sizes, train_bpe_with_monitoring


@pytest.fixture
def training(folder):
    (folder / "data").mkdir()
    (folder / "data/training.txt").write_text("\n".join(english()))


BLOCK = r"""Initial memory usage: \d+\.\d\d MB
Started memory monitoring \(interval: 0\.1s\)
Training completed in \d+\.\d\d seconds
Stopped memory monitoring\. Peak memory: \d+\.\d\d MB
Memory log saved to memory_log_1000\.csv

={50}
MEMORY USAGE STATISTICS
={50}
Peak Memory Usage:    \d+\.\d\d MB
Average Memory Usage: \d+\.\d\d MB
Minimum Memory Usage: \d+\.\d\d MB
Memory Growth:        [+-]\d+\.\d\d MB
Total Samples:        \d+
Monitoring Duration:  \d+\.\d\d seconds
={50}
Peak memory: \d+\.\d\d MB
"""


def test_integrated_monitoring(training, folder, capsys):
    # Create BPE with monitoring
    bpe = BPEWithMonitoring(monitor_interval=0.1)

    # Train with monitoring enabled
    bpe.train(
        input_path="data/training.txt",
        vocab_size=1000,
        special_tokens=["<|pad|>"],
        enable_monitoring=True,
        save_memory_log=True,
    )

    # Get memory statistics
    stats = bpe.get_memory_stats()
    print(f"Peak memory: {stats['peak_memory_mb']:.2f} MB")

    assert re.fullmatch(BLOCK, capsys.readouterr().out)
    assert bpe.vocab_size == 1000 and bpe.special_tokens == {"<|pad|>": 0}
    assert stats["min_memory_mb"] <= stats["average_memory_mb"] <= stats["peak_memory_mb"]
    assert stats["memory_growth_mb"] == pytest.approx(stats["peak_memory_mb"] - stats["initial_memory_mb"])
    rows = (folder / "memory_log_1000.csv").read_text().splitlines()
    assert rows[0] == "timestamp_seconds,memory_mb,cpu_percent"
    assert len(rows) - 1 == stats["total_samples"] >= 2
    assert all(re.fullmatch(r"\d+\.\d{3},\d+\.\d\d,\d+\.\d", row) for row in rows[1:])


def test_convenience_function(training, capsys):
    # Train and get both BPE and memory stats
    bpe, memory_stats = train_bpe_with_monitoring(
        input_path="data/training.txt",
        vocab_size=1000,
        special_tokens=["<|pad|>"],
        save_memory_log=True,
    )

    print(f"Training completed. Peak memory: {memory_stats['peak_memory_mb']:.2f} MB")
    assert re.search(r"\nTraining completed\. Peak memory: \d+\.\d\d MB\n$", capsys.readouterr().out)
    assert memory_stats == bpe.get_memory_stats()


def test_plain_training_in_one_line(training):
    bpe = nilometer.BPE()
    bpe.train(input_path="data/training.txt", vocab_size=1000)
    assert bpe.merges == BPEWithMonitoring().train("data/training.txt", 1000, enable_monitoring=False).merges


def test_batch_processing(training, capsys):
    vocab_sizes = [300, 500, 1000]
    results = []

    for vocab_size in vocab_sizes:
        bpe, stats = train_bpe_with_monitoring(
            input_path="data/training.txt", vocab_size=vocab_size, save_memory_log=True
        )
        results.append((vocab_size, stats["peak_memory_mb"]))
        print(f"Vocab {vocab_size}: {stats['peak_memory_mb']:.2f} MB peak")

    assert re.search(r"Vocab 500: \d+\.\d\d MB peak", capsys.readouterr().out)
    assert [size for size, _ in results] == vocab_sizes
    compared = compare_vocab_sizes("data/training.txt", vocab_sizes)
    assert [result.vocab_size for result in compared] == vocab_sizes
    assert compared[-1].bpe.merges == bpe.merges


def test_a_comparison_reads_the_corpus_once(folder):
    # A pipe can be read once only.
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: pathlib.Path("pipe").write_text(" ".join(english())))
    writer.start()
    results = compare_vocab_sizes("pipe", [300, 400])
    writer.join()
    assert [result.bpe.vocab_size for result in results] == [300, 400]


def test_bars_are_drawn_when_asked_for(training, capsys):
    BPE().train("data/training.txt", 999, progress=True)
    lines = re.split(r"[\r\n]+", capsys.readouterr().err.strip())
    assert lines[-1].startswith("Training BPE: 100%|████████████████| 743/743 [00:0")
    assert re.search(r"<00:00, [\d.]+merges/s\]$", lines[-1])
    assert any(line.startswith("Counting words: ") for line in lines)
    BPE().train("data/training.txt", 999)
    assert capsys.readouterr().err == ""


def test_bars_are_drawn_on_a_terminal(training, folder):
    terminal, its_end = pty.openpty()
    program = "from nilometer.bpe import BPE; BPE().train('data/training.txt', 999)"
    subprocess.run([sys.executable, "-c", program], stderr=its_end, check=True, timeout=60)
    os.close(its_end)
    drawn = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert "\rTraining BPE: 100%|████████████████| 743/743 [00:0" in drawn
    assert drawn.endswith("merges/s]\r\n")
