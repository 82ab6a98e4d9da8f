"""What `nilo snapshot why` says of expandable segments after a failed allocation, and what the same program does with them."""

import json
import os
import shutil
import subprocess
import sys
import textwrap

import pytest

NILO = os.environ.get("NILO") or shutil.which("nilo") or "nilo"

BEGINNING = """
    import torch
    MIB = 1 << 20
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    torch.cuda.set_per_process_memory_fraction((4 << 30) / torch.cuda.get_device_properties(0).total_memory)
    def take(mib):
        return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
"""
PROGRAMS = {
    "small blocks that each keep a segment": """
        kept = []
        for _ in range(190):
            whole = take(20)
            del whole
            kept.append(take(12))
        take(1000)
    """,
    "every other block is freed": """
        kept = [take(5) for _ in range(760)][::2]
        take(1900)
    """,
    "large segments with halves in them": """
        whole = [take(512) for _ in range(7)]
        del whole
        kept = [take(256) for _ in range(14)][::2]
        take(600)
    """,
    "more than there is": """
        kept = [take(100) for _ in range(30)]
        take(2000)
    """,
}


def ends(folder, setting):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NILO_")} | {"PYTORCH_CUDA_ALLOC_CONF": setting}
    command = [NILO, "run", "-q", "--", sys.executable, "train.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("name", PROGRAMS)
def test_expandable_segments_help_where_why_says_so(tmp_path, name):
    (tmp_path / "train.py").write_text(textwrap.dedent(BEGINNING) + textwrap.dedent(PROGRAMS[name]))
    failed = ends(tmp_path, "expandable_segments:False")
    assert failed.returncode == 1 and "OutOfMemoryError" in failed.stderr, failed.stderr
    (snapshot,) = tmp_path.rglob("snapshot-*.pickle")
    answer = subprocess.run([NILO, "snapshot", "why", snapshot, "--format", "json"], capture_output=True, text=True)
    assert answer.returncode == 1, answer.stderr
    (explained,) = json.loads(answer.stdout)["ooms"]
    with_setting = ends(tmp_path, "expandable_segments:True")
    print(f"{name}: {explained['cause']}, would be served {explained['expandable_segments_would_serve']}, ended {with_setting.returncode}")
    would_serve, serves = explained["expandable_segments_would_serve"], with_setting.returncode == 0
    # A file does not say what the process was allowed: where that decides, it is said so.
    assert would_serve == serves or would_serve is None and explained["depends_on_limit"], with_setting.stderr
