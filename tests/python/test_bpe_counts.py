"""Counting apart from learning: shards that are counted one by one give the tokenizer of all their texts."""

import pathlib
import signal
import subprocess
import time
import warnings

import pytest

from bpe_texts import END, code, english, random_words
from conftest import NILO
from nilometer import NilometerWarning
from nilometer.bpe import BPE, count, count_from_iterator, merge_counts
from other_threads import turns_during
from package import start_program

FORMS = ("tokenizer.json", "vocab.json", "merges.txt", "ranks.tiktoken", "ranks.json")


@pytest.fixture
def shards(folder):
    """Files with special tokens in between, and each counted by itself."""
    texts = code() + [END.join(english())]
    (folder / "shards").mkdir()
    for number, text in enumerate(texts):
        (folder / f"shards/{number}.txt").write_text(text, newline="")
        count(f"shards/{number}.txt", f"{number}.counts", [END])
    return [f"{number}.counts" for number in range(len(texts))]


def saved(bpe, name):
    bpe.save(name)
    return [pathlib.Path(name, form).read_bytes() for form in FORMS]


def test_counts_of_shards_give_the_tokenizer_of_the_whole(shards):
    whole = BPE().train("shards", 900, [END])
    parts = BPE().train_from_counts(shards, 900, [END])
    assert saved(parts, "parts") == saved(whole, "whole")
    assert parts.totals == whole.totals and whole.totals["distinct_words"] > 0


def test_counts_are_those_of_the_command(shards, folder):
    for number, path in enumerate(shards):
        command = [NILO, "bpe", "count", f"shards/{number}.txt", "--special-token", END, "-q", "-o", "theirs"]
        subprocess.run(command, check=True, timeout=60)
        assert (folder / "theirs").read_bytes() == (folder / path).read_bytes()


def test_merged_counts_stand_for_all(shards):
    totals = merge_counts(pathlib.Path().glob("*.counts"), "all")
    whole = BPE().train("shards", 900, [END])
    assert totals == whole.totals
    assert BPE().train_from_counts("all", 900, [END]).merges == whole.merges


def test_texts_of_an_iterator_are_counted_like_files(folder):
    texts = code()
    for number, text in enumerate(texts):
        (folder / f"{number}.txt").write_text(text, newline="")
    totals = count_from_iterator((text for text in texts), "texts.counts", pattern="cl100k")
    assert totals == count("*.txt", "files.counts", pattern="cl100k") and totals["documents"] == 3
    assert pathlib.Path("texts.counts").read_bytes() == pathlib.Path("files.counts").read_bytes()
    bpe = BPE().train_from_counts("texts.counts", 700)
    assert bpe.merges == BPE().train_from_iterator(texts, 700, pattern="cl100k").merges


def test_one_file_of_counts_serves_many_trainings(shards):
    small = BPE().train_from_counts(shards, 500, [END], min_frequency=3)
    large = BPE().train_from_counts(shards, 900, [END], tie_break="gpt2-bytes")
    assert small.merges == BPE().train("shards", 500, [END], min_frequency=3).merges
    assert large.merges == BPE().train("shards", 900, [END], tie_break="gpt2-bytes").merges


def test_counts_by_other_rules_are_refused(shards, folder):
    count("shards", "o200k.counts", [END], pattern="o200k")
    count("shards", "lines.counts", [END], lines=True)
    count("shards", "kept.counts", [END], keep_special_tokens=True)
    for name, sentence in [
        ("o200k.counts", "the pattern differs between 0.counts and o200k.counts: gpt2 and o200k"),
        ("lines.counts", "what is a text differs between"),
        ("kept.counts", "what is cut out differs between"),
    ]:
        with pytest.raises(ValueError, match=sentence) as raised:
            BPE().train_from_counts([shards[0], name], 900, [END])
        assert "hint: count both parts with the same settings" in str(raised.value)
    with pytest.raises(ValueError, match="made with the pattern gpt2, not cl100k\nhint: leave pattern out"):
        BPE().train_from_counts(shards, 900, [END], pattern="cl100k")
    assert BPE().train_from_counts(shards, 900, [END], pattern="gpt2").vocab_size == 900


