"""Training from Python: whatever the texts come from, other threads run, and it stops when asked."""

import contextlib
import json
import os
import signal
import time

import pytest

from bpe_texts import code, english, random_words
from nilometer._native import BpeCounts
from nilometer.bpe import BPE
from nilometer.bpe.options import Options
from other_threads import turns_during
from package import start_program


def test_an_iterator_is_trained_on_like_files(folder):
    texts = code()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, newline="")
    from_files = BPE().train(folder, 900, threads=2)
    as_bytes = (text.encode() for text in texts)
    assert from_files.merges == BPE().train_from_iterator(as_bytes, 900, threads=1).merges
    assert from_files.merges == BPE().train_from_iterator([texts[:2], texts[2:]], 900).merges
    assert from_files.totals["documents"] == 3


def test_the_means_change_nothing(folder):
    texts = english() * 5
    usual = BPE().train_from_iterator(texts, 900)
    assert usual.merges == BPE().train_from_iterator(texts, 900, memory_budget="40MiB", threads=3).merges


def unnamed_files(folder):
    """Files without a name that this process has open in a folder."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        # The one that lists the folder is gone by now.
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return [link for link in links if link.startswith(f"{folder}/") and link.endswith("(deleted)")]


TIGHT = {"memory_budget": "12MiB", "threads": 1}


def test_words_of_an_iterator_that_do_not_fit_go_to_disk_and_change_nothing(folder):
    text = random_words(300_000)
    texts = [text[start : start + 50_000] for start in range(0, len(text), 50_000)]
    open_files = []

    def watched():
        for text in texts:
            yield text
            open_files.append(len(unnamed_files(folder)))

    tight = BPE().train_from_iterator(watched(), 700, temp_dir=folder, **TIGHT)
    assert open_files[0] == 0 and open_files[-1] > 0
    assert unnamed_files(folder) == [] and list(folder.iterdir()) == []
    usual = BPE().train_from_iterator(texts, 700)
    assert (tight.merges, tight.totals) == (usual.merges, usual.totals)


def test_words_of_files_that_do_not_fit_go_to_disk_and_change_nothing(folder):
    (folder / "large.txt").write_text(random_words(300_000))
    spilled = folder / "spilled"
    spilled.mkdir()
    counts = BpeCounts.from_files(["large.txt"], Options(temp_dir=spilled, **TIGHT))
    assert len(unnamed_files(spilled)) > 0
    model = counts.train(700, Options(**TIGHT))
    assert unnamed_files(spilled) == []
    tight = BPE().train("large.txt", 700, temp_dir=spilled, **TIGHT)
    usual = BPE().train("large.txt", 700)
    assert tight.merges == usual.merges and model.vocab_json() == usual._trained.vocab_json()
    assert tight.totals == usual.totals


def test_separators_and_json_lines_part_documents(folder):
    texts = [text for text in english() if "\n" not in text]
    (folder / "parted.txt").write_text("\n---\n".join(texts))
    (folder / "lines.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    wanted = BPE().train_from_iterator(texts, 600).merges
    assert BPE().train("parted.txt", 600, separator="\n---\n").merges == wanted
    assert BPE().train("lines.jsonl", 600, jsonl="body").merges == wanted


def test_other_threads_run_while_it_trains(folder):
    (folder / "large.txt").write_text(random_words(300_000))
    assert turns_during(lambda: BPE().train("large.txt", 8000)) >= 5


@pytest.mark.parametrize("what", ["files", "iterator"])
def test_ctrl_c_stops_the_training(what, folder):
    (folder / "large.txt").write_text(random_words(300_000))
    program = """
        import itertools, pathlib, sys
        from nilometer.bpe import BPE
        text = pathlib.Path("large.txt").read_text()
        print("begun", flush=True)
        try:
            if sys.argv[1] == "files":
                # Read over and over: too much to end before the signal.
                BPE().train(["large.txt"] * 3000, 60000)
            else:
                BPE().train_from_iterator(itertools.repeat(text), 60000)
        except KeyboardInterrupt:
            print("stopped")
    """
    process = start_program(program, folder, what)
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "stopped\n"), err


def test_ctrl_c_stops_the_merging(folder):
    (folder / "large.txt").write_text(random_words(400_000))
    program = """
        from nilometer._native import BpeCounts
        from nilometer.bpe.options import Options

        heard = []

        def progress(stage, done, total):
            heard.append(done)
            if len(heard) == 1:
                print(stage, flush=True)

        options = Options(threads=1)
        counts = BpeCounts.from_files(["large.txt"], options)
        try:
            counts.train(1_000_000, options, progress)
        except KeyboardInterrupt:
            print("stopped", heard[-1] < 900_000)
    """
    process = start_program(program, folder)
    assert process.stdout.readline() == "merge\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "stopped True\n"), err


def test_an_iterator_is_counted_in_bounded_memory(folder):
    program = """
        import random
        import nilometer
        from nilometer.bpe import BPE

        words = ["".join(random.choices("abcdefghijklmnop", k=6)) for _ in range(20000)]

        def texts():
            for number in range(150):
                yield " ".join(random.sample(words, 20000)) * 8 + str(number)

        one = next(texts())
        before = nilometer.peak_rss()
        bpe = BPE().train_from_iterator(texts(), 1000, threads=2)
        print(bpe.totals["text_bytes"] >> 20, (nilometer.peak_rss() - before) >> 20)
    """
    out, _ = start_program(program, folder).communicate(timeout=100)
    counted_mib, grown_mib = map(int, out.split())
    assert counted_mib > 140
    assert grown_mib < 60


def test_an_exception_of_the_progress_function_stops_the_work(folder):
    (folder / "a.txt").write_text("some text " * 1000)

    def progress(stage, done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        BpeCounts.from_files(["a.txt"], Options(), progress)
