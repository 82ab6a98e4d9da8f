"""GPU memory in parts: what the driver and PyTorch's allocator say of one moment, from a fake driver and an allocator that only counts."""

import textwrap

import pytest
from conftest import MIB, python
from fake_nvml import PRELUDE, FakeDriver
from test_hooks_torch import TORCH

JOB = PRELUDE + textwrap.dedent(f"""
    import torch
    MIB = {MIB}
    def card(used, uuid="GPU-a"):
        return f"gpu {{uuid}} {{528 * MIB}} {{16 * MIB}} {{used}} 50 Fake G1"
    torch.cuda.init()
    torch.empty(200 * MIB)
""")


@pytest.fixture
def record(nilo, tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    driver = FakeDriver(folder)
    empty = f"{528 * MIB} {16 * MIB} 0 0 Fake G1"
    driver.say(f"gpu GPU-a {empty}", f"gpu GPU-b {empty}")
    packages = tmp_path / "packages/torch"
    packages.mkdir(parents=True)
    (packages / "__init__.py").write_text(TORCH)

    def run(code):
        environment = driver.environment | {"PYTHONPATH": str(packages.parent)}
        result = nilo("run", "--quiet", "--interval", "0.05", "--", *python(JOB + textwrap.dedent(code)), extra_env=environment)
        assert result.returncode == 0, result.stderr
        return nilo.show()

    return run


def test_the_parts_add_up_to_what_the_driver_calls_used(record, nilo):
    shown = record("""
        say(card(300 * MIB), card(0, "GPU-b"), process(250 * MIB)); heard(2)
        time.sleep(2)
    """)
    (account,) = shown["gpu_accounts"]
    assert account.pop("secs") > 0
    assert account == {
        "index": 0,
        "used_bytes": 300 * MIB,
        "torch_allocated_bytes": 200 * MIB,
        "torch_cached_bytes": 2 * MIB,
        "job_rest_bytes": 48 * MIB,
        "others_bytes": 50 * MIB,
    }
    text = nilo("show").stdout
    assert "GPU 0 at the job's peak (after " in text and "), 300.00 MiB used:\n" in text
    assert "   48.00 MiB  rest of the job (CUDA contexts, libraries, NCCL)\n" in text


def test_a_job_on_two_gpus_has_no_account(record, nilo):
    shown = record("""
        say(card(300 * MIB), card(300 * MIB, "GPU-b"), process(250 * MIB), process(250 * MIB, "GPU-b")); heard(2)
        time.sleep(2)
    """)
    assert len(shown["gpus"]) == 2 and shown["torch_memory"] != []
    assert "gpu_accounts" not in shown
    assert "at the job's peak" not in nilo("show").stdout
