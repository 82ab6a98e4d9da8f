"""The allocations of a program in their order, with what each is for."""

from __future__ import annotations

import weakref
from array import array
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Each thread that multiplies matrices has a workspace; backward has a thread of its own.
_MULTIPLICATIONS = {"mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "_scaled_mm", "_grouped_mm"}
# What the loss of a classification keeps: the scores of all classes, and what follows from them.
_LOSS = {"_log_softmax", "nll_loss_forward", "nll_loss2d_forward", "_log_softmax_backward_data", "nll_loss_backward", "nll_loss2d_backward"}


class AllocationTape:
    """Which bytes were asked for and given back, and by whom."""

    def __init__(self, workspace_bytes: int) -> None:
        self.ids = array("q")
        self.sizes = array("Q")
        self.phase = "forward"
        # By the number of an allocation, which begins at 1.
        self.purposes: list[str] = [""]
        self.operations: list[str] = [""]
        self.phases: list[str] = [""]
        self._standing: dict[int, int] = {}
        self._workspace_bytes = workspace_bytes
        self._workspaces: set[str] = set()

    def see(self, tensor: torch.Tensor, operation: str) -> None:
        """Notes the memory of a tensor where it is new."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._standing or storage.nbytes() == 0:
            return
        number = self._allocate(storage.nbytes(), operation)
        self._standing[key] = number
        weakref.finalize(storage, self._free, key, number).atexit = False

    def label(self, tensor: Any, purpose: str) -> None:
        """Says what the memory of a tensor is for, whenever it was allocated."""
        if isinstance(tensor, torch.Tensor):
            number = self._standing.get(tensor.untyped_storage()._cdata)
            if number is not None and not self.purposes[number]:
                self.purposes[number] = purpose

    def multiply(self) -> None:
        """A matrix is multiplied: the first time in a thread, the library takes its workspace."""
        thread = "backward" if self.phase == "backward" else "program"
        if thread not in self._workspaces and self._workspace_bytes:
            self._workspaces.add(thread)
            self.purposes[self._allocate(self._workspace_bytes, "workspace")] = "workspace"

    def standing_at(self, event: int) -> dict[int, int]:
        """The bytes of each allocation that stands after an event."""
        standing: dict[int, int] = {}
        for number, size in zip(self.ids[: event + 1], self.sizes[: event + 1]):
            if number > 0:
                standing[number] = size
            else:
                del standing[-number]
        return standing

    def phase_of_event(self, event: int) -> str:
        """The phase in which an allocation was made."""
        return self.phases[abs(self.ids[event])] if len(self.ids) else ""

    def purpose_of(self, number: int) -> str:
        """What an allocation was for: as it was labelled, or by when and by what it was made."""
        labelled = self.purposes[number]
        if labelled:
            return labelled
        if self.operations[number] in _LOSS:
            return "loss"
        return {"forward": "activations", "backward": "backward temporaries", "optimizer": "optimizer temporaries"}[self.phases[number]]

    def _allocate(self, size: int, operation: str) -> int:
        number = len(self.purposes)
        self.purposes.append("")
        self.operations.append(operation)
        self.phases.append(self.phase)
        self.ids.append(number)
        self.sizes.append(size)
        return number

    def _free(self, key: int, number: int) -> None:
        if self._standing.get(key) == number:
            del self._standing[key]
        self.ids.append(-number)
        self.sizes.append(0)


class TapeMode(TorchDispatchMode):
    """Notes what every operation allocates."""

    def __init__(self, tape: AllocationTape) -> None:
        super().__init__()
        self._tape = tape

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._tape.see(leaf, name)
        if name in _MULTIPLICATIONS:
            self._tape.multiply()
        return result
