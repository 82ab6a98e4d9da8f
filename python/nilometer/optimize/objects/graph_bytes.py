"""What the graphs of tensors keep for a backward pass."""

from __future__ import annotations

import sys
from typing import Any

# The newest of those that accumulate, and the nodes of theirs that are looked at.
_GRAPHS = 4
_MOST_NODES = 2_000


def kept_by_graphs(tensors: list[Any]) -> float | None:
    """Bytes that the graph of one tensor keeps beside leaves such as parameters, on average over the newest; None where none tells.

    After `backward()` a graph has given back what it kept, and only its nodes are left: they do not say how large they are.
    """
    torch = sys.modules.get("torch")
    newest = [tensor.grad_fn for tensor in tensors[-_GRAPHS:] if tensor.grad_fn is not None]
    if torch is None or not newest:
        return None
    seen: set[Any] = set()
    storages: dict[int, int] = {}
    waiting = list(newest)
    while waiting and len(seen) < _MOST_NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += [function for function, _ in node.next_functions if function is not None]
        for name in dir(node):
            if name.startswith("_saved_"):
                _add(storages, node, name, torch)
    return sum(storages.values()) / len(newest) if storages else None


def _add(storages: dict[int, int], node: Any, name: str, torch: Any) -> None:
    try:
        kept = getattr(node, name)
    except RuntimeError:
        return  # given back by a backward pass
    for tensor in kept if isinstance(kept, (tuple, list)) else (kept,):
        if isinstance(tensor, torch.Tensor) and not (tensor.is_leaf and tensor.requires_grad):
            try:
                storage = tensor.untyped_storage()
                storages[storage._cdata] = storage.nbytes()
            except (NotImplementedError, RuntimeError):
                continue  # sparse tensors have no storage of their own
