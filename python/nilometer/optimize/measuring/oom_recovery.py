"""Getting out of a CUDA out-of-memory error: what the failed step held is given back before anything is tried again."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch

from ..host.garbage import collect_everything

Result = TypeVar("Result")

# Backends that raise a plain RuntimeError say it in words.
_WORDS = ("out of memory", "cannot allocate memory", "can't allocate memory", "cublas_status_alloc_failed")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory ran out: by its type first, by its words where a backend has no type for it.

    >>> is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    True
    >>> is_out_of_memory(RuntimeError("MPS backend out of memory")), is_out_of_memory(ValueError("out of memory"))
    (True, False)
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _WORDS)


@dataclass
class Attempt(Generic[Result]):
    """How a step went: its result, or the text of the error that memory ran out with."""

    result: Result | None
    oom: str = ""


def attempt(run: Callable[[], Result]) -> Attempt[Result]:
    """Runs a step; when memory runs out, gives the error's text, with nothing of the step still held by the exception.

    The frames of the traceback hold every tensor of the failed step, and while the `except` block runs, so does the interpreter: they are cleared, and the block is left, before anybody frees memory.
    Other exceptions pass.
    """
    text = ""
    try:
        return Attempt(run())
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        text = str(error).strip() or type(error).__name__
        chained: BaseException | None = error
        while chained is not None:
            traceback.clear_frames(chained.__traceback__)
            chained.__traceback__ = None
            chained = chained.__context__
    return Attempt(None, text)


def release(*holders: Any) -> None:
    """Gradients of models and optimizers, garbage and cached blocks are given back. Call it outside of any `except` block."""
    for holder in holders:
        if holder is not None:
            holder.zero_grad(set_to_none=True)
    collect_everything()
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()
