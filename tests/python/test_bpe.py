"""Tokenizers: equal to those of the libraries in use, watched while trained, stopped when asked."""

import json
import os
import pathlib
import pickle
import pty
import random
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import nilometer
from nilometer.bpe import BPE, BPEWithMonitoring, compare_vocab_sizes, train_bpe_with_monitoring
from package import start_program

STANDARD_LIBRARY = pathlib.Path(os.__file__).parent
END = "<|endoftext|>"
NASTY = [
    "",
    " ",
    "\r\n\r\n  line\r\n\ttab  \r\n",
    "no\u00a0break\u00a0space and\u3000ideographic\u3000\u3000space",
    "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 👍🏽 skin",
    "مَرْحَبًا بِكُمْ فِي العَالَم",
    "a" * 5000,
    "l'été, it's WE'LL they've 1234567 x² ½",
    "漢字かな交じり文。ไทย हिन्दी עִבְרִית",
    "e\u0301 combining, \u200b zero width, \ufeff mark, \x00\x01 control",
    f"before{END}after {END}{END}",
    "   \n \n\n   trailing   ",
]
MULTILINGUAL = [
    "Слава труду и людям. " * 5,
    "東京都は日本の首都です。東京は大きい。" * 5,
    "السلام عليكم ورحمة الله وبركاته " * 5,
    "Grüße aus München, schöne Straße! " * 5,
    "🙂🙃🙂 emoji 👩‍👧 text 🙂" * 5,
    *NASTY,
]


def english():
    text = (STANDARD_LIBRARY / "argparse.py").read_text() + (STANDARD_LIBRARY / "optparse.py").read_text()
    return re.findall(r"[A-Z][^\"#]{20,400}?\.", text)


def code():
    return [(STANDARD_LIBRARY / name).read_text() for name in ("textwrap.py", "heapq.py", "bisect.py")]


CORPORA = {"english": english, "code": code, "multilingual": lambda: MULTILINGUAL}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hugging_face():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def trainer(vocab_size, special_tokens=(), **options):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special_tokens),
        initial_alphabet=alphabet,
        show_progress=False,
        **options,
    )


