"""The architecture check finds types that share a name."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from type_names import find_duplicates  # noqa: E402


def duplicates_of(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {name: len(paths) for name, paths in find_duplicates(sorted(folder.glob("*/src"))).items()}


def test_every_kind_and_visibility_counts_across_crates(tmp_path):
    files = {
        "a/src/lib.rs": "pub struct Row<'a> {\n}\nenum Unit {\n}\npub(crate) trait Source {\n}\nstruct Once;\n",
        "b/src/rows.rs": "pub(super) type Row = u32;\nunion Unit {\n}\npub unsafe trait Source {\n}\n",
        "b/src/deep/row.rs": "struct Row(f64);\n",
    }
    assert duplicates_of(tmp_path, files) == {"Row": 3, "Unit": 2, "Source": 2}


def test_associated_types_and_comments_do_not_count(tmp_path):
    files = {
        "a/src/lib.rs": "struct Item;\nimpl Iterator for A {\n    type Item = u8;\n}\ntrait T {\n    type Item;\n}\n",
        "a/src/b.rs": "// struct Item;\n/// A struct Item\nfn f(item: Item) {}\n",
    }
    assert duplicates_of(tmp_path, files) == {}


def test_what_is_compiled_for_tests_only_does_not_count(tmp_path):
    files = {
        "a/src/lib.rs": "mod b;\n#[cfg(test)]\nmod fake;\nstruct Row;\n#[cfg(test)]\nmod tests {\n    struct Row;\n}\n",
        "a/src/fake.rs": "struct Row;\n",
        "a/src/row_tests.rs": "struct Row;\n",
        "a/src/b/mod.rs": "#[cfg(test)]\npub(crate) mod fixture;\n",
        "a/src/b/fixture/mod.rs": "struct Row;\n",
        "a/src/b/fixture/deep.rs": "struct Row;\n",
        "a/tests/row.rs": "struct Row;\n",
    }
    assert duplicates_of(tmp_path, files) == {}
