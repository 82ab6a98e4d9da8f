"""Trains with one library: `train.py LIBRARY TEXT VOCABULARY_SIZE FOLDER`.

FOLDER gets `usage.json`, what the process had used before and after the training call, and `learned.txt` for comparison,
which is written after that.

Each library is a generator of three steps: it is imported, it trains, and it gives the lines of what it learnt.
"""

import json
import sys

import learned
import usage
from documents import SEPARATOR, documents

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def nilometer(text: str, vocabulary_size: int):
    from nilometer.bpe import BPE

    yield
    bpe = BPE().train(text, vocabulary_size, [SEPARATOR], progress=False)
    yield
    return learned.spelt_merges(bpe.merges)


def gigatoken(text: str, vocabulary_size: int):
    import gigatoken

    yield
    _, merges = gigatoken.train_bpe(
        text, vocabulary_size, [SEPARATOR], tie_breaking="huggingface", separator=SEPARATOR.encode()
    )
    yield
    return learned.merges(merges)


def huggingface(text: str, vocabulary_size: int):
    import tokenizers
    from tokenizers.pre_tokenizers import ByteLevel

    yield
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocabulary_size, special_tokens=[SEPARATOR], initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(documents(text), trainer)
    yield
    return learned.spelt_merges(json.loads(tokenizer.to_str())["model"]["merges"])


def rustbpe(text: str, vocabulary_size: int):
    import rustbpe

    yield
    tokenizer = rustbpe.Tokenizer()
    # It knows no special tokens, so one token fewer is asked of it.
    tokenizer.train_from_iterator(documents(text), vocab_size=vocabulary_size - 1, pattern=GPT2)
    yield
    return learned.tokens({bytes(token): rank for token, rank in tokenizer.get_mergeable_ranks()})


def ffbpe(text: str, vocabulary_size: int):
    import ffbpe

    yield
    counter = ffbpe.PreTokenizer([SEPARATOR]).word_counter()
    counter.add_source(documents(text))
    trainer = ffbpe.BpeTrainer([SEPARATOR], initial_alphabet="byte_level", tie_break="smallest_pair_id")
    trainer.add_word_counter(counter)
    trainer.train(vocabulary_size)
    model = trainer.validate_model()
    yield
    return learned.tokens(model.vocab)


def bpeasy(text: str, vocabulary_size: int):
    import bpeasy

    yield
    # Tokens of any length are allowed, as with the others.
    vocabulary = bpeasy.train_bpe(documents(text), GPT2, 1 << 20, vocabulary_size - 1)
    yield
    return learned.tokens(vocabulary)


def sentencepiece(text: str, vocabulary_size: int):
    import io

    import sentencepiece

    yield
    model = io.BytesIO()
    # Characters instead of bytes: its tokens are others, and it is here for scale.
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=documents(text), model_writer=model, model_type="bpe", vocab_size=vocabulary_size,
        user_defined_symbols=[SEPARATOR], max_sentence_length=1 << 30, input_sentence_size=0, byte_fallback=True,
        character_coverage=0.9995, minloglevel=2,
    )
    yield
    return learned.tokens({})


def main() -> None:
    library, text, vocabulary_size, folder = sys.argv[1:]
    steps = globals()[library](text, int(vocabulary_size))
    next(steps)
    before = usage.mark()
    next(steps)
    after = usage.mark()
    usage.tell(folder, before, after)
    try:
        next(steps)
    except StopIteration as end:
        learned.write(folder, end.value)


if __name__ == "__main__":
    main()
