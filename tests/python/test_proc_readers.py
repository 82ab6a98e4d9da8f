"""`make check` finds what parses /proc outside of `nilo-source`, in Rust and in Python."""

import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from check_architecture import readers_of_proc  # noqa: E402  (lies in the folder above)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_files_that_name_a_path_in_proc_are_found_in_both_languages(tmp_path):
    write(tmp_path / "crates/nilo-cli/src/memory.rs", 'let text = read("/proc/self/status");\n')
    write(tmp_path / "crates/nilo-recorder/hooks/hook.py", 'open(f"/proc/{pid}/stat")\n')
    write(tmp_path / "python/nilometer/memory/heap.py", 'with open("/proc/self/statm") as file:\n')
    assert list(readers_of_proc(tmp_path)) == ["crates/nilo-cli/src/memory.rs", "crates/nilo-recorder/hooks/hook.py", "python/nilometer/memory/heap.py"]


def test_nilo_source_and_comments_are_not(tmp_path):
    write(tmp_path / "crates/nilo-source/src/host.rs", 'File::open("/proc/meminfo")\n')
    write(tmp_path / "crates/nilo-cli/src/memory.rs", 'read_host(); // from "/proc/meminfo"\n')
    write(tmp_path / "python/nilometer/heap.py", 'rss = _native.current_rss()  # of "/proc/self/statm"\n')
    assert list(readers_of_proc(tmp_path)) == []


def test_ours_has_none():
    assert list(readers_of_proc(ROOT)) == []