def merges_of(tokenizer):
    return [tuple(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]


def assert_equal(bpe, theirs):
    assert bpe.merges == merges_of(theirs)
    assert bpe.vocab == theirs.get_vocab()


# Equal to Hugging Face


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("vocab_size", [300, 700, 2000])
def test_documents_give_the_merges_of_train_from_iterator(name, vocab_size):
    texts = CORPORA[name]()
    theirs = hugging_face()
    theirs.train_from_iterator(texts, trainer(vocab_size))
    assert_equal(BPE().train_from_iterator(texts, vocab_size), theirs)


@pytest.mark.parametrize("name", CORPORA)
def test_lines_give_the_merges_of_train_on_files(name, folder):
    (folder / "a.txt").write_bytes("\n\n".join(CORPORA[name]()).encode())
    theirs = hugging_face()
    theirs.train(["a.txt"], trainer(1000))
    assert_equal(BPE().train("a.txt", 1000, lines=True), theirs)


def test_special_tokens_kept_are_trained_on_as_hugging_face_does():
    texts = [f"{text}{END}{text}{END}" for text in english()]
    theirs = hugging_face()
    theirs.train_from_iterator(texts, trainer(800, ["<|pad|>", END]))
    bpe = BPE().train_from_iterator(texts, 800, ["<|pad|>", END], keep_special_tokens=True)
    assert_equal(bpe, theirs)
    assert ("end", "of") in bpe.merges or any("|>" in left + right for left, right in bpe.merges)


def test_special_tokens_are_cut_out_otherwise():
    texts = english()
    marked = [END.join([text, text]) for text in texts]
    theirs = hugging_face()
    theirs.train_from_iterator([part for text in texts for part in (text, text)], trainer(800, [END]))
    assert_equal(BPE().train_from_iterator(marked, 800, [END]), theirs)


def test_least_frequency_and_longest_token_are_those_of_hugging_face():
    texts = english()
    for options in ({"min_frequency": 40}, {"max_token_length": 4}):
        theirs = hugging_face()
        theirs.train_from_iterator(texts, trainer(2000, **options))
        assert_equal(BPE().train_from_iterator(texts, 2000, **options), theirs)


def test_tiny_alphabets_with_many_ties_are_merged_alike():
    chance = random.Random(5)
    for _ in range(60):
        texts = ["".join(chance.choices("ab \n", k=chance.randrange(60))) for _ in range(chance.randrange(1, 6))]
        if not "".join(texts):
            continue
        theirs = hugging_face()
        theirs.train_from_iterator(texts, trainer(280))
        assert_equal(BPE().train_from_iterator(texts, 280), theirs)


# The files, read by the libraries


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    bpe = BPE().train_from_iterator([*english(), *code(), *MULTILINGUAL], 1500, [END])
    paths = bpe.save(folder)
    names = {path.name for path in paths}
    assert names == {"tokenizer.json", "vocab.json", "merges.txt", "ranks.tiktoken", "ranks.json"}
    return bpe, folder


def test_tokenizer_json_gives_equal_ids_in_hugging_face(trained):
    bpe, folder = trained
    theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in NASTY:
        assert bpe.encode(text) == theirs.encode(text).ids, text
    assert [theirs.encode(text).ids for text in NASTY] == [bpe.to_hf().encode(text).ids for text in NASTY]


def test_vocab_and_merges_give_equal_ids_in_hugging_face(trained):
    bpe, folder = trained
    theirs = hugging_face()
    theirs.model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    for text in NASTY:
        assert bpe.encode(text, special_tokens=False) == theirs.encode(text).ids, text


def test_ranks_give_equal_ids_in_tiktoken(trained):
    bpe, folder = trained
    info = json.loads((folder / "ranks.json").read_text())
    ranks = load_tiktoken_bpe(str(folder / "ranks.tiktoken"))
    theirs = tiktoken.Encoding("ours", mergeable_ranks=ranks, **info)
    for text in NASTY:
        assert bpe.encode(text) == theirs.encode(text, allowed_special="all"), text
        assert bpe.encode(text, special_tokens=False) == theirs.encode(text, disallowed_special=()), text


@pytest.mark.parametrize("pattern", ["cl100k", "o200k", r"\w+|\W+", "none"])
def test_other_patterns_give_equal_ids_in_both_libraries(pattern, folder):
    bpe = BPE().train_from_iterator([*english(), *MULTILINGUAL], 800, [END], pattern=pattern)
    bpe.save(folder)
    info = json.loads((folder / "ranks.json").read_text())
    ranks = load_tiktoken_bpe(str(folder / "ranks.tiktoken"))
    openai = tiktoken.Encoding("ours", mergeable_ranks=ranks, **info)
    for text in NASTY:
        ids = bpe.encode(text)
        assert ids == bpe.to_hf().encode(text).ids, text
        assert ids == openai.encode(text, allowed_special="all"), text
        assert ids == BPE.load(folder / "ranks.tiktoken").encode(text), text


def test_ties_go_to_the_greater_bytes_when_asked_for():
    texts = ["ab cd ab cd"]
    assert BPE().train_from_iterator(texts, 257, pattern=r"\w+|\W+").merges == [("a", "b")]
    greater = BPE().train_from_iterator(texts, 257, pattern=r"\w+|\W+", tie_break="gpt2-bytes")
    assert greater.merges == [("c", "d")]


def test_every_form_is_loaded_back(trained, folder):
    bpe, saved = trained
    ids = [bpe.encode(text) for text in NASTY]
    for path in (saved, saved / "tokenizer.json", saved / "ranks.tiktoken"):
        again = BPE.load(path)
        assert again.encode_batch(NASTY) == ids, path
        assert again.special_tokens == {END: 0}
    for name in ("vocab.json", "merges.txt"):
        (folder / name).write_bytes((saved / name).read_bytes())
    assert BPE.load(folder, special_tokens=[END]).encode_batch(NASTY) == ids


def test_texts_come_back(trained):
    bpe, _ = trained
    for text in NASTY:
        assert bpe.decode(bpe.encode(text)) == text
    chance = random.Random(1)
    for _ in range(50):
        raw = chance.randbytes(chance.randrange(300))
        assert bpe.decode_bytes(bpe.encode(raw)) == raw
    assert bpe.decode(bpe.encode("é".encode()[:1])) == "\ufffd"


def test_batches_and_long_texts_are_encoded_as_texts_alone(trained):
    bpe, _ = trained
    texts = [*NASTY, *english()]
    assert bpe.encode_batch(texts) == [bpe.encode(text) for text in texts]
    assert bpe.encode_batch([]) == []
    long = "".join(english()) * 40
    assert len(long) > 1 << 20
    assert bpe.encode(long, threads=2) == bpe.to_hf().encode(long).ids


# Training


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


def test_separators_and_json_lines_part_documents(folder):
    texts = [text for text in english() if "\n" not in text]
    (folder / "parted.txt").write_text("\n---\n".join(texts))
    (folder / "lines.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    wanted = BPE().train_from_iterator(texts, 600).merges
    assert BPE().train("parted.txt", 600, separator="\n---\n").merges == wanted
    assert BPE().train("lines.jsonl", 600, jsonl="body").merges == wanted


def test_other_threads_run_while_it_trains(folder):
    (folder / "large.txt").write_text(random_words(300_000))
    turns = 0
    done = threading.Event()

    def turn():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    thread = threading.Thread(target=turn)
    thread.start()
    before = turns
    BPE().train("large.txt", 8000)
    during = turns - before
    done.set()
    thread.join()
    # With the GIL held throughout it would be one or none.
    assert during >= 5


def random_words(count):
    chance = random.Random(3)
    return " ".join("".join(chance.choices("abcdefghijklmnop", k=chance.randrange(3, 12))) for _ in range(count))


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
            if not heard:
                print(stage, flush=True)
            heard.append(done)

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


def test_a_tokenizer_goes_to_other_processes(trained):
    bpe, _ = trained
    again = pickle.loads(pickle.dumps(bpe))
    assert again.merges == bpe.merges and again.encode_batch(NASTY) == bpe.encode_batch(NASTY)
    watched = pickle.loads(pickle.dumps(BPEWithMonitoring(0.5)))
    assert watched.monitor_interval == 0.5 and watched.get_memory_stats() == {}


def test_an_exception_of_the_progress_function_stops_the_work(folder):
    from nilometer._native import BpeCounts
    from nilometer.bpe.options import Options

    (folder / "a.txt").write_text("some text " * 1000)

    def progress(stage, done, total):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        BpeCounts.from_files(["a.txt"], Options(), progress)


# The examples of the document on memory monitoring


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


# Bad input


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"vocab_size": 100}, ValueError, "a vocabulary of 100 tokens has no room for 0 special tokens and 256 bytes"),
        ({"special_tokens": [""]}, ValueError, "special token number 1 is empty"),
        ({"special_tokens": ["<a>", "<a>"]}, ValueError, "special token given twice: <a>"),
        ({"special_tokens": "<a>"}, TypeError, "special_tokens must be a list of texts"),
        ({"input_path": "missing.txt"}, FileNotFoundError, "no file, folder or match of a pattern: missing.txt"),
        ({"input_path": "empty.txt"}, ValueError, "the texts are empty\nhint: there is nothing to learn from"),
        ({"pattern": "(a"}, ValueError, "the pattern is not a regular expression"),
        ({"pattern": "a*"}, ValueError, "the pattern matches the empty string"),
        ({"tie_break": "mine"}, ValueError, "tie_break is 'hf' or 'gpt2-bytes', not \"mine\""),
        ({"memory_budget": "much"}, ValueError, "much"),
        ({"threads": 0}, ValueError, "threads must be at least 1, not 0"),
        ({"lines": True, "jsonl": "text"}, ValueError, "lines, separator and jsonl exclude each other"),
        ({"vocab_size": "many"}, TypeError, "vocab_size must be a whole number, not str"),
        ({"unknown": 1}, TypeError, "unknown"),
    ],
)
def test_bad_input_is_refused_with_a_sentence(arguments, kind, sentence, folder):
    (folder / "a.txt").write_text("some text")
    (folder / "empty.txt").write_text("")
    with pytest.raises(kind) as raised:
        BPE().train(**({"input_path": "a.txt", "vocab_size": 300} | arguments))
    assert sentence in str(raised.value)


