"""Python objects and tensors that accumulate from step to step: which, how fast, made where, and held by whom."""

from __future__ import annotations

import collections
import contextlib
import gc
import os
import sys
import tracemalloc
import weakref
from collections.abc import Callable
from time import perf_counter
from typing import Any

from ..._trouble import refuse_pickling, report, require, require_type
from .. import in_run
from ..host import process_heap
from .allocation_lines import Line, traced_lines
from .graph_bytes import kept_by_graphs
from .holders import find_holders
from .leaked_objects import AllocationLine, GrowingKind, ObjectReport, object_bytes
from .object_samples import INCREMENTS, GrowthJudge, Kind, take_sample, tensor_kind

# Samples take at most this share of the time.
_TIME_SHARE = 0.01
# Objects of a growing kind whose sizes and holders are looked at.
_LOOKED_AT = 256
# The sizes of so many are averaged.
_WEIGHED = 32
_FRAMES = 4
_OUR_FILES = os.path.dirname(os.path.dirname(__file__)) + os.sep


class ObjectLeaks:
    """Follows, every `every_steps` steps, how many objects of each type, tensors of each shape and entries of long lists there are.

    Growth is reported once it goes on over several samples without slowing down; a cache that fills and stops is not.
    Samples take at most one percent of the time: where one takes long, they are further apart.
    `trace_lines` also finds the lines that allocate (`tracemalloc`, which makes Python noticeably slower): from the first step to `stop()`.
    Objects are looked at, never changed; frozen ones (`gc.freeze`) are not counted.

    >>> leaks, losses = ObjectLeaks(every_steps=1), []
    >>> leaks.time_share = 1.0
    >>> for step in range(200):
    ...     losses.append({"loss": [step]})
    ...     leaks.step()
    >>> [growing.name for growing in leaks.report().growing if "loss" in str(growing.holder)][:1]
    ['dict']
    """

    def __init__(self, *, top_n: int = 10, trace_lines: bool = False, every_steps: int = 50) -> None:
        require_type(top_n, int, "top_n")
        require(top_n >= 1, f"top_n must be at least 1, not {top_n}")
        require_type(trace_lines, bool, "trace_lines")
        require_type(every_steps, int, "every_steps")
        require(every_steps >= 1, f"every_steps must be at least 1, not {every_steps}")
        self.top_n = top_n
        self.trace_lines = trace_lines
        self.every_steps = every_steps
        self.time_share = _TIME_SHARE
        self._judge = GrowthJudge()
        self._steps = self._samples = 0
        self._sampling_secs = 0.0
        self._made_at = perf_counter()
        self._begun_at: float | None = None
        self._not_before = 0.0
        self._started_tracing = False
        self._first_lines: dict[Line, tuple[int, int]] | None = None
        self._lines_step = 0
        self._watched: list[tuple[str, weakref.ref[Any]]] = []
        self._on_cleanup: list[Callable[[], object]] = []

    __reduce__ = refuse_pickling

    def step(self) -> None:
        """Call it once in each training step."""
        self._steps += 1
        if self._begun_at is None:
            self._begun_at = perf_counter()
            self._begin_tracing()
        if self._steps % self.every_steps == 0 and perf_counter() >= self._not_before:
            self._sample()

    def stop(self) -> None:
        """Ends tracing of allocation lines, where this began it. Counts stay."""
        if self._started_tracing:
            self._started_tracing = False
            tracemalloc.stop()
        self._first_lines = None

    def __enter__(self) -> ObjectLeaks:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def report(self) -> ObjectReport:
        """What accumulates, the most first. Looks for holders, which takes a walk over the objects; facts go into the current run."""
        begun = perf_counter()
        growing = self._judge.growing()
        nodes = growing.pop(("nodes",), (0.0, 0.0))[0]
        graph_tensors = growing.pop(("graph",), (0.0, 0.0))[0]
        newest = _newest_of(set(growing))
        holders = find_holders(list(newest.values()))
        found = [self._described(kind, rates, newest.get(kind, []), holders) for kind, rates in growing.items()]
        # Tensors of several kinds may be parts of one graph, which counts once: by the kind that keeps the most.
        kept = {kind: kept_by_graphs(ones) for kind, ones in newest.items() if kind[0] == "tensor" and kind[-1]}
        graph_bytes = max((size * growing[kind][0] for kind, size in kept.items() if size is not None), default=None)
        newest.clear()
        ended = perf_counter()
        self._sampling_secs += ended - begun
        found.sort(key=lambda one: (one.has_graph, one.bytes_per_step, one.count_per_step), reverse=True)
        tensors = [one for one in found if one.is_tensor]
        result = ObjectReport(
            growing=found[: self.top_n],
            lines=self._growing_lines(),
            steps=self._steps,
            samples=self._samples,
            is_established=self._samples > INCREMENTS,
            retained_bytes_per_step=sum(one.bytes_per_step for one in tensors),
            graph_tensors_per_step=graph_tensors,
            graph_nodes_per_step=nodes,
            graph_bytes_per_step=graph_bytes,
            seconds=self._sampling_secs,
            # Threads may look at the same time.
            time_share=self._sampling_secs / max(ended - self._made_at, self._sampling_secs, 1e-9),
        )
        in_run.tell_facts("torch", result.facts()["torch"])
        return result

    def facts(self) -> dict[str, dict[str, Any]]:
        """What the rules of advice take, under `torch`; None where no growth is established."""
        return self.report().facts()

    def watch(self, thing: Any, name: str) -> None:
        """Follows one object by a weak reference, which does not keep it alive."""
        require_type(name, str, "name")
        try:
            self._watched.append((name, weakref.ref(thing)))
        except TypeError:
            raise TypeError(f"{name!r} cannot be watched: objects of type {type(thing).__name__} have no weak references") from None

    def alive(self) -> dict[str, int]:
        """Of what is watched, what still lives: names with the number of objects."""
        return dict(collections.Counter(name for name, reference in self._watched if reference() is not None))

    def on_cleanup(self, function: Callable[[], object]) -> None:
        """Has `cleanup()` call it: to empty a cache of the program's own, for example."""
        require(callable(function), f"on_cleanup takes a function, not {type(function).__name__}")
        self._on_cleanup.append(function)

    def cleanup(self) -> dict[str, int]:
        """Calls what was registered by `on_cleanup`, and drops what this object keeps itself. Nobody else's objects are touched."""
        before = process_heap.rss_bytes()
        called = 0
        for function in list(self._on_cleanup):
            try:
                function()
                called += 1
            except Exception as error:
                report(f"cleanup: {getattr(function, '__qualname__', function)!s} failed: {error!r}")
        self._watched = [(name, reference) for name, reference in self._watched if reference() is not None]
        self._judge = GrowthJudge()
        self._first_lines = None
        return {"called": called, "freed_bytes": max(0, before - process_heap.rss_bytes())}

    def _sample(self) -> None:
        begun = perf_counter()
        self._judge.add(take_sample(self._steps))
        self._samples += 1
        # The first samples see a program that is still being built.
        if self._samples == 2 and tracemalloc.is_tracing() and self.trace_lines:
            self._first_lines, self._lines_step = traced_lines(), self._steps
        ended = perf_counter()
        self._sampling_secs += ended - begun
        self._not_before = ended + (ended - begun) / self.time_share

    def _begin_tracing(self) -> None:
        if self.trace_lines and not tracemalloc.is_tracing():
            tracemalloc.start(_FRAMES)
            self._started_tracing = True

    def _described(self, kind: Kind, rates: tuple[float, float], newest: list[Any], holders: dict[int, tuple[str, str]]) -> GrowingKind:
        count, size = rates
        places = [holders[id(one)] for one in newest if id(one) in holders]
        usual = collections.Counter(holder for _, holder in places).most_common(1)
        path, holder = next(place for place in places if place[1] == usual[0][0]) if usual else (None, None)
        if kind[0] == "container":
            container = newest[0] if newest else []
            entry, name = _newest_entry(container), type(container).__name__
            return GrowingKind(
                name=f"{name} entries",
                count_per_step=count,
                bytes_per_step=count * object_bytes(entry),
                holder=None if path is None else f"{path} ({name})",
                entry_type=type(entry).__name__,
            )
        if kind[0] == "tensor":
            _, shape, dtype, device, graph = kind
            return GrowingKind(f"tensor {shape} {dtype} {device}", count, size, holder, is_tensor=True, has_graph=bool(graph))
        name = kind[2] if kind[1] in ("builtins", "__main__") else f"{kind[1]}.{kind[2]}"
        # Where holders are known, those without one are temporary, or ours.
        held = [one for one in newest if id(one) in holders] or newest
        sizes = [object_bytes(one) for one in held[-_WEIGHED:]]
        line = next(filter(None, map(_line_of, reversed(held))), None) if tracemalloc.is_tracing() else None
        return GrowingKind(name, count, count * sum(sizes) / max(1, len(sizes)), holder, line=line)

    def _growing_lines(self) -> list[AllocationLine]:
        if self._first_lines is None or not tracemalloc.is_tracing():
            return []
        steps = max(1, self._steps - self._lines_step)
        grown = []
        for (file, number), (size, count) in traced_lines().items():
            size_before, count_before = self._first_lines.get((file, number), (0, 0))
            grown.append(AllocationLine(f"{file}:{number}", (count - count_before) / steps, (size - size_before) / steps))
        # Largest first; what is a hundredth of that, or less than a byte a step, is noise.
        least = max(1.0, max((one.bytes_per_step for one in grown), default=0.0) / 100)
        return sorted((one for one in grown if one.bytes_per_step >= least), key=lambda one: -one.bytes_per_step)[: self.top_n]


