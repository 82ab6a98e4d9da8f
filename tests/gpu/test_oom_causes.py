"""Real GPU allocations that fail, each for another reason, in programs that know nothing of Nilometer: the cause is named."""

import subprocess
import sys
import textwrap

import pytest
from test_hooks import answer, record, text  # noqa: F401 - `record` is a fixture

LAYERS = """
    import torch
    def layers(width=4096, count=8):
        return torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(count)]).cuda()
    def allow(gib):
        torch.cuda.set_per_process_memory_fraction(gib * 2**30 / torch.cuda.get_device_properties(0).total_memory)
"""

PROGRAMS = {
    "too-large-request": """
        torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
    """,
    "first-step": """
        model, rows = layers(8192), 1 << 19
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(3):
            model(torch.randn(rows, 8192, device="cuda")).square().mean().backward()
            optimizer.step()
    """,
    "optimizer-state": """
        model = layers(16384, 9)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        model(torch.randn(8, 16384, device="cuda")).sum().backward()
        filler = torch.empty(torch.cuda.mem_get_info()[0] - (4 << 30), dtype=torch.uint8, device="cuda")
        optimizer.step()
    """,
    "leak": """
        allow(6)
        model, kept = layers(2048), []
        optimizer = torch.optim.AdamW(model.parameters())
        def train():
            for step in range(100_000):
                out = model(torch.randn(512, 2048, device="cuda"))
                out.square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
                kept.append(out.detach())
        train()
    """,
    "fragmentation": """
        allow(6.5)
        whole = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(6)]
        del whole
        halves = [torch.empty(1 << 29, dtype=torch.uint8, device="cuda") for _ in range(12)]
        halves = halves[::2]
        torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    """,
    "graphs-in-evaluation": """
        allow(12)
        model, outputs = layers(), []
        def evaluate():
            model.eval()
            for batch in range(10_000):
                outputs.append(model(torch.randn(4096, 4096, device="cuda")))
        evaluate()
    """,
    "graphs-kept": """
        allow(12)
        model = layers()
        optimizer = torch.optim.AdamW(model.parameters())
        def train():
            for step in range(10):
                total = 0.0
                for micro_batch in range(10_000):
                    total = total + model(torch.randn(4096, 4096, device="cuda")).square().mean()
                total.backward()
                optimizer.step()
        train()
    """,
    "kv-cache": """
        allow(12)
        model = layers(4096, 2).eval()
        @torch.no_grad()
        def generate(tokens):
            keys = [torch.zeros(64, 0, 4096, device="cuda") for _ in range(8)]
            for _ in range(tokens):
                for layer in range(8):
                    keys[layer] = torch.cat([keys[layer], model(torch.randn(64, 1, 4096, device="cuda"))], dim=1)
        generate(100_000)
    """,
    "allowed-fraction": """
        allow(8)
        model = layers()
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(3):
            model(torch.randn(65536, 4096, device="cuda")).square().mean().backward()
            optimizer.step()
    """,
    "spike": """
        import time
        model = layers(8192)
        optimizer = torch.optim.AdamW(model.parameters())
        def train(rows):
            model(torch.randn(rows, 8192, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        until = time.monotonic() + 8
        while time.monotonic() < until:
            train(1024)
        train(1 << 19)
    """,
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_cause_is_named(record, tmp_path, kind):  # noqa: F811
    shown = record(textwrap.dedent(LAYERS) + textwrap.dedent(PROGRAMS[kind]))
    assert shown["status"] == "gpu-out-of-memory", shown
    cause = shown["oom"].get("gpu_cause")
    print(kind, "->", cause, shown["oom"]["gpu"].get("holders"))
    assert cause is not None and cause["kind"] == kind, (cause, shown["oom"]["gpu"])
    told = " ".join(text(tmp_path, "show").split())
    # `show` knows the batch and may say how much smaller it has to be.
    assert cause["text"] in told and cause["advice"][0][1:].split(" a smaller")[0] in told
    assert cause["text"] in " ".join(text(tmp_path, "oom").split())


HOLD = "import torch\nheld = torch.empty(int({share} * torch.cuda.mem_get_info()[0]), dtype=torch.uint8, device='cuda')\nprint('ready', flush=True)\ninput()"


def test_another_process_is_named(record, tmp_path):  # noqa: F811
    other = subprocess.Popen([sys.executable, "-c", HOLD.format(share=0.7)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout.readline() == "ready\n"
        shown = record(textwrap.dedent(LAYERS) + "model = layers(8192)\nmodel(torch.randn(1 << 19, 8192, device='cuda')).sum().backward()\n")
    finally:
        other.communicate("\n")
    cause = shown["oom"]["gpu_cause"]
    print(cause, shown["exception"]["message"], shown["gpus"])
    assert cause["kind"] == "other-processes", (cause, shown["oom"]["gpu"])


def test_memory_outside_pytorch_is_named(record, tmp_path):  # noqa: F811
    code = """
        import ctypes, glob, os
        (runtime, *_) = [line.split()[-1] for line in open("/proc/self/maps") if "libcudart" in line]
        runtime, held = ctypes.CDLL(runtime), ctypes.c_void_p()
        torch.zeros(1, device="cuda")
        assert runtime.cudaMalloc(ctypes.byref(held), ctypes.c_size_t(int(0.7 * torch.cuda.mem_get_info()[0]))) == 0
        model = layers(8192)
        model(torch.randn(1 << 19, 8192, device="cuda")).sum().backward()
    """
    shown = record(textwrap.dedent(LAYERS) + textwrap.dedent(code))
    cause = shown["oom"]["gpu_cause"]
    print(cause, shown["exception"]["message"], shown["gpus"])
    # Where the driver does not tell whose it is, both are named.
    assert cause["kind"] in ("outside-pytorch", "other-processes"), (cause, shown["oom"]["gpu"])
