#!/usr/bin/env python3
"""Compares estimates of GPU memory with what was measured on a GPU, beside formulas that people use.

    python3 bench/fit.py                                     tables on the terminal, two minutes
    python3 bench/fit.py --markdown docs/benchmarks/fit.md
    python3 bench/fit.py --truth FILE.json                   other cases

No GPU is needed: the truth was measured before (tests/integrations/testdata).
The Python that runs it needs nilometer, torch, transformers and accelerate; torchvision and peft for the cases of theirs.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
import transformers
from accelerate.commands.estimate import estimate_training_usage
from frame import Program
from page import Table

from nilometer.fit import estimate, fit
from nilometer.fit.truth import compare, read_cases

TRUTH = Path(__file__).parents[1] / "tests/integrations/testdata/gpu-truth-h200.json"
GOALS = {"allocated": 0.03, "reserved": 0.05, "process": 0.05}


def accelerate_bytes(case):
    """`accelerate estimate-memory`: the largest stage of a training with Adam, or the weights."""
    weights = case["params"] * 4
    if case["mode"] in ("infer", "generate"):
        return case["params"] * width(case)
    stages = estimate_training_usage(weights, "bfloat16" if "bf16" in case["dtype"] else "float32")
    return max(size for size in stages.values() if size and size > 0)


def width(case):
    return 2 if case["dtype"] in ("bf16", "fp16") else 4


def transformer_bytes(case):
    """The formula for transformers that calculators use: 16 bytes a parameter (8 in pure bf16), and s·b·h·L·(34 + 5·a·s/h) for activations."""
    config = case["config"]
    hidden = config.get("hidden_size") or config.get("n_embd") or config.get("d_model")
    if hidden is None:
        return None
    layers = config.get("num_hidden_layers") or config.get("n_layer") or config["num_layers"] + config["num_decoder_layers"]
    heads = config.get("num_attention_heads") or config.get("n_head") or config.get("num_heads")
    sequence = case["seq"] or (config["image_size"] // config["patch_size"]) ** 2 + 1
    weights = case["params"] * width(case)
    if case["mode"] in ("infer", "generate"):
        return weights
    trained = case["config"].get("trainable", case.get("trainable", case["params"]))
    states = weights + 3 * trained * width(case) if case["opt"] == "adamw" else 3 * weights
    bytes_each = 1 if "bf16" in case["dtype"] else 2
    activations = sequence * case["batch"] * hidden * layers * (34 + 5 * heads * sequence / hidden) * bytes_each
    return states + activations


def parameters_rule(case):
    """Parameters times bytes: 4 copies in training, 1 in inference."""
    return case["params"] * width(case) * (1 if case["mode"] in ("infer", "generate") else 4)


RIVALS = {"accelerate": accelerate_bytes, "formula": transformer_bytes, "parameters": parameters_rule}


def against_truth(cases):
    table = Table(
        "Peak memory: estimate against truth",
        {
            "case": "as in the file; `amp` is autocast over 32-bit weights, `b` the batch, `s` the sequence, `ckpt` with checkpoints",
            "truth, GiB": "`torch.cuda.max_memory_allocated()`",
            "allocated": "nilometer's estimate of that, its error",
            "reserved": "the same for `torch.cuda.max_memory_reserved()`",
            "process": "the same for the driver's figure (nvidia-smi) of the process",
            "accelerate": "error of `accelerate estimate-memory` (training with Adam, or the weights) on allocated memory",
            "formula": "error of 4 copies of the weights and s·b·h·L·(34 + 5·a·s/h), the formula of most calculators",
            "parameters": "error of 4 times the weights (training), or the weights",
            "seconds": "wall time of nilometer's estimate",
        },
    )
    errors: dict[str, list[float]] = {name: [] for name in [*GOALS, *RIVALS]}
    far_off = 0
    for case in cases:
        started = time.monotonic()
        [found] = compare([case])
        seconds = time.monotonic() - started
        if found.problem:
            table.rows.append([case["name"], f"{case['peak_alloc'] / 2**30:.2f}", f"not estimated: {found.problem}", *[""] * 6])
            continue
        cells = []
        process = found.figures["peak_process_bytes"]
        far_off += abs(process["estimate"] - process["truth"]) > max(0.05 * process["truth"], 300 << 20)
        for name in GOALS:
            values = found.figures[f"peak_{name}_bytes"]
            cells.append(error := values["estimate"] / values["truth"] - 1)
            errors[name].append(error)
        for name, rival in RIVALS.items():
            told = rival(case)
            cells.append(None if told is None else told / case["peak_alloc"] - 1)
            if told is not None:
                errors[name].append(cells[-1])
        told = ["–" if error is None else f"{error:+.1%}" if index >= len(GOALS) else f"{error:+.2%}" for index, error in enumerate(cells)]
        table.rows.append([case["name"], f"{case['peak_alloc'] / 2**30:.2f}", *told, f"{seconds:.1f}"])
    for title, pick in [("median, without sign", statistics.median), ("worst, without sign", max)]:
        figures = [pick(abs(error) for error in errors[name]) for name in errors]
        table.rows.append([title, "", *(f"{figure:.2%}" for figure in figures), ""])
    lowest = min(errors["allocated"])
    far = {name: sum(abs(error) > most for error in errors[name]) for name, most in GOALS.items()}
    count = len(errors["allocated"])
    table.notes += [
        goal("allocated memory with a median error of at most 1 %", statistics.median(map(abs, errors["allocated"])) <= 0.01),
        goal("allocated memory within 3 % in 95 % of the cases", far["allocated"] <= 0.05 * count),
        goal(f"allocated memory never more than 2 % too low (lowest {lowest:+.2%})", lowest >= -0.02),
        goal("reserved memory within 5 % in 95 % of the cases", far["reserved"] <= 0.05 * count),
        goal("memory of the process within 5 % or 300 MiB", far_off == 0),
    ]
    return table


def closed_form(cases):
    """The command's estimates of the same cases, which know nothing of PyTorch."""
    table = Table(
        "The closed form: `nilo fit --truth`, without PyTorch",
        {
            "case": "as above; what the closed form does not know is left out",
            "allocated": "its estimate of allocated memory, its error",
            "reserved": "the same for reserved memory",
            "process": "the same for the driver's figure",
        },
    )
    command = os.environ.get("NILO") or shutil.which("nilo")
    if command is None:
        table.notes.append("Not measured: the nilo command is not on the PATH; `make bench-fit` builds it.")
        return table
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(cases, file)
        file.flush()
        arguments = [command, "fit", "--truth", file.name, "--format", "json"]
        answer = json.loads(subprocess.run(arguments, env=os.environ | {"NILO_PYTHON": "false"}, stdout=subprocess.PIPE, check=True).stdout)
    errors = {name: [] for name in GOALS}
    for case in answer["cases"]:
        if "problem" in case:
            continue
        row = []
        for name in GOALS:
            values = case[f"peak_{name}_bytes"]
            row.append(values["estimate"] / values["truth"] - 1)
            errors[name].append(row[-1])
        table.rows.append([case["name"], *(f"{error:+.2%}" for error in row)])
    for title, pick in [("median, without sign", statistics.median), ("worst, without sign", max)]:
        table.rows.append([title, *(f"{pick(abs(error) for error in errors[name]):.2%}" for name in errors)])
    left_out = len(cases) - len(errors["allocated"])
    table.notes.append(f"{len(errors['allocated'])} cases; {left_out} are of classes that only a trace knows.")
    return table