def _newest_of(kinds: set[Kind]) -> dict[Kind, list[Any]]:
    """The newest objects of each kind. The collector's lists are in the order of age but for what a collection moved within them, so many are taken."""
    types = {(kind[1], kind[2]) for kind in kinds if kind[0] == "type"}
    containers = {int(kind[1]): kind for kind in kinds if kind[0] == "container"}
    has_tensors = any(kind[0] == "tensor" for kind in kinds)
    torch = sys.modules.get("torch")
    newest: dict[Kind, collections.deque[Any]] = {}
    for generation in (2, 1, 0):
        for thing in gc.get_objects(generation=generation):
            kind = type(thing)
            if (kind.__module__, kind.__qualname__) in types:
                newest.setdefault(("type", kind.__module__, kind.__qualname__), collections.deque(maxlen=_LOOKED_AT)).append(thing)
            if id(thing) in containers:
                newest.setdefault(containers[id(thing)], collections.deque(maxlen=1)).append(thing)
            if has_tensors and torch is not None and torch.Tensor in kind.__mro__:
                with contextlib.suppress(NotImplementedError, RuntimeError, ReferenceError):
                    named = tensor_kind(thing)
                    if named in kinds:
                        newest.setdefault(named, collections.deque(maxlen=_LOOKED_AT)).append(thing)
    return {kind: list(objects) for kind, objects in newest.items()}


def _newest_entry(container: Any) -> Any:
    try:
        if isinstance(container, dict):
            return container[next(reversed(container))]
        return container[-1] if isinstance(container, (list, collections.deque)) else next(iter(container))
    except (StopIteration, IndexError, KeyError, RuntimeError):
        return None  # emptied meanwhile


def _line_of(thing: Any) -> str | None:
    trace = tracemalloc.get_object_traceback(thing)
    if trace is None:
        # Python 3.11 does not find instances; what one holds was made beside it.
        own = [part for part in gc.get_referents(thing)[:8] if type(part) in (dict, list, bytes, bytearray, str)]
        trace = next(filter(None, map(tracemalloc.get_object_traceback, own)), None)
    frames = [frame for frame in trace or () if not frame.filename.startswith(_OUR_FILES)]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
