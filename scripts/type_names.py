"""Finds names that two types share: structs, enums, unions, traits and aliases of our crates."""

import collections
import re

DECLARATION = re.compile(
    r"""^(?:pub(?:\([^)]*\))?[ ]+)?      # any visibility
        (?:unsafe[ ]+)?
        (?:struct|enum|union|trait|type)[ ]+
        (\w+)""",
    re.MULTILINE | re.VERBOSE,
)
TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test\b[^\n]*\]\s*(?:#\[[^\n]*\]\s*)*(?:pub(?:\([^)]*\))? )?mod (\w+);")


def test_modules(path):
    """The names of the modules that a file declares for tests only."""
    return set(TEST_MODULE.findall(path.read_text()))


def is_for_tests(path, source):
    """Whether a file belongs to a module that is compiled for tests only."""
    if path.stem == "tests" or path.stem.endswith("_tests"):
        return True
    for folder in [path, *path.parents]:
        if folder == source:
            return False
        parent = folder.parent
        declared_in = [parent / "mod.rs", parent / "lib.rs", parent / "main.rs", parent.with_suffix(".rs")]
        if any(folder.stem in test_modules(file) for file in declared_in if file.is_file()):
            return True
    return False


def declared(path):
    """The types that a file declares.

    rustfmt begins an item of a file in the first column; what is indented lies in a function, a test module, or is an associated type.
    """
    return DECLARATION.findall(path.read_text())


def find_duplicates(sources):
    """Each name that is declared more than once in these `src` folders, with the files that declare it."""
    places = collections.defaultdict(list)
    for source in sources:
        for path in sorted(source.rglob("*.rs")):
            if not is_for_tests(path, source):
                for name in declared(path):
                    places[name].append(path)
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}
