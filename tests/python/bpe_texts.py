"""Texts to train tokenizers on: what every Python has with it, what is hard, and what is long."""

import os
import pathlib
import random
import re

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


def random_words(count):
    chance = random.Random(3)
    return " ".join("".join(chance.choices("abcdefghijklmnop", k=chance.randrange(3, 12))) for _ in range(count))


def book():
    """Two megabytes in lines and paragraphs: enough for fifty thousand merges, frequent words and rare ones, three scripts."""
    chance = random.Random(17)
    scripts = ["abcdefghijklmnopqrstuvwxyz", "абвгдежзийклмнопрст", "東京都日本首語文字大小中人山川"]
    weights = [(100, 3, 12), (30, 3, 10), (20, 1, 4)]
    words = []
    for letters, (hundreds, least, most) in zip(scripts, weights, strict=True):
        words += ["".join(chance.choices(letters, k=chance.randrange(least, most))) for _ in range(hundreds * 500)]
    chance.shuffle(words)
    lines = []
    for number in range(20_000):
        # Some words are everywhere, most are rare; the marks between them differ.
        line = [words[int(chance.random() ** 3 * len(words))] for _ in range(chance.randrange(1, 24))]
        lines.append(chance.choice([" ", " ", ", ", "  "]).join(line) + chance.choice([".", "?", " 1984", "\t"]))
        lines += [""] * (number % 7 == 0)
    return "\n".join(lines)
