"""Python objects and tensors that accumulate from step to step: which, how fast, made where, and held by whom."""

from __future__ import annotations

import collections
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
from .described_kinds import described_kind
from .graph_bytes import kept_by_graphs
from .growth_judge import GrowthJudge
from .holders import find_holders
from .leaked_objects import AllocationLine, ObjectReport
from .newest_objects import add_tensors_of_containers, newest_of
from .no_collections import no_collections
from .object_samples import take_sample
from .program_objects import look_at_program
from .time_ration import TimeRation, allowed_secs
from .tracing import begin_tracing, end_tracing, restarts

# Samples take at most this share of the time, after the first seconds; of that, looks at the program take a part and counts of all objects the rest.
_TIME_SHARE = 0.01
_LOOKS_PART = 0.25
# What the first of each may take, before one was measured: a look, and a count by the blocks that Python has allocated.
_FIRST_LOOK_SECS = 0.005
_COUNT_SECS_PER_BLOCK = 2e-7
# It is begun where there is time for so many times that: one that is given up is time lost.
_MARGIN = 1.3
# Snapshots of allocated lines, by the memory of the tracer.
_LINES_SECS_PER_BYTE = 1e-8
# Looks that are further apart than this, or too few to tell growth, may take the time of counts.
_LONGEST_SECS = 5.0
# Until growth can be told, looks are so many steps apart, where `every_steps` is more.
_EARLY_STEPS = 10
_FRAMES = 4


