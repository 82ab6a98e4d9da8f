"""Numbers on a GPU, fetched without making the program wait for the GPU."""

from __future__ import annotations

from typing import Any


# Events that are done; making one costs more than recording it.
_spare: list[Any] = []


class Arriving:
    """A number on its way from a device."""

    __slots__ = ("_copy", "_event")

    def __init__(self, copy: Any, event: Any) -> None:
        self._copy = copy
        self._event = event

    def ready(self) -> bool:
        return self._event is None or self._event.query()

    def value(self) -> float:
        if self._event is not None:
            self._event.synchronize()
            _spare.append(self._event)
            self._event = None
        return float(self._copy)


def begin_read(tensor: Any) -> Arriving:
    """Queues a copy of a one-element tensor behind the work that computes it.

    torch copies to page-locked memory here, so the copy itself does not wait.
    Devices without events are read when the number is needed.
    """
    tensor = tensor.detach()
    if not getattr(tensor, "is_cuda", False):
        return Arriving(tensor, None)
    import torch

    copy = tensor.to("cpu", non_blocking=True)
    event = _spare.pop() if _spare else torch.cuda.Event()
    event.record(torch.cuda.current_stream(tensor.device))
    return Arriving(copy, event)
