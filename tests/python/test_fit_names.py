"""Estimates of models that are known by name, in a Python without PyTorch."""

import json
import subprocess
import sys

import pytest
from conftest import NILO

from nilometer import NilometerError
from nilometer.fit import FitError, estimate, find_gpu, fit
from nilometer.fit.gpus import GPUS

CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
}


def test_nothing_imports_torch():
    code = "import sys, nilometer.fit as f; f.estimate('gpt2'); f.find_gpu('t4'); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_an_estimate_of_a_name_is_that_of_the_command(tmp_path):
    found = estimate("llama-3.2-1b", batch_size=4, seq_len=1024, dtype="bf16", gpu="a100 40gb", checkpointing=True)
    command = [NILO, "fit", "llama-3.2-1b", "-b", "4", "-s", "1024", "--dtype", "bf16", "--gpu", "a100 40gb", "--checkpointing", "full", "--format", "json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, cwd=tmp_path).stdout)
    assert (found.process.low, found.process.expected, found.process.high) == tuple(told["process_bytes"][key] for key in ("low", "expected", "high"))
    assert found.parts == {part["name"]: part["bytes"] for part in told["parts"]}
    assert sum(found.parts.values()) == found.process.expected
    assert found.fits() is True and found.fits("T4") is (found.process.high <= find_gpu("T4").memory_bytes)
    assert str(found).startswith("1,235,814,400 parameters on A100 40GB")


def test_a_configuration_is_a_path(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    assert estimate(path, dtype="bf16", seq_len=64).parameters == 1_692_928
    assert fit(tmp_path, dtype="bf16", seq_len=64)["model"]["architecture"] == "llama"


def test_fit_finds_batches_and_ways():
    told = fit("llama-3.2-1b", gpus=["T4", "H200"], batch_size=8, seq_len=2048, dtype="bf16", max_batch=True, ways=True)
    assert told["schema"] == "nilo.fit/1" and [gpu["name"] for gpu in told["gpus"]] == ["T4", "H200"]
    assert told["gpus"][0]["largest_batch"] < told["gpus"][1]["largest_batch"] and told["gpus"][1]["verdict"] == "fits"
    assert told["together"]["verdict"] == "fits" and len(told["ways"]) > 5
    assert fit("gpt2", lora_rank=8, lora_everywhere=True, quantize_bits=4)["model"]["trained_parameters"] < 2_000_000


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("llama-3.1-9b", {}, "neither a file nor the name of a known model; did you mean llama-3.1-8b"),
        ("gpt2", {"dtype": "int4"}, "dtype must be fp32, bf16 or fp16, not"),
        ("gpt2", {"optimizer": "adm"}, "optimizer must be one of adamw"),
        ("gpt2", {"new_tokens": 3}, "new_tokens is for train=False"),
        ("gpt2", {"batch_size": 0}, "at least one sequence"),
        ("gpt2", {"batch_size": -1}, "invalid value"),
        ("gpt2", {"batchsize": 1}, "unknown field `batchsize`"),
        ("gpt2", {"quantize_bits": 4}, "quantized weights cannot be trained"),
        ("gpt2", {"dtype": object}, "must be texts, numbers and truth values"),
    ],
)
def test_wrong_settings_are_one_clear_sentence(model, settings, message):
    with pytest.raises(FitError, match=message):
        fit(model, **settings)


def test_a_known_model_is_not_called():
    with pytest.raises(ValueError, match="batch and loss are for models that are traced"):
        estimate("gpt2", batch=[1])
    with pytest.raises(ValueError, match="takes its optimizer by name"):
        estimate("gpt2", optimizer=list)


def test_gpus_are_those_of_the_command(tmp_path):
    told = json.loads(subprocess.run([NILO, "fit", "--list", "--format", "json"], capture_output=True, text=True, cwd=tmp_path).stdout)
    assert [(gpu["name"], gpu["memory_bytes"]) for gpu in told["gpus"]] == [(gpu.name, gpu.memory_bytes) for gpu in GPUS]
    assert find_gpu("h100").name == "H100 SXM" and find_gpu("L4").workspace_bytes < find_gpu("H200").workspace_bytes
    for name, message in [("a100", "may be A100 40GB or A100 80GB"), ("abacus", "no GPU \"abacus\" is known")]:
        with pytest.raises(NilometerError, match=message):
            find_gpu(name)