class ObjectLeaks:
    """Follows what accumulates: the program's lists, dictionaries and sets by their lengths, all objects by type, all tensors by shape.

    A look at what the program's variables lead to takes milliseconds, and is taken every `every_steps` steps (every ten to begin with).
    All objects are counted where the time allows it: both together take at most five percent of the first 20 seconds of the loop and one percent after that.
    Growth is reported once it goes on over several samples without slowing down; a cache that fills and stops is not, nor a list that is emptied at every epoch, nor what fills up to a known bound.
    `trace_lines` also finds the lines that allocate (`tracemalloc`, which makes Python noticeably slower): from the first step to `stop()`.
    Objects are looked at, never changed; frozen ones (`gc.freeze`) are not counted.

    >>> leaks, losses = ObjectLeaks(every_steps=1), []
    >>> leaks.time_share = float("inf")  # of the time that passes, all
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
        self._of_program = GrowthJudge()
        self._of_all = GrowthJudge()
        self._steps = self._samples = self._counts = 0
        self._looking = TimeRation(_LOOKS_PART, _FIRST_LOOK_SECS)
        self._counting = TimeRation(1 - _LOOKS_PART, 0.0)
        self._report_secs = self._looked_at = 0.0
        self._begun_at: float | None = None
        self._started_tracing = False
        self._first_lines: dict[Line, tuple[int, int]] | None = None
        self._lines_step = 0
        self._lines_restart = 0
        self._watched: list[tuple[str, weakref.ref[Any]]] = []
        self._on_cleanup: list[Callable[[], object]] = []

    __reduce__ = refuse_pickling

    def step(self) -> None:
        """Call it once in each training step."""
        self._steps += 1
        if self._begun_at is None:
            self._begun_at = perf_counter()
            self._counting.expected_secs = _COUNT_SECS_PER_BLOCK * sys.getallocatedblocks()
            self._begin_tracing()
        every = self.every_steps if self._of_program.is_established else min(self.every_steps, _EARLY_STEPS)
        if self._steps % every == 0:
            self._sample()

    def stop(self) -> None:
        """Ends tracing of allocation lines, where this began it. Counts stay."""
        if self._started_tracing:
            self._started_tracing = False
            end_tracing()
        self._first_lines = None

    def __enter__(self) -> ObjectLeaks:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def report(self) -> ObjectReport:
        """What accumulates, the most first. Looks for holders, which takes a walk over the objects; facts go into the current run."""
        begun = perf_counter()
        growing = self._of_all.growing()
        nodes, graph_tensors = (growing.pop((name,), (0.0, 0.0))[0] for name in ("nodes", "graph"))
        # Looks see more of the program's containers than counts do: also that they became short.
        growing = {kind: rates for kind, rates in growing.items() if not self._of_program.follows(kind)} | self._of_program.growing()
        nodes = max(nodes, growing.pop(("nodes",), (0.0, 0.0))[0])
        newest = newest_of(set(growing))
        add_tensors_of_containers(growing, newest)
        holders = find_holders(list(newest.values()))
        described = {kind: described_kind(kind, rates, newest.get(kind, []), holders) for kind, rates in growing.items()}
        found = [one for one in described.values() if one is not None]
        # Tensors of several kinds may be parts of one graph, which counts once: by the kind that keeps the most.
        kept = {kind: kept_by_graphs(ones) for kind, ones in newest.items() if kind[0] == "tensor" and kind[-1] and described[kind]}
        graph_bytes = max((size * growing[kind][0] for kind, size in kept.items() if size is not None), default=None)
        newest.clear()
        spent = self._looking.spent_secs + self._counting.spent_secs
        loop_secs = 0.0 if self._begun_at is None else begun - self._begun_at - self._report_secs
        found.sort(key=lambda one: (one.has_graph, one.bytes_per_step, one.count_per_step), reverse=True)
        tensors = [one for one in found if one.is_tensor]
        result = ObjectReport(
            growing=found[: self.top_n],
            lines=self._growing_lines(),
            steps=self._steps,
            samples=self._samples,
            counts=self._counts,
            is_established=self._of_program.is_established,
            is_whole=self._of_program.is_whole,
            is_counted=self._of_all.is_established,
            retained_bytes_per_step=sum(one.bytes_per_step for one in tensors),
            graph_tensors_per_step=graph_tensors or sum((one.count_per_step for one in tensors if one.has_graph), 0.0),
            graph_nodes_per_step=nodes,
            graph_bytes_per_step=graph_bytes,
            seconds=spent,
            # Threads may look at the same time.
            time_share=spent / max(loop_secs, spent, 1e-9),
        )
        self._report_secs += perf_counter() - begun
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
        """Calls what was registered by `on_cleanup`, and forgets watched objects that are gone. Nobody else's objects are touched."""
        before = process_heap.rss_bytes()
        called = 0
        for function in list(self._on_cleanup):
            try:
                function()
                called += 1
            except Exception as error:
                report(f"cleanup: {getattr(function, '__qualname__', function)!s} failed: {error!r}")
        self._watched = [(name, reference) for name, reference in self._watched if reference() is not None]
        return {"called": called, "freed_bytes": max(0, before - process_heap.rss_bytes())}

    def _sample(self) -> None:
        begun = perf_counter()
        allowed = allowed_secs(begun - (self._begun_at or begun) - self._report_secs, self.time_share)
        with no_collections():
            if self._may_look(begun, allowed):
                self._look(begun)
            if self._may_count(allowed, self._counting.expected_secs):
                self._count(allowed)
            # The first samples see a program that is still being built.
            has_lines = self._first_lines is not None and self._lines_restart == restarts()
            if self.trace_lines and not has_lines and self._samples >= 2 and tracemalloc.is_tracing():
                if self._may_count(allowed, _LINES_SECS_PER_BYTE * tracemalloc.get_tracemalloc_memory()):
                    begun = perf_counter()
                    self._lines_restart = restarts()
                    self._first_lines, self._lines_step = traced_lines(), self._steps
                    self._counting.spend(perf_counter() - begun, is_usual=False)

    def _left_secs(self, allowed: float) -> float:
        return allowed - self._looking.spent_secs - self._counting.spent_secs

    def _may_look(self, now: float, allowed: float) -> bool:
        if self._looking.has_left(allowed):
            return True
        is_late = not self._of_program.is_established or now - self._looked_at >= _LONGEST_SECS
        return is_late and self._looking.expected_secs <= self._left_secs(allowed)

    def _may_count(self, allowed: float, expected_secs: float) -> bool:
        return _MARGIN * expected_secs <= min(self._counting.left_secs(allowed), self._left_secs(allowed))

    def _look(self, begun: float) -> None:
        self._of_program.add(look_at_program(self._steps))
        self._samples += 1
        self._looked_at = perf_counter()
        self._looking.spend(self._looked_at - begun)

    def _count(self, allowed: float) -> None:
        """Of all objects; given up where it takes longer than there is time, and begun again when it fits."""
        begun = perf_counter()
        longest = min(self._counting.left_secs(allowed), self._left_secs(allowed))
        done = 1.0

        def goes_on(part: float) -> bool:
            nonlocal done
            done = part
            return perf_counter() - begun <= longest

        sample = take_sample(self._steps, goes_on)
        if sample is not None:
            self._of_all.add(sample, self._of_program.places())
            self._counts += 1
        seconds = perf_counter() - begun
        self._counting.spend(seconds, is_usual=False)
        self._counting.expect(seconds if sample is not None else seconds / max(done, 1e-3))

    def _begin_tracing(self) -> None:
        if self.trace_lines:
            self._started_tracing = begin_tracing(_FRAMES) or self._started_tracing

    def _growing_lines(self) -> list[AllocationLine]:
        if self._first_lines is None or self._lines_restart != restarts() or not tracemalloc.is_tracing():
            return []
        steps = max(1, self._steps - self._lines_step)
        grown = []
        for (file, number), (size, count) in traced_lines().items():
            size_before, count_before = self._first_lines.get((file, number), (0, 0))
            grown.append(AllocationLine(f"{file}:{number}", (count - count_before) / steps, (size - size_before) / steps))
        # Largest first; what is a hundredth of that, or less than a byte a step, is noise.
        least = max(1.0, max((one.bytes_per_step for one in grown), default=0.0) / 100)
        return sorted((one for one in grown if one.bytes_per_step >= least), key=lambda one: -one.bytes_per_step)[: self.top_n]
