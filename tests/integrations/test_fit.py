"""Estimates of GPU memory without a GPU: against what was measured on one, for training loops as people write them, and for wrong input."""

import gc
import json
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as functional
from conftest import subprocess_environment
from tiny import language_model
from torch import nn
from torch.utils.checkpoint import checkpoint

from nilometer import NilometerError
from nilometer.fit import TraceError, estimate, find_gpu, trace
from nilometer.fit.truth import compare, read_cases

TRUTH = pathlib.Path(__file__).parent / "testdata/gpu-truth-h200.json"
CASES = {case["name"]: case for case in read_cases(TRUTH)}
# The others need torchvision and peft, which `make bench-fit` has, or a minute.
MEASURED = [
    "gpt2-small-fp32-b8",
    "gpt2-small-amp-bf16-b8",
    "gpt2-small-bf16-b8",
    "gpt2-small-amp-ckpt",
    "gpt2-medium-eager",
    "gpt2-small-sgd",
    "llama-1b-bf16-b1-s2048",
    "llama-1b-bf16-ckpt-b4-s2048",
    "llama-1b-amp-b4",
    "llama-1b-infer",
    "llama-1b-gen",
    "qwen2-0.5b-bf16",
    "bert-base-fp32",
    "t5-base-fp32",
    "vit-base-fp32",
]
MIB = 1 << 20


@pytest.mark.parametrize("name", MEASURED)
def test_estimates_are_near_what_was_measured_on_a_gpu(name):
    [found] = compare([CASES[name]])
    assert found.problem is None
    errors = {figure: values["estimate"] / values["truth"] - 1 for figure, values in found.figures.items()}
    assert abs(errors["peak_allocated_bytes"]) < 0.01, errors
    assert abs(errors["peak_reserved_bytes"]) < 0.055, errors
    assert abs(errors["peak_process_bytes"]) < 0.05, errors
    assert sum(found.estimate.parts.values()) == found.estimate.process.expected
    assert found.estimate.process.low < CASES[name]["peak_proc"] < found.estimate.process.high


def tower():
    return nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256))


def test_the_model_stays_as_it_is():
    model = language_model().train()
    model.config.use_cache = True
    before = {name: (id(tensor), tensor.clone(), tensor.requires_grad) for name, tensor in model.named_parameters()}
    assert str(estimate(model, batch_size=2, seq_len=16, dtype="bf16", checkpointing=True)).startswith(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    for name, tensor in model.named_parameters():
        identity, value, requires_grad = before[name]
        assert id(tensor) == identity and torch.equal(tensor, value) and tensor.requires_grad == requires_grad and tensor.grad is None
    assert model.training and model.config.use_cache and not model.is_gradient_checkpointing
    assert model(input_ids=torch.arange(8)[None]).logits.isfinite().all()


def test_parts_of_a_small_training_are_exact():
    def build():
        return nn.Linear(1024, 1024, bias=False)

    found = estimate(build, torch.empty(512, 1024), optimizer="adamw", gpu="T4")
    weights = 4 * 1024 * 1024
    assert found.parts["weights"] == weights and found.parts["optimizer state"] - 2 * weights in range(2 * MIB)
    assert found.parts["batch"] == 512 * 1024 * 4
    assert found.phase == "optimizer" and found.parts["gradients"] == weights
    assert found.parts["CUDA context"] == found.gpu.context_bytes
    momentum = estimate(build, torch.empty(512, 1024), optimizer="sgd-momentum", gpu="T4")
    assert momentum.parts["optimizer state"] == weights
    assert estimate(build, torch.empty(512, 1024), train=False).parts.keys().isdisjoint({"gradients", "optimizer state"})


def test_optimizers_differ_by_their_temporaries():
    def peak(optimizer):
        return estimate(lambda: nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8))), torch.empty(1, 1024), optimizer=optimizer).allocated.expected

    weights = 8 * 4 * 1024 * 1024
    assert peak("adamw") - peak("adamw-fused") == pytest.approx(weights, rel=0.1)
    assert weights / 16 < peak("adamw-for-loop") - peak("adamw-fused") < weights / 2


