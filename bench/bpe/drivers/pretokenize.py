"""Cuts the documents of a text into words with Hugging Face's pre-tokenizer: `pretokenize.py TEXT FOLDER`."""

import sys

import usage
from documents import documents
from tokenizers.pre_tokenizers import ByteLevel


def main() -> None:
    text, folder = sys.argv[1:]
    cutter, texts = ByteLevel(add_prefix_space=False), list(documents(text))
    before = usage.mark()
    words = sum(len(cutter.pre_tokenize_str(one)) for one in texts)
    usage.tell(folder, before, usage.mark(), words=words)


if __name__ == "__main__":
    main()
