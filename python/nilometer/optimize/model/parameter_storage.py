"""Memory of a model's parameters that nothing needs: found and given back without running the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..measuring.accounting import tensor_bytes


@dataclass(frozen=True)
class StorageSaving:
    """One thing that was given back, in bytes of tensor storages."""

    name: str
    saved_bytes: int
    reason: str


def model_bytes(model: torch.nn.Module) -> int:
    """Bytes of parameters, buffers and gradients, each storage once."""
    parameters = list(model.parameters())
    return tensor_bytes(parameters, list(model.buffers()), [parameter.grad for parameter in parameters])


def compact_parameters(model: torch.nn.Module) -> list[StorageSaving]:
    """Frees what no value depends on: unused gradients, the rest of storages that a parameter is a slice of, second copies of tied weights.

    >>> model = torch.nn.Linear(4, 4, bias=False)
    >>> model.weight.data = torch.zeros(1000, 4)[:4]
    >>> [saving.saved_bytes for saving in compact_parameters(model)]
    [15936]
    """
    found = []
    for name, give_back in (
        ("unused gradients set to none", _drop_gradients),
        ("sliced parameters stored alone", _store_alone),
        ("tied weights shared again", _tie),
    ):
        before = model_bytes(model)
        reason = give_back(model)
        saved = before - model_bytes(model)
        if saved > 0:
            found.append(StorageSaving(name, saved, reason))
    return found


def untied_bytes(model: torch.nn.Module) -> int:
    """Bytes of a second copy of weights that the model says are tied."""
    pair = _untied(model)
    return 0 if pair is None else tensor_bytes(pair[1])


def _drop_gradients(model: torch.nn.Module) -> str:
    """Zeros between steps, and gradients of what is not trained."""
    dropped = 0
    for parameter in model.parameters():
        gradient = parameter.grad
        if gradient is not None and (not parameter.requires_grad or not bool(gradient.any())):
            parameter.grad = None
            dropped += 1
    return f"{dropped} gradients held zeros or belonged to parameters that are not trained"


def _store_alone(model: torch.nn.Module) -> str:
    """A slice keeps the whole storage alive. Storages that several tensors of the model lie in are left alone."""
    holders: dict[int, list[torch.Tensor]] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.layout == torch.strided and tensor.device.type != "meta":
            holders.setdefault(tensor.untyped_storage()._cdata, []).append(tensor)
    moved = 0
    for tensors in holders.values():
        tensor = tensors[0]
        if len(tensors) == 1 and tensor.untyped_storage().nbytes() > tensor.numel() * tensor.element_size():
            tensor.data = tensor.data.clone(memory_format=torch.contiguous_format)
            moved += 1
    return f"{moved} parameters were slices of larger storages"


def _tie(model: torch.nn.Module) -> str:
    """Hugging Face: embeddings and head that the configuration ties but that lie in two storages, with equal values."""
    if _untied(model) is None:
        return ""
    tied: Any = model
    tied.tie_weights()
    return "input embeddings and output head had equal values in two storages"


def _untied(model: Any) -> tuple[torch.Tensor, torch.Tensor] | None:
    config = getattr(model, "config", None)
    if not getattr(config, "tie_word_embeddings", False) or not hasattr(model, "tie_weights"):
        return None
    ours, theirs = model.get_input_embeddings(), model.get_output_embeddings()
    inner, outer = getattr(ours, "weight", None), getattr(theirs, "weight", None)
    if inner is None or outer is None or inner is outer or inner.data_ptr() == outer.data_ptr():
        return None
    return (inner, outer) if inner.shape == outer.shape and torch.equal(inner, outer) else None