def test_checkpoints_and_batches_change_the_estimate_as_they_should():
    def without_workspaces(**settings):
        found = estimate(language_model, seq_len=48, **settings)
        return found.allocated.expected - found.parts["workspace"]

    step = without_workspaces(batch_size=256)
    assert 1.8 * without_workspaces(batch_size=128) < step < 2.1 * without_workspaces(batch_size=128)
    assert without_workspaces(batch_size=256, checkpointing=True) < 0.8 * step
    assert without_workspaces(batch_size=256, train=False) < 0.5 * step


def replaced():
    """What a trace puts something else in the place of."""
    adam = sys.modules["torch.optim.adam"]
    return torch.autocast.__init__, torch.autograd._engine_run_backward, torch.cuda.is_available(), torch.is_autocast_enabled, adam._default_to_fused_or_foreach


def training_loop():
    """As people write it for a GPU."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.ModuleList([tower() for _ in range(4)]).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        x, y = torch.randn(2048, 256).cuda(), torch.randn(2048, 256, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            for layer in model:
                x = checkpoint(layer, functional.dropout(x, 0.1), use_reentrant=False)
            loss = functional.mse_loss(x, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        print(loss.item())
    torch.cuda.synchronize()


def test_a_loop_for_a_gpu_is_traced_without_one(capsys):
    before = replaced()
    found = trace(training_loop, gpu="RTX 4090")
    assert capsys.readouterr().out == "0.0\n0.0\n"
    assert len(found.assumptions) == 1 and "test_fit.py" in found.assumptions[0]
    weights = sum(parameter.numel() for parameter in nn.ModuleList([tower() for _ in range(4)]).parameters()) * 4
    assert found.parts["weights"] == weights and found.parts["optimizer state"] >= 2 * weights
    assert found.peak_allocated_bytes <= found.peak_reserved_bytes
    assert replaced() == before


def test_weights_that_are_converted_stay_the_same_parameters():
    def convert():
        model = tower()
        tied = nn.ModuleList([model, model])
        optimizer = torch.optim.SGD(tied.parameters(), lr=0.1)
        tied.to("cuda", torch.bfloat16).half()
        model(torch.randn(4, 256, dtype=torch.float16)).sum().backward()
        assert all(parameter.grad is not None and parameter.dtype == torch.float16 for parameter in optimizer.param_groups[0]["params"])

    # Weights in 16 bits with their gradients, what the allocator rounds, and a workspace for each of two threads.
    assert trace(convert, gpu="T4").parts["weights"] == 2 * sum(parameter.numel() for parameter in tower().parameters())


def test_checkpointed_attention_is_computed_again_by_the_kernels_of_a_gpu():
    """The engine calls the program back outside of a trace's modes."""

    def layer(x):
        return functional.scaled_dot_product_attention(x, x, x).relu()

    def peak(is_checkpointed):
        def step():
            x = torch.empty(4, 8, 1024, 64, dtype=torch.bfloat16, requires_grad=True)
            y = x
            for _ in range(6):
                y = checkpoint(layer, y, use_reentrant=False) if is_checkpointed else layer(y)
            y.sum().backward()

        return trace(step).peak_allocated_bytes

    assert peak(True) < peak(False)
    # The scores of one layer would take 256 MiB by themselves.
    assert peak(True) < 100 * MIB


def test_a_failed_trace_leaves_pytorch_as_it_was():
    backward = torch.autograd._engine_run_backward

    def fails():
        torch.ones(3, requires_grad=True).sum().backward()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        trace(fails)
    assert torch.autograd._engine_run_backward is backward and not torch.cuda.is_available()
    x = torch.ones(3, requires_grad=True)
    x.sum().backward()
    assert torch.equal(x.grad, torch.ones(3))


@pytest.mark.parametrize("use", [lambda x: x if x.sum() > 0 else -x, lambda x: x[x > 0], lambda x: torch.nonzero(x)])
def test_what_depends_on_values_is_refused_with_the_line(use):
    with pytest.raises(TraceError, match=r"test_fit\.py:\d+ depends on what a tensor contains"):
        trace(lambda: use(torch.randn(8, device="cuda")))