def test_texts_that_are_none_are_refused():
    with pytest.raises(TypeError, match="a text is a str or bytes, not int"):
        BPE().train_from_iterator([1], 300)
    with pytest.raises(TypeError, match="put it into a list"):
        BPE().train_from_iterator("text", 300)
    with pytest.raises(ValueError, match="the texts are empty"):
        BPE().train_from_iterator([], 300)
    with pytest.raises(ZeroDivisionError):
        BPE().train_from_iterator((1 / 0 for _ in range(1)), 300)


def test_an_untrained_or_unreadable_tokenizer_says_so(folder, trained):
    with pytest.raises(ValueError, match="not trained"):
        BPE().encode("a")
    for path in ("nowhere", "nowhere.json"):
        with pytest.raises(FileNotFoundError, match="no tokenizer is there: nowhere"):
            BPE.load(path)
    (folder / "bare.tiktoken").write_text("YQ== 0\n")
    with pytest.raises(ValueError, match="hint: say it, such as pattern='cl100k'"):
        BPE.load("bare.tiktoken")
    (folder / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json is not well formed"):
        BPE.load("bad.json")
    with pytest.raises(ValueError, match="id 99999 at position 0 has no token"):
        trained[0].decode([99999])
    with pytest.raises(ValueError, match="whole numbers"):
        trained[0].decode([-1])


def test_without_hugging_face_to_hf_says_what_to_install(monkeypatch, trained):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match="pip install tokenizers"):
        trained[0].to_hf()
