"""The architecture check finds modules of a crate that use each other."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from module_cycles import find_cycle  # noqa: E402


def cycle_of(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return find_cycle(folder)


def test_one_way_is_no_cycle(tmp_path):
    files = {
        "lib.rs": "mod a; mod b; use crate::a::A;",
        "a.rs": "use crate::b::{B, C}; //! crate::a",
        "b/mod.rs": "mod c; use crate::b::c::C; // as crate::a does",
        "b/c.rs": "use super::B; use std::a;",
    }
    assert cycle_of(tmp_path, files) is None


def test_a_cycle_is_found_however_it_is_written(tmp_path):
    for number, use in enumerate(["use crate::a::A;", "use crate::{x::X, a::{A, B}};", "let a = crate::a::new();"]):
        files = {"a.rs": "use crate::b::B;", "b/mod.rs": "mod c;", "b/c.rs": use}
        folder = tmp_path / str(number)
        folder.mkdir()
        assert set(cycle_of(folder, files)) == {"a", "b"}


def test_super_of_a_top_level_module_is_the_crate(tmp_path):
    files = {"a.rs": "use super::b::B;", "b.rs": "use super::a::A;"}
    assert set(cycle_of(tmp_path, files)) == {"a", "b"}
