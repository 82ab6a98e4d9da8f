"""`nilo bpe` when something is wrong: one sentence, a way out, and nothing half done."""

import gzip
import json
import os
import pathlib
import pty
import signal
import subprocess

import pytest

from bpe_texts import english
from conftest import wait_until


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text(" ".join(english()))
    return path


def train(nilo, *arguments, vocab_size=900):
    result = nilo("bpe", "train", *arguments, "--vocab-size", vocab_size)
    assert result.returncode == 0, result.stderr
    return result


def bad(*arguments):
    return list(map(str, arguments))


def test_a_word_that_outgrows_the_budget_is_refused_at_once(nilo, tmp_path):
    (tmp_path / "word.txt").write_bytes(b"a" * (40 << 20))
    result = nilo("bpe", "train", "word.txt", "--vocab-size", 900, "--memory-budget", "100MiB")
    assert result.returncode == 2
    assert "too long for the memory budget: word.txt" in result.stderr and "hint: raise the memory budget" in result.stderr
    lines = nilo("bpe", "train", "word.txt", "--lines", "--vocab-size", 900, "--memory-budget", "100MiB")
    assert lines.returncode == 2, "a line is counted whole too"


def test_ranks_beside_their_info_need_no_pattern_and_know_the_special_tokens(nilo, corpus, tmp_path):
    train(nilo, corpus, "--special-token", "<|end|>", "--pattern", "[a-z]+", "-o", "made")
    (tmp_path / "text.txt").write_text("some words<|end|>1, 2!")
    by_json = nilo("bpe", "encode", "text.txt", "-t", "made/tokenizer.json", "--format", "json")
    by_ranks = nilo("bpe", "encode", "text.txt", "-t", "made/ranks.tiktoken", "--format", "json")
    assert by_ranks.returncode == 0, by_ranks.stderr
    assert by_ranks.stdout == by_json.stdout
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    ranks = load_tiktoken_bpe(str(tmp_path / "made/ranks.tiktoken"))
    info = json.loads((tmp_path / "made/ranks.json").read_text())
    encoding = tiktoken.Encoding("made", mergeable_ranks=ranks, **info)
    assert encoding.encode("some words<|end|>1, 2!", allowed_special="all") == json.loads(by_json.stdout)


def test_json_lines_may_begin_with_a_byte_order_mark_and_errors_name_the_place_in_the_line(nilo, tmp_path):
    (tmp_path / "marked.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "some words"}\n{"text": "more words"}\n')
    train(nilo, "marked.jsonl", "--jsonl", "text", vocab_size=260)
    (tmp_path / "broken.jsonl").write_text('{"text": "some words"}\n{"text": 1}\n')
    result = nilo("bpe", "train", "broken.jsonl", "--jsonl", "text", "--vocab-size", 260)
    assert result.returncode == 2
    assert "the line at byte 23" in result.stderr and "line 1" not in result.stderr


def test_an_interrupted_counting_that_is_not_resumed_is_told_of(nilo, corpus, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made/counting.state").write_text("left")
    result = train(nilo, corpus, "-o", "made")
    assert "use --resume to continue from them" in result.stderr
    assert not (tmp_path / "made/counting.state").exists()


def test_counts_without_a_special_token_are_told_of(nilo, corpus):
    assert nilo("bpe", "count", corpus, "-o", "plain.counts").returncode == 0
    result = train(nilo, "--from-counts", "plain.counts", "--special-token", "the", "-o", "x")
    assert "\"the\" was not a special token when the texts were counted" in result.stderr
    kept = train(nilo, "--from-counts", "plain.counts", "--special-token", "the", "--keep-special-tokens", "-o", "y")
    assert "was not cut out" not in kept.stderr


FEW = bad("some.txt", "--vocab-size", 900)


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (bad("train", "nothing.txt", "--vocab-size", 900), "nothing.txt"),
        (bad("train", "--vocab-size", 900), "no input files given"),
        (bad("train", "empty.txt", "--vocab-size", 900), "empty"),
        (bad("train", "some.txt", "--vocab-size", 200), "a vocabulary of 200 tokens is too small"),
        (bad("train", "some.txt", "--vocab-size", 900, "--special-token", ""), "a special token is empty"),
        (bad("train", "some.txt", "--vocab-size", 900, "--special-token", "x", "--special-token", "x"), "given twice"),
        (bad("train", "some.txt", "--vocab-size", 900, "--pattern", "(["), "not a regular expression"),
        (bad("train", "some.txt", "--vocab-size", 900, "--pattern", "a*"), "a*"),
        (bad("train", "some.txt", "--vocab-size", 900, "-o", "some.txt/out"), "cannot write into"),
        (bad("train", "some.txt", "--vocab-size", 900, "--memory-budget", "1MiB"), "16 MiB"),
        (bad("train", "some.txt", "--vocab-size", 900, "--resume"), "nothing to resume in"),
        (bad("train", "--from-counts", "some.txt", "--vocab-size", 900), "could not read counts"),
        (bad("train", "some.txt", "--vocab-size", 900, "--jsonl", "text"), "some.txt"),
        (bad("encode", "-t", "nowhere", "some.txt"), "nowhere"),
        (bad("encode", "-t", "some.txt", "some.txt"), "--pattern"),
        (bad("decode", "-t", "nowhere", "some.txt"), "nowhere"),
    ],
)
def test_bad_input_gets_one_sentence_and_writes_nothing(nilo, arguments, sentence):
    (nilo.folder / "some.txt").write_text("some text to learn from " * 20)
    (nilo.folder / "empty.txt").write_text("")
    result = nilo("bpe", *arguments)
    assert result.returncode == 2, result.stderr
    assert "error:" in result.stderr and sentence in result.stderr
    assert result.stdout == "" and "panicked" not in result.stderr and "Peak Memory" not in result.stderr
    assert not (nilo.folder / "tokenizer/tokenizer.json").exists()