def test_a_token_that_was_cut_out_and_is_forgotten_is_told_of_once(shards):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for _ in range(2):
            BPE().train_from_counts(shards, 900)
    (only,) = heard
    assert only.category is NilometerWarning and only.filename == __file__
    assert str(only.message) == "'<|endoftext|>' was a special token when the texts were counted, but is not one here"


@pytest.mark.parametrize(
    ("call", "kind", "sentence"),
    [
        (lambda: count("a.txt", "nowhere/a.counts"), FileNotFoundError, "could not write nowhere/a.counts"),
        (lambda: count("missing.txt", "out"), FileNotFoundError, "no such file or folder, and no file matches this pattern: missing.txt"),
        (lambda: count("a.txt", "out", ["", "x"]), ValueError, "special token number 1 is empty"),
        (lambda: count("a.txt", "out", ["x", "x"]), ValueError, "special token given twice: x\nhint: name it once"),
        (lambda: count("a.txt", "out", min_frequency=2), ValueError, "min_frequency is for learning"),
        (lambda: count("a.txt", "out", temp_dir="nowhere"), FileNotFoundError, "could not store counted words in nowhere"),
        (lambda: count("a.txt", "out", pattern="a*"), ValueError, "the pattern matches the empty string"),
        (lambda: count("a.txt", "out", unknown=1), TypeError, "unknown"),
        (lambda: count("a.txt", "a.txt", resume=True), OSError, "it is not a counts file"),
        (lambda: count_from_iterator("text", "out"), TypeError, "put it into a list"),
        (lambda: count_from_iterator(["text"], "out", lines=True), ValueError, "lines is for files"),
        (lambda: merge_counts([], "out"), ValueError, "no files of counts given"),
        (lambda: BPE().train_from_counts([], 300), ValueError, "no files of counts given"),
        (lambda: BPE().train_from_counts("missing", 300), FileNotFoundError, "could not read counts from missing"),
        (lambda: BPE().train_from_counts("a.txt", 300), OSError, "it is not a counts file"),
        (lambda: BPE().train_from_counts("a.txt", 300, lines=True), ValueError, "lines is for texts"),
        (lambda: BPE().train_from_counts("a.txt", 100), ValueError, "a vocabulary of 100 tokens is too small"),
    ],
)
def test_bad_input_is_refused_and_writes_nothing(call, kind, sentence, folder):
    (folder / "a.txt").write_text("some text")
    with pytest.raises(kind) as raised:
        call()
    assert sentence in str(raised.value)
    assert ".nilo-" not in str(raised.value)
    assert [path.name for path in folder.iterdir()] == ["a.txt"] and (folder / "a.txt").read_text() == "some text"


def test_other_threads_run_while_it_counts_and_learns_from_counts(folder):
    (folder / "large.txt").write_text(random_words(300_000))
    for work in (lambda: count("large.txt", "counts"), lambda: BPE().train_from_counts("counts", 8000)):
        assert turns_during(work) >= 5


COUNTING = """
    import sys
    from nilometer.bpe import count
    print("begun", flush=True)
    try:
        print(count("large.txt", "out.counts", threads=1, pattern=r"\\s+(?!\\S)|\\S+|\\s", lines=True, resume=sys.argv[1] == "resume"))
    except KeyboardInterrupt as interrupt:
        print("stopped", interrupt.__cause__)
"""


def interrupted(folder, how):
    """Counts something long, with a slow pattern, and interrupts it."""
    process = start_program(COUNTING, folder, how)
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, "stopped None\n"), err


def test_ctrl_c_leaves_nothing_or_what_was_counted_as_asked_for(folder):
    line = random_words(20_000).replace(" ", "  ") + "\n"
    (folder / "large.txt").write_text(line * 300)
    interrupted(folder, "plain")
    assert not (folder / "out.counts").exists()
    interrupted(folder, "resume")
    with pytest.raises(ValueError, match="counting was interrupted before the end of the corpus"):
        BPE().train_from_counts("out.counts", 400)
    out, err = start_program(COUNTING, folder, "resume").communicate(timeout=200)
    assert out.startswith("begun\n{'documents': 300,"), err
    resumed = (folder / "out.counts").read_bytes()
    out, err = start_program(COUNTING, folder, "plain").communicate(timeout=200)
    assert (folder / "out.counts").read_bytes() == resumed, err
