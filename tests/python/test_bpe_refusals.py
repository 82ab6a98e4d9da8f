"""Bad input of the tokenizer: an exception of the right kind, with a sentence and a way out."""

import pytest

from nilometer.bpe import BPE


@pytest.mark.parametrize(
    ("arguments", "kind", "sentence"),
    [
        ({"vocab_size": 100}, ValueError, "a vocabulary of 100 tokens is too small: 256 bytes and 0 special tokens need at least 256"),
        ({"special_tokens": [""]}, ValueError, "special token number 1 is empty"),
        ({"special_tokens": ["<a>", "<a>"]}, ValueError, "special token given twice: <a>"),
        ({"special_tokens": "<a>"}, TypeError, "special_tokens must be a list of str"),
        ({"input_path": "missing.txt"}, FileNotFoundError, "no such file or folder, and no file matches this pattern: missing.txt"),
        ({"input_path": "empty.txt"}, ValueError, "the input is empty\nhint: pass files that contain text"),
        ({"pattern": "(a"}, ValueError, "the pattern is not a regular expression"),
        ({"pattern": "a*"}, ValueError, "the pattern matches the empty string"),
        ({"tie_break": "mine"}, ValueError, "tie_break is 'hf' or 'gpt2-bytes', not \"mine\""),
        ({"memory_budget": "much"}, ValueError, "much"),
        ({"threads": 0}, ValueError, "threads must be at least 1, not 0"),
        ({"temp_dir": "nowhere"}, FileNotFoundError, "could not store counted words in nowhere"),
        ({"lines": True, "jsonl": "text"}, ValueError, "lines, separator and jsonl are mutually exclusive"),
        ({"vocab_size": "many"}, TypeError, "vocab_size must be int, not str"),
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
    with pytest.raises(ValueError, match="the input is empty"):
        BPE().train_from_iterator([], 300)
    with pytest.raises(ZeroDivisionError):
        BPE().train_from_iterator((1 / 0 for _ in range(1)), 300)


def test_an_untrained_or_unreadable_tokenizer_says_so(folder):
    with pytest.raises(ValueError, match="not trained"):
        BPE().encode("a")
    for path in ("nowhere", "nowhere.json"):
        with pytest.raises(FileNotFoundError, match="no tokenizer found: nowhere"):
            BPE.load(path)
    (folder / "bare.tiktoken").write_text("YQ== 0\n")
    with pytest.raises(ValueError, match="hint: pass the pattern, such as pattern='cl100k'"):
        BPE.load("bare.tiktoken")
    (folder / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json is not well formed"):
        BPE.load("bad.json")
    with pytest.raises(ValueError, match="id 99999 at position 0 is not in the vocabulary"):
        BPE().train_from_iterator(["a text"], 260).decode([99999])
    with pytest.raises(ValueError, match="must be integers"):
        BPE().train_from_iterator(["a text"], 260).decode([-1])
