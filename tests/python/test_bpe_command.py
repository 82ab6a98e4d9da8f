"""`nilo bpe`: the real command, its files read by the real libraries of others."""

import base64
import gzip
import json
import os
import pathlib
import random
import signal
import time

import pytest
import tiktoken
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

END = "<|endoftext|>"
NASTY = [
    "",
    "a",
    "hello  world\r\n\r\n\tindent   ",
    "naïve façade — “quotes” don't we'LL",
    "日本語のテキスト。　全角スペース",
    "عَرَبِيّ ١٢٣",
    "👩‍👩‍👧‍👦 🏳️‍🌈\u00a0nbsp",
    "a" * 5000,
    "x^2 + 3.14159 == 1e-9; // ok\n" * 3,
]


def sources(count):
    """Texts that every Python has: its own library."""
    folder = pathlib.Path(json.__file__).parents[1]
    paths = sorted(folder.glob("*.py"))[:count]
    return [path.read_text(encoding="utf-8") for path in paths]


@pytest.fixture(scope="module")
def texts():
    letters = random.Random(4)
    strange = ["".join(letters.choices("日本語中文字한국어ابجдежз 👍\n", k=3000)) for _ in range(4)]
    return sources(40) + strange + NASTY


@pytest.fixture
def corpus(tmp_path, texts):
    """The texts as one file with a separator."""
    path = tmp_path / "corpus.txt"
    path.write_bytes(END.join(texts).encode())
    return path


def train(nilo, *arguments, vocab_size=900, **options):
    result = nilo("bpe", "train", *arguments, "--vocab-size", vocab_size, **options)
    assert result.returncode == 0, result.stderr
    return result


def merges(folder):
    return (folder / "merges.txt").read_text().splitlines()[1:]


def hugging_face(texts=None, files=None, vocab_size=900, special_tokens=()):
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    if files:
        tokenizer.train([str(path) for path in files], trainer)
    else:
        tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def merges_of(tokenizer):
    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def test_documents_give_the_merges_and_ids_of_hugging_face(nilo, corpus, texts):
    result = train(nilo, corpus, "--special-token", END, "-o", "out")
    theirs = hugging_face(texts, special_tokens=[END])
    assert merges(nilo.folder / "out") == merges_of(theirs)
    assert json.loads((nilo.folder / "out/vocab.json").read_text()) == theirs.get_vocab()
    ours = tokenizers.Tokenizer.from_file(str(nilo.folder / "out/tokenizer.json"))
    for text in texts + [f"one{END}two"]:
        assert ours.encode(text).ids == theirs.encode(text).ids
        assert ours.decode(ours.encode(text).ids, skip_special_tokens=False) == text
    assert "Training BPE: 100%|████████████████| 643/643 [" in result.stderr
    assert "merging will take about" in result.stderr and "Training completed in" in result.stderr
    assert "Peak Memory Usage:" in result.stderr
    shown = nilo.show()
    assert (shown["mode"], shown["status"], shown["exit_code"]) == ("bpe", "exited", 0)


def test_lines_give_the_merges_of_hugging_face_over_files(nilo, corpus):
    train(nilo, corpus, "--lines", "-o", "out")
    assert merges(nilo.folder / "out") == merges_of(hugging_face(files=[corpus]))


def test_special_tokens_that_are_kept_are_text_as_with_hugging_face(nilo, corpus, texts):
    whole = corpus.read_bytes().decode()
    train(nilo, corpus, "--special-token", END, "--keep-special-tokens", "-o", "out")
    assert merges(nilo.folder / "out") == merges_of(hugging_face([whole], special_tokens=[END]))


def test_ranks_load_in_tiktoken_with_equal_ids(nilo, corpus, texts):
    train(nilo, corpus, "--special-token", END, "--pattern", "cl100k", "-o", "out")
    lines = (nilo.folder / "out/ranks.tiktoken").read_text().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(str.split, lines)}
    info = json.loads((nilo.folder / "out/ranks.json").read_text())
    theirs = tiktoken.Encoding("ours", mergeable_ranks=ranks, **info)
    (nilo.folder / "text.txt").write_bytes("\n".join(texts).encode())
    ids = json.loads(nilo("bpe", "encode", "-t", "out/ranks.tiktoken", "--pattern", "cl100k", "text.txt").stdout)
    assert ids == theirs.encode_ordinary("\n".join(texts))


def test_memory_and_threads_change_nothing(nilo, corpus):
    train(nilo, corpus, "-o", "plain", "--threads", 1)
    train(nilo, corpus, "-o", "tight", "--threads", 3, "--memory-budget", "24MiB")
    for name in ["tokenizer.json", "vocab.json", "merges.txt", "ranks.tiktoken"]:
        assert (nilo.folder / "plain" / name).read_bytes() == (nilo.folder / "tight" / name).read_bytes()