def test_nothing_is_allocated_here():
    def large():
        model = nn.Sequential(*(nn.Linear(1 << 15, 1 << 15, bias=False) for _ in range(16)))
        return model

    gc.collect()
    found = estimate(large, torch.empty(4, 1 << 15, device="meta"), dtype="bf16")
    assert found.allocated.expected > 128 << 30 and found.fits() is False and found.fits("T4") is False
    assert "does not fit" in str(found)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adamx"}, "no optimizer 'adamx' is known; known are adamw"),
        ({"batch_size": 0}, "batch_size must be at least 1, not 0"),
        ({"seq_len": 0}, "seq_len must be at least 1, not 0"),
        ({"dtype": "int3"}, "dtype must be one of fp32, bf16, fp16, not 'int3'"),
        ({"gpu": "Voodoo 2"}, 'no GPU "Voodoo 2" is known; known are P100 16GB'),
        ({"gpu": "A100"}, '"A100" may be A100 40GB or A100 80GB'),
        ({"new_tokens": 3}, "new_tokens is for train=False"),
        ({"checkpointing": True}, "Sequential has no checkpointing to turn on"),
    ],
)
def test_wrong_settings_are_one_clear_sentence(settings, message):
    with pytest.raises(ValueError, match=message):
        estimate(tower, torch.empty(1, 256), **settings)


def test_models_that_do_not_say_what_they_take_need_a_batch():
    with pytest.raises(ValueError, match="Sequential does not say what it is called with: pass batch="):
        estimate(tower)
    with pytest.raises(ValueError, match="has no loss: pass loss="):
        estimate(lambda: nn.LSTM(8, 8), torch.empty(2, 3, 8))


def test_gpus_are_found_by_their_names():
    assert find_gpu("nvidia a100-80gb").name == "A100 80GB" and find_gpu("h200").memory_bytes == CASES["llama-1b-infer"]["total"]
    assert find_gpu("H100").workspace_bytes == 32 * MIB and find_gpu("L4").workspace_bytes < 9 * MIB


def of_command(*arguments):
    command = [sys.executable, "-W", "ignore", "-m", "nilometer.fit", *arguments]
    return subprocess.run(command, env=subprocess_environment(), capture_output=True, text=True)


def test_the_command_compares_cases_one_by_one(tmp_path):
    unknown = {"name": "unknown", "mode": "train", "config": {"cls": "Nothing"}, "batch": 1}
    file = tmp_path / "cases.json"
    file.write_text(json.dumps([CASES["bert-base-fp32"], unknown]))
    told = of_command("--truth", str(file), "--format", "json")
    assert told.returncode == 0, told.stderr
    first, second = json.loads(told.stdout)["cases"]
    assert first["name"] == "bert-base-fp32" and first["peak_allocated_bytes"]["truth"] == CASES["bert-base-fp32"]["peak_alloc"]
    assert set(first) == {"name", "peak_allocated_bytes", "peak_reserved_bytes", "peak_process_bytes"}
    assert second["name"] == "unknown" and "has no model 'Nothing'" in second["problem"]
    lines = of_command("--truth", str(file)).stdout.splitlines()
    assert lines[0].startswith("bert-base-fp32") and "%" in lines[0] and "not estimated" in lines[1]


@pytest.mark.parametrize(("text", "message"), [(None, "cannot read the cases"), ("{", "is not JSON"), ("[3]", "has no list of cases")])
def test_the_command_names_what_is_wrong_with_a_file(tmp_path, text, message):
    file = tmp_path / "cases.json"
    if text is not None:
        file.write_text(text)
    told = of_command("--truth", str(file))
    assert told.returncode == 2 and told.stderr.startswith("error: ") and message in told.stderr and "Traceback" not in told.stderr


@pytest.mark.parametrize("module", ["gpus", "tracing", "estimates"])
def test_the_examples_of_the_docstrings_hold(module):
    import doctest
    import importlib

    found = doctest.testmod(importlib.import_module(f"nilometer.fit.{module}"), extraglobs={"torch": torch})
    assert found.failed == 0 and found.attempted > 0
