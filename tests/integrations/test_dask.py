"""`examples/dask_bpe.py` on a real cluster of processes: the same tokenizer as one command over everything gives."""

import os
import pathlib
import random
import re
import subprocess
import sys

import pytest
from conftest import ROOT, subprocess_environment

NILO = os.environ.get("NILO", str(pathlib.Path(sys.executable).parent / "nilo"))
END = "<|endoftext|>"


@pytest.fixture
def shards(tmp_path):
    """Files of different sizes, with words that are in several of them and special tokens in between."""
    chance = random.Random(11)
    known = ["".join(chance.choices("abcdefghij", k=chance.randrange(2, 9))) for _ in range(3000)]
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(7):
        documents = [" ".join(chance.choices(known, k=400)) for _ in range(5 * (number + 1))]
        (folder / f"{number}.txt").write_text(END.join(documents))
    return folder


def run(*command):
    environment = subprocess_environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_workers_that_count_give_the_tokenizer_of_one_command(shards, tmp_path):
    rules = ["--vocab-size", "1200", "--special-token", END]
    example = [sys.executable, ROOT / "examples/dask_bpe.py", f"{shards}/*.txt", *rules]
    said = run(*example, "--workers", "3", "-o", tmp_path / "cluster").stderr
    run(NILO, "bpe", "train", shards, *rules, "--no-record", "-o", tmp_path / "alone")
    written = sorted(path.name for path in (tmp_path / "alone").iterdir())
    assert written == ["merges.txt", "ranks.json", "ranks.tiktoken", "tokenizer.json", "vocab.json"]
    for name in written:
        assert (tmp_path / "cluster" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes(), name
    processes = int(re.search(r"counted 7 of 7 shards, [\d.]+ MiB, in (\d) processes", said)[1])
    assert processes > 1