def test_shards_that_are_counted_apart_give_the_same(nilo, texts, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    for number, text in enumerate(texts):
        (shards / f"{number:02}.txt").write_bytes(text.encode())
    train(nilo, "shards", "-o", "whole")
    half = len(texts) // 2
    for name, numbers in [("a", range(half)), ("b", range(half, len(texts)))]:
        files = [shards / f"{number:02}.txt" for number in numbers]
        counted = nilo("bpe", "count", *files, "-o", f"{name}.counts")
        assert counted.returncode == 0 and "distinct words" in counted.stderr
    train(nilo, "--from-counts", "a.counts", "b.counts", "-o", "parts")
    assert merges(nilo.folder / "parts") == merges(nilo.folder / "whole")
    nilo("bpe", "count", shards, "--pattern", "o200k", "-o", "c.counts")
    result = nilo("bpe", "train", "--from-counts", "a.counts", "c.counts", "--vocab-size", 900)
    assert result.returncode == 2 and "the pattern differs" in result.stderr


def test_packed_files_json_lines_separators_and_standard_input(nilo, texts, tmp_path):
    texts = [text for text in texts if text]
    (tmp_path / "plain").mkdir()
    for number, text in enumerate(texts):
        (tmp_path / "plain" / f"{number:02}").write_bytes(text.encode())
    train(nilo, "plain", "-o", "want")
    (tmp_path / "x.gz").write_bytes(gzip.compress("\0".join(texts).encode()))
    (tmp_path / "x.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    train(nilo, "x.gz", "--separator", "\\0", "-o", "gzip")
    train(nilo, "*.jsonl", "--jsonl", "text", "-o", "jsonl")
    for name in ["gzip", "jsonl"]:
        assert merges(tmp_path / name) == merges(tmp_path / "want")
    (tmp_path / "one.txt").write_bytes(b"".join(text.encode() for text in texts))
    train(nilo, "one.txt", "-o", "file")
    train(nilo, "-", "-o", "piped", stdin=open(tmp_path / "one.txt"))
    assert merges(tmp_path / "piped") == merges(tmp_path / "file")


def test_ids_in_every_form_come_back_as_the_text(nilo, corpus, texts):
    train(nilo, corpus, "--special-token", END, "-o", "out")
    theirs = tokenizers.Tokenizer.from_file(str(nilo.folder / "out/tokenizer.json"))
    for form in ["json", "u16", "u32"]:
        encoded = nilo("bpe", "encode", "-t", "out", corpus, "--format", form, "-o", "ids")
        assert encoded.returncode == 0, encoded.stderr
        decoded = nilo("bpe", "decode", "-t", "out", "ids", "--format", form, "-o", "back")
        assert decoded.returncode == 0, decoded.stderr
        assert (nilo.folder / "back").read_bytes() == corpus.read_bytes()
    ids = json.loads(nilo("bpe", "encode", "-t", "out", corpus).stdout)
    assert ids == theirs.encode(corpus.read_bytes().decode()).ids
    as_text = json.loads(nilo("bpe", "encode", "-t", "out", corpus, "--no-special-tokens").stdout)
    assert 0 not in as_text and 0 in ids


def test_bytes_that_are_not_utf8_are_trained_on_and_come_back(nilo, tmp_path):
    noise = random.Random(1).randbytes(20_000)
    (tmp_path / "noise").write_bytes(noise * 3)
    result = train(nilo, "noise", "-o", "out", vocab_size=400)
    assert "are not valid UTF-8" in result.stderr
    nilo("bpe", "encode", "-t", "out", "noise", "--format", "u16", "-o", "ids")
    nilo("bpe", "decode", "-t", "out", "ids", "--format", "u16", "-o", "back")
    assert (tmp_path / "back").read_bytes() == noise * 3


def test_the_answer_the_log_and_the_stages(nilo, corpus):
    result = train(nilo, corpus, "-o", "out", "--format", "json", "--memory-log", "m.csv", "--interval", "0.01", "--cpu-profile", "--name", "bpe")
    answer = json.loads(result.stdout)
    assert answer["schema"] == "nilo.bpe-train/1"
    assert (answer["vocabulary_size"], answer["merges"]) == (900, 644)
    assert [stage["stage"] for stage in answer["stages"]] == ["counting", "merging", "writing"]
    assert answer["predicted_peak_bytes"] > 0 and answer["totals"]["text_bytes"] == corpus.stat().st_size
    assert "of CPU (" in result.stderr
    rows = (nilo.folder / "m.csv").read_text().splitlines()
    assert rows[0] == "timestamp_seconds,memory_mb,cpu_percent" and len(rows) > 1
    assert nilo.show("bpe")["name"] == "bpe"
    quiet = train(nilo, corpus, "-o", "out", "--quiet", "--no-record")
    assert (quiet.stdout, quiet.stderr) == ("", "") and len(nilo.runs()) == 1


def test_ctrl_c_keeps_what_was_counted_and_resume_goes_on(nilo, tmp_path, texts):
    # A regular expression that looks ahead is slow enough to be interrupted.
    text = "\n".join(texts).encode()
    (tmp_path / "big.txt").write_bytes((text + b"\0") * (60_000_000 // len(text)))
    arguments = ["big.txt", "--separator", "\\0", "--pattern", r"\s+(?!\S)|\S+|\s", "--threads", "1", "--vocab-size", "600"]
    process = nilo.start("bpe", "train", *arguments, "-o", "out")
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "the counts so far are kept" in said and "--resume" in said
    assert not (tmp_path / "out/tokenizer.json").exists()
    resumed = nilo("bpe", "train", *arguments, "-o", "out", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert not (tmp_path / "out/counting.state").exists()
    assert nilo("bpe", "train", *arguments, "-o", "whole").returncode == 0
    assert (tmp_path / "out/tokenizer.json").read_bytes() == (tmp_path / "whole/tokenizer.json").read_bytes()


def test_under_a_limit_it_makes_do_or_refuses_and_is_never_killed(nilo, cgroup, tmp_path):
    """Three million distinct words: more than a hundred MiB of them."""
    words = random.Random(5)
    with open(tmp_path / "words.txt", "w") as file:
        for _ in range(300):
            file.write(" ".join("".join(words.choices("abcdefghijklmnopqrstuvwxyz", k=8)) for _ in range(10_000)) + "\n")
    cgroup.limit(256 << 20)
    answer = json.loads(train(nilo, "words.txt", "-o", "out", "--format", "json", vocab_size=600, preexec_fn=cgroup.enter).stdout)
    assert answer["peak_bytes"] < 256 << 20
    assert answer["predicted_peak_bytes"] == pytest.approx(answer["peak_bytes"], rel=0.2)
    train(nilo, "words.txt", "-o", "tight", "--memory-budget", "128MiB", vocab_size=600)
    assert merges(tmp_path / "tight") == merges(tmp_path / "out")
    assert nilo.show()["memory"]["peak_bytes"] < 1.1 * (128 << 20)
    cgroup.limit(80 << 20)
    refused = nilo("bpe", "train", "words.txt", "--vocab-size", 600, "-o", "none", preexec_fn=cgroup.enter)
    assert refused.returncode == 2 and "is too small to merge these words: at least" in refused.stderr
    assert cgroup.kills == 0 and list((tmp_path / "none").iterdir()) == []


def test_what_is_no_plain_file_stays_what_it_is(nilo, corpus, tmp_path):
    train(nilo, corpus, "-o", "out")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "kept").write_text("old")
    (tmp_path / "link").symlink_to("kept")
    reader = nilo.start("bpe", "decode", "-t", "out", "pipe", "--format", "u16", "-o", "back")
    assert nilo("bpe", "encode", "-t", "out", corpus, "--format", "u16", "-o", "pipe").returncode == 0
    reader.communicate(timeout=60)
    assert (tmp_path / "back").read_bytes() == corpus.read_bytes() and (tmp_path / "pipe").is_fifo()
    assert nilo("bpe", "encode", "-t", "out", corpus, "-o", "link").returncode == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "kept").read_text().startswith("[")
    counted = nilo("bpe", "count", corpus, "-o", "pipe")
    assert counted.returncode == 2 and "not a file" in counted.stderr and (tmp_path / "pipe").is_fifo()
    assert nilo("bpe", "count", corpus, "-o", "link").returncode == 0 and (tmp_path / "link").is_symlink()


def test_the_peak_is_that_of_the_very_end(nilo, corpus):
    """With an hour between samples only a last reading, after merging and saving, knows of them."""
    answer = json.loads(train(nilo, corpus, "--format", "json", "--interval", "3600", "-o", "out").stdout)
    assert answer["peak_bytes"] == nilo.show()["memory"]["peak_bytes"]
    # Words, merges and files of a vocabulary take more than the program that has just begun.
    assert answer["peak_bytes"] > 8 << 20


def test_one_document_is_counted_in_the_singular(nilo, tmp_path):
    (tmp_path / "a.txt").write_text("one document")
    (tmp_path / "b.txt").write_text("another one")
    assert " in 1 document: c.counts (" in nilo("bpe", "count", "a.txt", "-o", "c.counts").stderr
    assert " in 2 documents: d.counts (" in nilo("bpe", "count", "a.txt", "b.txt", "-o", "d.counts").stderr
