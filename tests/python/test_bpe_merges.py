"""The merges that are learnt: those of Hugging Face, text for text."""

import random

import pytest

from bpe_libraries import assert_equal, hugging_face, trainer
from bpe_texts import CORPORA, END, book, english
from nilometer.bpe import BPE


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


@pytest.mark.parametrize("mode", ["documents", "lines"])
def test_fifty_thousand_tokens_are_those_of_hugging_face(mode, folder):
    text = book()
    (folder / "book.txt").write_text(text, newline="")
    theirs = hugging_face()
    if mode == "lines":
        theirs.train(["book.txt"], trainer(50_000))
    else:
        theirs.train_from_iterator([text], trainer(50_000))
    assert theirs.get_vocab_size() == 50_000
    assert_equal(BPE().train("book.txt", 50_000, lines=mode == "lines"), theirs)


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


def test_ties_go_to_the_greater_bytes_when_asked_for():
    texts = ["ab cd ab cd"]
    assert BPE().train_from_iterator(texts, 257, pattern=r"\w+|\W+").merges == [("a", "b")]
    greater = BPE().train_from_iterator(texts, 257, pattern=r"\w+|\W+", tie_break="gpt2-bytes")
    assert greater.merges == [("c", "d")]
