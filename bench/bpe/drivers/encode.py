"""Encodes a text for the first time with one library: `encode.py HOW TOKENIZER TEXT FOLDER`.

TOKENIZER is a folder of `nilo bpe train`. FOLDER gets `usage.json`: what the process had used before and after the one
call, and the checksum of the ids. The library, the vocabulary and the documents were loaded before, and a few words were
encoded: some libraries build their tables and start their threads only then, and that is loading too.

Each way is a generator of three steps: it loads, it encodes, and it gives the ids of each document.
"""

import json
import os
import sys
import tempfile

import ids
import usage
from documents import SEPARATOR, documents

CORES = len(os.sched_getaffinity(0))
FEW_WORDS = ["a few words"] * 16


def nilometer_encode_batch(tokenizer: str, text: str):
    from nilometer.bpe import BPE

    bpe, texts = BPE.load(tokenizer), list(documents(text))
    bpe.encode_batch(FEW_WORDS, special_tokens=False)
    yield
    found = bpe.encode_batch(texts, special_tokens=False)
    yield
    return found


def tiktoken_encode_ordinary_batch(tokenizer: str, text: str):
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    with open(f"{tokenizer}/ranks.json") as file:
        described = json.load(file)
    encoding = tiktoken.Encoding(
        "bench", pat_str=described["pat_str"], mergeable_ranks=load_tiktoken_bpe(f"{tokenizer}/ranks.tiktoken"),
        special_tokens=described["special_tokens"],
    )
    texts = list(documents(text))
    encoding.encode_ordinary_batch(FEW_WORDS, num_threads=CORES)
    yield
    found = encoding.encode_ordinary_batch(texts, num_threads=CORES)
    yield
    return found


def huggingface_encode_batch_fast(tokenizer: str, text: str):
    import tokenizers

    loaded, texts = tokenizers.Tokenizer.from_file(f"{tokenizer}/tokenizer.json"), list(documents(text))
    loaded.encode_batch_fast(FEW_WORDS, add_special_tokens=False)
    yield
    found = loaded.encode_batch_fast(texts, add_special_tokens=False)
    yield
    return (encoding.ids for encoding in found)


def gigatoken_encode_batch(tokenizer: str, text: str):
    import gigatoken

    loaded, texts = gigatoken.Tokenizer(f"{tokenizer}/tokenizer.json"), list(documents(text))
    loaded.encode_batch(FEW_WORDS)
    yield
    found = loaded.encode_batch(texts)
    yield
    return (row.tolist() for row in found)


def gigatoken_encode_batch_list(tokenizer: str, text: str):
    import gigatoken

    loaded, texts = gigatoken.Tokenizer(f"{tokenizer}/tokenizer.json"), list(documents(text))
    loaded.encode_batch_list(FEW_WORDS)
    yield
    found = loaded.encode_batch_list(texts)
    yield
    return found


def gigatoken_encode_files(tokenizer: str, text: str):
    import gigatoken

    loaded = gigatoken.Tokenizer(f"{tokenizer}/tokenizer.json")
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as few_words:
        few_words.write(SEPARATOR.join(FEW_WORDS))
        few_words.flush()
        loaded.encode_files(gigatoken.TextFileSource([few_words.name], separator=SEPARATOR))
    yield
    found = loaded.encode_files(gigatoken.TextFileSource([text], separator=SEPARATOR))
    yield
    return (row.tolist() for row in found)


def fastokens_encode_batch(tokenizer: str, text: str):
    import fastokens

    loaded, texts = fastokens.Tokenizer.from_file(f"{tokenizer}/tokenizer.json"), list(documents(text))
    loaded.encode_batch(FEW_WORDS)
    yield
    found = loaded.encode_batch(texts)
    yield
    return (encoding.ids for encoding in found)


def fastokens_encode_batch_flat(tokenizer: str, text: str):
    import fastokens

    loaded, texts = fastokens.Tokenizer.from_file(f"{tokenizer}/tokenizer.json"), list(documents(text))
    loaded.encode_batch_flat(FEW_WORDS)
    yield
    flat, _ = loaded.encode_batch_flat(texts)
    yield
    return [ids.of_file_bytes(flat)]


def main() -> None:
    how, tokenizer, text, folder = sys.argv[1:]
    steps = globals()[how](tokenizer, text)
    next(steps)
    before = usage.mark()
    next(steps)
    after = usage.mark()
    try:
        next(steps)
    except StopIteration as end:
        count, checksum = ids.summed_up(end.value)
        usage.tell(folder, before, after, ids=count, checksum=checksum)


if __name__ == "__main__":
    main()