def speed(_cases):
    """How long an estimate takes, by a trace and by the closed form, in one process."""
    table = Table(
        "How long an estimate takes",
        {
            "model": "training of one sequence of 2048 tokens in bf16",
            "closed form, ms": "the best of five calls of `nilometer.fit.fit`",
            "trace, ms": "one call of `nilometer.fit.estimate` with the module of Hugging Face",
            "ratio": "how many times longer the trace takes",
        },
    )
    slowest = 0.0
    for name, settings in {
        "llama-3.2-1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256},
        "llama-3.1-8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256},
    }.items():
        times = []
        for _ in range(5):
            started = time.perf_counter()
            fit(name, batch_size=1, seq_len=2048, dtype="bf16")
            times.append(1000 * (time.perf_counter() - started))
        config = transformers.LlamaConfig(**settings)
        started = time.perf_counter()
        estimate(lambda config=config: transformers.LlamaForCausalLM(config), batch_size=1, seq_len=2048, dtype="bf16")
        traced = 1000 * (time.perf_counter() - started)
        slowest = max(slowest, min(times))
        table.rows.append([name, f"{min(times):.1f}", f"{traced:,.0f}", f"{traced / min(times):,.0f}"])
    table.notes.append(goal("an estimate by the closed form within 1 ms", slowest <= 1.0))
    return table


def goal(what, is_reached):
    return f"Goal: {what}: {'reached' if is_reached else '**missed**'}."


PROGRAM = Program(
    path="bench/fit.py",
    title="Will it fit? Estimates without a GPU, and what was measured on one",
    remarks=[
        "The truth: one NVIDIA H200, PyTorch 2.11, transformers 5.17, three steps of each case (2026-11-15).",
        "Of these cases two constants were taken: cuBLAS's workspace of 32 MiB a thread, and what a process takes besides PyTorch (742 MiB). The way in which PyTorch computes T5's attention was found by its case. Nothing else was fitted; no new cases have been measured since.",
    ],
    benchmarks={"truth": against_truth, "closed-form": closed_form, "speed": speed},
)


def versions():
    found = []
    for package in ("torch", "transformers", "accelerate", "torchvision", "peft"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} is missing")
    return [f"Versions here: {', '.join(found)}."]


def main():
    parser = PROGRAM.parser(__doc__.splitlines()[0])
    parser.add_argument("--truth", type=Path, default=TRUTH, metavar="FILE", help="measured cases (the default is those of the repository)")
    chosen = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    PROGRAM.measure(chosen, (read_cases(chosen.truth),), versions)


if __name__ == "__main__":
    sys.exit(main())
