"""Estimates beside what was measured on a GPU: cases of trainings and inferences in a JSON file, each with its model, settings and peaks."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .._trouble import NilometerError
from .answers import Estimate
from .estimating import estimate_module
from .gpus import find_gpu

_MODES = ("train", "infer", "generate", "lora")
_HEADS = ("ForCausalLM", "ForMaskedLM", "LMHeadModel", "ForConditionalGeneration", "ForImageClassification")
_OPTIMIZERS = {"adamw": "adamw", "adam": "adam", "sgd": "sgd", "sgdm": "sgd-momentum", "adafactor": "adafactor"}
_FIGURES = ("peak_allocated_bytes", "peak_reserved_bytes", "peak_process_bytes")
_MEASURED = dict(zip(_FIGURES, ("peak_alloc", "peak_reserved", "peak_proc")))
_LORA_RANK = 16
# Where a case does not say how many were generated.
_NEW_TOKENS = 32


class CaseError(NilometerError):
    """A case that cannot be estimated here: a class or a library is missing, or it says something unknown."""


@dataclass(frozen=True)
class Comparison:
    """One case.

    Args:
        name: Of the case.
        figures: Estimate and truth in bytes, by what was measured.
        problem: Why there is no estimate.
        estimate: The whole estimate.
    """

    name: str
    figures: dict[str, dict[str, int]]
    problem: str | None = None
    estimate: Estimate | None = None

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"name": self.name} | self.figures
        return told | ({"problem": self.problem} if self.problem else {})


def read_cases(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The cases of a file. One that is not such a file raises an error that says so."""
    try:
        with open(path, encoding="utf-8") as file:
            cases = json.load(file)
    except OSError as error:
        raise NilometerError(f"cannot read the cases: {error}") from error
    except ValueError as error:
        raise NilometerError(f"{os.fspath(path)} is not JSON: {error}") from error
    named = isinstance(cases, list) and all(isinstance(case, dict) and isinstance(case.get("name"), str) for case in cases)
    if not named:
        raise NilometerError(f"{os.fspath(path)} has no list of cases, each with a name")
    return cases


def compare(cases: list[dict[str, Any]]) -> Iterator[Comparison]:
    """Estimates one case after another."""
    for case in cases:
        try:
            found = estimate_case(case)
        except (CaseError, ImportError) as error:
            yield Comparison(case["name"], {}, problem=str(error))
            continue
        told = (found.allocated, found.reserved, found.process)
        figures = {
            figure: {"estimate": value.expected, "truth": case[_MEASURED[figure]]} for figure, value in zip(_FIGURES, told) if _MEASURED[figure] in case
        }
        yield Comparison(case["name"], figures, estimate=found)


def estimate_case(case: dict[str, Any]) -> Estimate:
    """The estimate for the settings of a case."""
    mode = case.get("mode")
    if mode not in _MODES:
        raise CaseError(f"mode {mode!r} is not estimated; {', '.join(_MODES)} are")
    dtype = case.get("dtype", "fp32")
    cast = dtype.removeprefix("amp-") if dtype.startswith("amp-") else None
    optimizer = _OPTIMIZERS.get(case.get("opt", "adamw"))
    if optimizer is None:
        raise CaseError(f"optimizer {case['opt']!r} is not known")
    model, batch, loss = _model_and_batch(case, mode)
    return estimate_module(
        model,
        batch,
        batch_size=case["batch"],
        seq_len=case.get("seq") or None,
        train=mode in ("train", "lora"),
        new_tokens=case.get("new_tokens", _NEW_TOKENS) if mode == "generate" else 0,
        optimizer=optimizer,
        dtype=None if cast else dtype,
        autocast=cast,
        checkpointing=bool(case.get("ckpt")),
        loss=loss,
        gpu=find_gpu(case.get("gpu", "H200")),
    )


def _model_and_batch(case: dict[str, Any], mode: str) -> tuple[Callable[[], torch.nn.Module], Any, Any]:
    given = dict(case.get("config") or {})
    name = given.pop("cls", None)
    if not isinstance(name, str):
        raise CaseError("the case does not say of which class its model is (config.cls)")
    if name.startswith("tv:"):
        make = getattr(importlib.import_module("torchvision.models"), name.removeprefix("tv:"), None)
        if make is None:
            raise CaseError(f"torchvision has no model {name.removeprefix('tv:')!r}")
        images = torch.empty(case["batch"], 3, 224, 224, device="meta")
        return make, images, _image_loss
    transformers = importlib.import_module("transformers")
    config_class = getattr(transformers, f"{name}Config", None)
    model_class = next((found for head in _HEADS if (found := getattr(transformers, name + head, None)) is not None), None)
    if config_class is None or model_class is None:
        raise CaseError(f"transformers {transformers.__version__} has no model {name!r}")
    # Tokens that a constructor may ask for change no size.
    config = config_class(**({"decoder_start_token_id": 0} if name == "T5" else {}) | given)
    config._attn_implementation = case.get("attn", "sdpa")
    if mode != "lora":
        return lambda: model_class(config), None, None
    ids = torch.empty(case["batch"], case["seq"], dtype=torch.int64, device="meta")
    return lambda: _adapted(model_class(config).to(torch.bfloat16)), {"input_ids": ids, "labels": ids}, None


def _adapted(model: torch.nn.Module) -> torch.nn.Module:
    peft = importlib.import_module("peft")
    settings = peft.LoraConfig(r=_LORA_RANK, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    return peft.get_peft_model(model, settings, autocast_adapter_dtype=False)


def _image_loss(model: torch.nn.Module, images: torch.Tensor) -> torch.Tensor:
    labels = torch.empty(images.shape[0], dtype=torch.int64)
    return torch.nn.functional.cross_entropy(model(images), labels)
