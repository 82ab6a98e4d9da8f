"""Tokenizers of other libraries, set up as ours are, and compared with them."""

import json

import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers


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


def tiktoken_of(folder):
    """The ranks of a saved tokenizer, as tiktoken reads them."""
    info = json.loads((folder / "ranks.json").read_text())
    ranks = load_tiktoken_bpe(str(folder / "ranks.tiktoken"))
    return tiktoken.Encoding("ours", mergeable_ranks=ranks, **info)
