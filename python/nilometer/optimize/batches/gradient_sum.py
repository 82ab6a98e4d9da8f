"""The sum of gradients over all ranks, in memory that is allocated before any rank begins to exchange: afterwards nothing can run out."""

from __future__ import annotations

import torch
import torch.distributed as dist

from .rank_agreement import least, world_size

# Gradients are exchanged in pieces of about this size, as DistributedDataParallel does.
_BUCKET_BYTES = 25 << 20


class GradientSum:
    """Made once backward is through, where running out of memory can still be agreed on; `exchange` then allocates nothing on the device.

    Pieces are rows of parameters, alike on all ranks whatever the layout of their gradients, so that the buffer stays small for an embedding of gigabytes too.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad] if world_size() > 1 else []
        # Another rank may have a gradient for what had none here.
        self._zeros = {
            number: torch.zeros_like(parameter, requires_grad=False)
            for number, parameter in enumerate(self._parameters)
            if parameter.grad is None
        }
        # By what all parameters together may take: who has a gradient, and so what goes together, is not known yet.
        totals: dict[tuple[torch.device, torch.dtype], int] = {}
        longest: dict[tuple[torch.device, torch.dtype], int] = {}
        for number, parameter in enumerate(self._parameters):
            kind = self._kind(number)
            totals[kind] = totals.get(kind, 0) + parameter.numel()
            longest[kind] = max(longest.get(kind, _BUCKET_BYTES // parameter.element_size()), self._elements(number, 0, 1))
        self._buffers = {kind: torch.empty(min(total, longest[kind]), device=kind[0], dtype=kind[1]) for kind, total in totals.items()}

    def exchange(self) -> None:
        """Each gradient becomes the sum over all ranks. A parameter that no rank has a gradient for stays without one. Every rank has to call it."""
        if not self._parameters:
            return
        lacking = least(*(int(parameter.grad is None) for parameter in self._parameters))
        present = [number for number, nobody_has_it in enumerate(lacking) if not nobody_has_it]
        for number in present:
            if self._parameters[number].grad is None:
                self._parameters[number].grad = self._zeros[number]
        self._zeros.clear()
        for bucket in self._buckets(present):
            buffer = self._buffers[self._kind(bucket[0][0])][: sum(self._elements(*piece) for piece in bucket)]
            rows = [self._rows(*piece) for piece in bucket]
            parts = [part.view(row.shape) for part, row in zip(torch.split(buffer, [row.numel() for row in rows]), rows, strict=True)]
            for part, row in zip(parts, rows, strict=True):
                part.copy_(row)
            dist.all_reduce(buffer)
            for part, row in zip(parts, rows, strict=True):
                row.copy_(part)

    def average(self) -> None:
        """The mean, as DistributedDataParallel leaves it. Every rank has to call it."""
        self.exchange()
        for parameter in self._parameters:
            if parameter.grad is not None:
                parameter.grad.div_(world_size())

    def _buckets(self, numbers: list[int]) -> list[list[tuple[int, int, int]]]:
        """Pieces that go together: number of the parameter, first row, row behind the last."""
        buckets: list[list[tuple[int, int, int]]] = []
        room = 0
        for number in numbers:
            parameter = self._parameters[number]
            if not parameter.numel():
                continue
            count = parameter.shape[0] if parameter.dim() else 1
            row_bytes = parameter.numel() // count * parameter.element_size()
            begin = 0
            while begin < count:
                is_alike = bool(buckets) and self._kind(buckets[-1][0][0]) == self._kind(number)
                if not is_alike or room < row_bytes:
                    buckets.append([])
                    room = max(_BUCKET_BYTES, row_bytes)
                end = min(count, begin + room // row_bytes)
                buckets[-1].append((number, begin, end))
                room -= (end - begin) * row_bytes
                begin = end
        return buckets

    def _kind(self, number: int) -> tuple[torch.device, torch.dtype]:
        return self._parameters[number].device, self._parameters[number].dtype

    def _elements(self, number: int, begin: int, end: int) -> int:
        parameter = self._parameters[number]
        return (end - begin) * (parameter.numel() // parameter.shape[0]) if parameter.numel() and parameter.dim() else parameter.numel()

    def _rows(self, number: int, begin: int, end: int) -> torch.Tensor:
        gradient = self._parameters[number].grad
        assert gradient is not None, "parameters without a gradient are in no bucket"
        return gradient[begin:end] if gradient.dim() else gradient