def test_ids_that_are_none_are_refused_with_their_place(nilo, corpus):
    train(nilo, corpus, "-o", "out")
    (nilo.folder / "ids").write_text("[1, 2, 99999]")
    result = nilo("bpe", "decode", "-t", "out", "ids", "-o", "back")
    assert result.returncode == 2 and "id 99999 at position 2" in result.stderr
    assert not (nilo.folder / "back").exists()


def test_an_unreadable_file_in_the_middle_leaves_no_result(nilo, tmp_path):
    shards = tmp_path / "shards"
    shards.mkdir()
    (shards / "a.txt").write_text("text " * 100)
    (shards / "b.gz").write_bytes(gzip.compress(b"text " * 100)[:-10])
    (shards / "c.txt").write_text("text " * 100)
    result = nilo("bpe", "train", "shards", "--vocab-size", 900, "-o", "out")
    assert result.returncode == 2 and "b.gz" in result.stderr and "hint:" in result.stderr
    assert list((tmp_path / "out").iterdir()) == []


def test_what_is_read_is_never_written_over(nilo, corpus):
    train(nilo, corpus, "-o", "out")
    before = corpus.read_bytes()
    for verb in ["encode", "decode"]:
        result = nilo("bpe", verb, "-t", "out", corpus, "-o", corpus)
        assert result.returncode == 2 and "both the input and the output" in result.stderr
        (nilo.folder / "same").unlink(missing_ok=True)
        (nilo.folder / "same").hardlink_to(corpus)
        assert nilo("bpe", verb, "-t", "out", corpus, "-o", "same").returncode == 2
    assert nilo("bpe", "count", corpus, "-o", corpus).returncode == 2
    log = nilo("bpe", "train", corpus, "--vocab-size", 300, "-o", "out", "--memory-log", corpus)
    assert log.returncode == 2 and "name another file with --memory-log" in log.stderr
    assert corpus.read_bytes() == before
    tokenizer = nilo.folder / "out" / "tokenizer.json"
    before = tokenizer.read_bytes()
    for arguments in (
        ["encode", "-t", "out", corpus, "-o", tokenizer],
        ["train", tokenizer, "--vocab-size", 300, "-o", "out"],
    ):
        result = nilo("bpe", *arguments)
        assert result.returncode == 2 and "both the input and the output" in result.stderr
    assert tokenizer.read_bytes() == before


def test_a_full_device_is_named(nilo, corpus):
    train(nilo, corpus, "-o", "out")
    result = nilo("bpe", "encode", "-t", "out", corpus, "-o", "/dev/full")
    assert result.returncode == 2 and "cannot write /dev/full: No space left" in result.stderr


def test_misleading_input_is_refused(nilo, corpus):
    train(nilo, corpus, "-o", "out")
    (nilo.folder / "x.gz").write_bytes(gzip.compress(b"text"))
    (nilo.folder / "cut.json").write_text("[1, 2,")
    for arguments, sentence in [
        (["encode", "-t", "out", "x.gz"], "x.gz is compressed"),
        (["decode", "-t", "out", "cut.json"], "the array of ids is not closed"),
        (["train", corpus, "--vocab-size", 900, "--pattern", "gpt4"], "no pattern is called \"gpt4\""),
    ]:
        result = nilo("bpe", *arguments)
        assert result.returncode == 2 and sentence in result.stderr, result.stderr


