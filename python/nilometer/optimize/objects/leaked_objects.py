"""What is said of objects that accumulate."""

from __future__ import annotations

import gc
import sys
from dataclasses import dataclass, field
from typing import Any

from .program_objects import MOST_MET

_LEAF = (str, bytes, bytearray)


@dataclass(frozen=True)
class GrowingKind:
    """Objects of one type, tensors of one shape, or the entries of one long container."""

    name: str
    count_per_step: float
    bytes_per_step: float
    """Of tensors by their storages; of objects by the sizes of the newest, with texts and arrays that they hold."""
    holder: str | None = None
    """The container that holds the newest, such as `train.py: losses (list)`; None where none was found."""
    line: str | None = None
    """Where the newest was allocated, with `trace_lines`."""
    is_tensor: bool = False
    has_graph: bool = False
    """Tensors that keep the graph that computed them."""
    entry_type: str | None = None
    """Of a container: the type of its newest entry."""

    @property
    def advice(self) -> str | None:
        if self.has_graph:
            return "loss tensors keep their graph: use .item() or .detach()"
        return None

    def __str__(self) -> str:
        text = f"{self.name}: +{self.count_per_step:.3g} a step, {_bytes(self.bytes_per_step)} a step"
        if self.entry_type is not None:
            text += f", the newest a {self.entry_type}"
        if self.holder is not None:
            text += f", held by {self.holder}"
        if self.line is not None:
            text += f", allocated at {self.line}"
        return text if self.advice is None else f"{text}; {self.advice}"


@dataclass(frozen=True)
class AllocationLine:
    """A line whose allocations are still alive."""

    place: str
    count_per_step: float
    bytes_per_step: float

    def __str__(self) -> str:
        return f"{self.place}: +{self.count_per_step:.3g} blocks, {_bytes(self.bytes_per_step)} a step"


@dataclass(frozen=True)
class ObjectReport:
    """What accumulates between steps."""

    growing: list[GrowingKind]
    lines: list[AllocationLine]
    """By `tracemalloc`, with `trace_lines`."""
    steps: int
    samples: int
    """Looks at what the program holds."""
    counts: int
    """Counts of all objects, which take longer and are rarer."""
    is_established: bool
    """Whether there were samples enough to tell a container that goes on growing."""
    is_whole: bool
    """Whether looks met everything that the program's variables lead to; of very many objects they meet the nearest."""
    is_counted: bool
    """Whether all objects were counted often enough to tell growth that no container of the program shows."""
    retained_bytes_per_step: float
    """Bytes of tensors that accumulate."""
    graph_tensors_per_step: float
    graph_nodes_per_step: float
    """Operations of autograd graphs that accumulate, also those of one tensor, such as a running sum of losses."""
    graph_bytes_per_step: float | None
    """Bytes that these graphs keep for a backward pass, at least; retained tensors may be among them. None where they do not tell, as after a backward pass."""
    seconds: float = field(compare=False)
    """What looking took within steps; a report's time is not the loop's."""
    time_share: float = field(compare=False)
    """The share of this in the loop's time, from its first step on: from 0 to 1."""

    def facts(self) -> dict[str, dict[str, Any]]:
        """What the rules of advice take, under `torch`; None where no growth is established."""
        return {
            "torch": {
                "retained_bytes_per_step": self.retained_bytes_per_step or None,
                "graph_tensors_per_step": self.graph_tensors_per_step or (1.0 if self.graph_nodes_per_step else None),
                "graph_bytes_per_step": self.graph_bytes_per_step or None,
            }
        }

    def __str__(self) -> str:
        lines = [str(one) for one in self.growing] + [str(one) for one in self.lines]
        if self.graph_nodes_per_step and not any(one.has_graph for one in self.growing):
            lines.append(f"a graph grows by {self.graph_nodes_per_step:.3g} operations a step: add up loss.item() instead of loss")
        if self.graph_bytes_per_step:
            lines.append(f"graphs of tensors that are kept hold {_bytes(self.graph_bytes_per_step)} a step for a backward pass")
        return "\n".join(lines or [self._nothing()])

    def _nothing(self) -> str:
        if not self.is_established:
            samples = "1 sample" if self.samples == 1 else f"{self.samples} samples"
            return f"{samples} in {self.steps} steps: too few to tell growth"
        near = "" if self.is_whole else f" among the {MOST_MET:,} objects nearest to its variables"
        if not self.is_counted:
            return f"no container of the program{near} grows in {self.steps} steps; {self.counts} counts of all objects are too few to tell more"
        if not self.is_whole:
            return f"no container of the program{near} grows in {self.steps} steps, and by {self.counts} counts of all objects none of 64 entries or more"
        return f"nothing accumulates in {self.steps} steps"


def nothing_counted() -> ObjectReport:
    """The report where objects are not counted: the same fields."""
    return ObjectReport([], [], 0, 0, 0, False, True, False, 0.0, 0.0, 0.0, None, 0.0, 0.0)


def object_bytes(thing: Any) -> float:
    """Size of an object with the texts and arrays that it holds directly. Asks types, not objects: a proxy may refuse."""
    if issubclass(type(thing), _LEAF):
        return float(_own_bytes(thing))
    parts = gc.get_referents(thing)[:64]
    # Up to Python 3.10 attributes lie in a dictionary of the object's own; later ones are among the parts.
    attributes = [part for part in parts if type(part) is dict and not issubclass(type(thing), dict)][:1]
    for own in attributes if type(thing).__dictoffset__ else []:
        parts += list(own.values())[:64]
    return float(_own_bytes(thing) + sum(_own_bytes(part) for part in parts if issubclass(type(part), _LEAF) or _is_array(part)))


def _own_bytes(thing: Any) -> int:
    try:
        # Arrays and tensors say how much they hold; a view of another one would count it again.
        if _is_array(thing) and getattr(thing, "base", None) is None:
            return int(thing.nbytes) + sys.getsizeof(0)
        return sys.getsizeof(thing)
    except Exception:  # whatever a class of the program answers
        return 0


def _is_array(thing: Any) -> bool:
    return type(thing).__module__ in ("numpy", "torch") and hasattr(type(thing), "nbytes")


def _bytes(number: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if abs(number) < 1024:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} GiB"
