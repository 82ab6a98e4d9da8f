"""The files of a tokenizer: read by the libraries of others with equal ids, and back by us."""

import pickle
import random
import sys
import warnings

import pytest
from tokenizers import Tokenizer, models

from bpe_libraries import hugging_face, tiktoken_of
from bpe_texts import END, MULTILINGUAL, NASTY, code, english
from nilometer import NilometerWarning
from nilometer.bpe import BPE, BPEWithMonitoring


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
    theirs = tiktoken_of(folder)
    for text in NASTY:
        assert bpe.encode(text) == theirs.encode(text, allowed_special="all"), text
        assert bpe.encode(text, special_tokens=False) == theirs.encode(text, disallowed_special=()), text


@pytest.mark.parametrize("pattern", ["cl100k", "o200k", r"\w+|\W+", "none"])
def test_other_patterns_give_equal_ids_in_both_libraries(pattern, folder):
    bpe = BPE().train_from_iterator([*english(), *MULTILINGUAL], 800, [END], pattern=pattern)
    bpe.save(folder)
    openai = tiktoken_of(folder)
    for text in NASTY:
        ids = bpe.encode(text)
        assert ids == bpe.to_hf().encode(text).ids, text
        assert ids == openai.encode(text, allowed_special="all"), text
        assert ids == BPE.load(folder / "ranks.tiktoken").encode(text), text


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


def test_ranks_that_cannot_be_are_left_out_and_told_of_once(folder):
    bpe = BPE().train_from_iterator(["low lower lowest"], 20, seen_bytes_only=True)
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        paths = bpe.save("saved") + bpe.save("again")
    (only,) = heard
    assert only.category is NilometerWarning and only.filename == __file__
    sentence = "save() did not write ranks.tiktoken: ranks for tiktoken cannot hold this model: byte 0x00 has no token"
    assert str(only.message) == sentence
    assert {path.name for path in paths} == {"tokenizer.json", "vocab.json", "merges.txt"}


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


def test_a_tokenizer_goes_to_other_processes(trained):
    bpe, _ = trained
    again = pickle.loads(pickle.dumps(bpe))
    assert again.merges == bpe.merges and again.encode_batch(NASTY) == bpe.encode_batch(NASTY)
    watched = pickle.loads(pickle.dumps(BPEWithMonitoring(0.5)))
    assert watched.monitor_interval == 0.5 and watched.get_memory_stats() == {}


def test_without_hugging_face_to_hf_says_what_to_install(monkeypatch, trained):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match="pip install tokenizers"):
        trained[0].to_hf()