@pytest.mark.parametrize(
    "arguments, hint",
    [
        (bad("train", *FEW, "--special-token", ""), "give it a text, such as '<|endoftext|>'"),
        (bad("train", *FEW, "--special-token", "x", "--special-token", "x"), "name it once: a token has one id"),
        (bad("count", "some.txt", "-o", "c", "--special-token", "x", "--special-token", "x"), "name it once"),
        (bad("train", *FEW, "--separator", ""), "give it a text"),
        (bad("train", "-", "-", "--vocab-size", 900), "name it once, or put the text into a file"),
        (bad("train", *FEW, "--temp-dir", "nowhere"), "name another folder"),
        (bad("count", "some.txt", "-o", "c", "--temp-dir", "nowhere"), "name another folder"),
        (bad("count", "some.txt", "-o", "nowhere/c"), "check that its folder exists and that you can write to it"),
        (bad("encode", "-t", "tokenizer", "nope.txt"), "check the spelling of the path"),
        (bad("decode", "-t", "tokenizer", "nope.txt"), "check the spelling of the path"),
        (bad("encode", "-t", "tokenizer", "."), "name one file, or pipe several"),
        (bad("encode", "-t", "tokenizer", "some.txt", "-o", "nowhere/ids"), "check that its folder exists"),
        (bad("encode", "-t", "tokenizer", "some.txt", "-o", "tokenizer"), "check that its folder exists"),
    ],
)
def test_an_error_has_a_way_out_and_speaks_of_no_passing_names(nilo, arguments, hint):
    (nilo.folder / "some.txt").write_text("some text to learn from " * 20)
    train(nilo, "some.txt", "--no-record", "-q", vocab_size=260)
    before = sorted(path for path in nilo.folder.rglob("*"))
    result = nilo("bpe", *arguments)
    assert result.returncode == 2, result.stderr
    error, way_out = result.stderr.splitlines()
    assert error.startswith("error: ") and way_out.startswith("hint: ") and hint in way_out
    assert ".nilo-" not in error and ".tmp" not in error
    # Neither a run nor a folder for a result that will not come.
    assert sorted(path for path in nilo.folder.rglob("*")) == before


def test_a_file_that_is_named_twice_is_told_of_and_counts_twice(nilo, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts/a.txt").write_text("one two three " * 10)
    (tmp_path / "texts/b.txt").write_text("one two three " * 10)
    sentence = "a.txt is given more than once and is counted each time"
    assert sentence in train(nilo, "texts", "texts/a.txt", vocab_size=260).stderr
    counted = nilo("bpe", "count", "texts/a.txt", "texts/../texts/a.txt", "-o", "twice.counts")
    assert counted.returncode == 0 and sentence in counted.stderr and "in 2 documents" in counted.stderr
    again = train(nilo, "--from-counts", "twice.counts", "twice.counts", vocab_size=260)
    assert "twice.counts is given more than once" in again.stderr
    assert "given more than once" not in train(nilo, "texts", vocab_size=260).stderr
    assert train(nilo, "texts", "texts", "--quiet", vocab_size=260).stderr == ""


@pytest.mark.parametrize("verb", ["encode", "decode"])
def test_ctrl_c_leaves_no_half_result_and_says_so(nilo, corpus, verb):
    train(nilo, corpus, "--no-record", "-o", "out")
    piece = corpus.read_text() if verb == "encode" else "1 2 3 " * 20_000
    for output, said in [
        (["-o", "result"], "error: interrupted; nothing was written\n"),
        ([], "error: interrupted; the output is incomplete\n"),
    ]:
        # A pipe that stays open: the command is in the middle of its input, however quick it is.
        process = nilo.start("bpe", verb, "-t", "out", *output, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        process.stdin.write(piece * 40)
        process.stdin.flush()
        wait_until(lambda: waits_in_a_read(process.pid), "the command to have read everything")
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        assert (process.returncode, process.stderr.read()) == (130, said)
        process.stdin.close()
    names = {path.name for path in nilo.folder.iterdir()}
    assert names == {"corpus.txt", "out"}


def waits_in_a_read(pid):
    """Whether a process waits for standard input."""
    read = {"x86_64": "0", "aarch64": "63"}[os.uname().machine]
    return pathlib.Path(f"/proc/{pid}/syscall").read_text().split()[:2] == [read, "0x0"]


def test_ctrl_c_at_an_empty_terminal_ends_it(nilo, corpus):
    train(nilo, corpus, "--no-record", "-o", "out")
    terminal, its_end = pty.openpty()
    process = nilo.start("bpe", "encode", "-t", "out", stdin=its_end)
    wait_until(lambda: waits_in_a_read(process.pid), "the command to wait for the terminal")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.startswith("error: interrupted;")
    os.close(its_end)
    os.close(terminal)
