"""Garbage collection between training steps instead of in them."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
import sysconfig
import threading
import weakref
from collections.abc import Iterator
from time import perf_counter
from typing import Any

from ..._trouble import NilometerError, refuse_pickling, require, require_type
from .. import in_run
from . import process_heap
from .collector_pauses import PauseRecorder
from .memory_pressure import PressureGauge
from .step_times import StepTimes, Throttle
from .step_watch import StepWatch

# Steps after which what a training makes at its begin (optimizer state, compiled code) is there.
_WARM_UP_STEPS = 10
# Young objects that are collected at the next step, however few steps have gone by: some milliseconds, and a few MB.
_MOST_YOUNG = 10_000
# Fewer than these, for which Python itself would not begin, wait longer where the collections before found nothing.
_SOME_YOUNG, _LONGEST_WAIT = 700, 16
# Young objects at which Python collects by itself, within a step or where nobody calls `step`.
_AUTOMATIC_AT = 50_000
# The interpreter begins with some frozen objects of its own (Python 3.12: 375); more are somebody's `gc.freeze()`.
_FROZEN_BY_PYTHON = 1000
_IDLE_SECS = 10.0
_LOOK_SECS = 0.1
_TELL_SECS = 1.0
_TRIM_LEAST, _TRIM_SHARE = 64 << 20, 0.2
# In free-threaded builds there are no generations: each collection is a full one, and Python waits for a quarter more objects by itself.
_HAS_GENERATIONS = not sysconfig.get_config_var("Py_GIL_DISABLED")

_active: weakref.ref[GarbageCollector] | None = None
_active_lock = threading.Lock()


class GarbageCollector:
    """Collects Python's cyclic garbage between steps, so that no step waits for it.

    By default, what exists at `start()` and after ten steps is collected and frozen (it is looked at in full collections only),
    objects of the two younger generations are collected every `every_steps` steps, or earlier where many wait,
    and everything only in `boundary()` and when memory calls for it: at `pressure` of the limit (`limit_bytes`, or the smallest one in force),
    or when the process has grown by a quarter. Full collections and those by schedule take at most `max_time_share` of the time.
    Where `step()` is not called for a while, Python collects by itself as before, and memory is watched by a thread once a second.

    `thresholds` are set instead of that schedule: Python collects by itself, as often as they say.
    `interval` is the number of seconds after which a step collects in any case, and after which missing steps count as stopped (ten, or five steps, without it).
    `freeze=False` freezes nothing; nothing is frozen either where the program has called `gc.freeze()` itself.

    >>> with GarbageCollector(every_steps=2) as collector:
    ...     for _ in range(4):
    ...         collector.step()
    ...     collector.boundary()
    >>> collector.stats()["full_asked"]
    0
    """

    _ended_at: float | None
    _aside_secs: float
    _step_thread: int
    _times: StepTimes
    _young_throttle: Throttle
    _full_throttle: Throttle
    _steps_since: int
    _wait_steps: int
    _trims: int
    _trimmed_bytes: int
    _last_trim: tuple[int, int] | None

    def __init__(
        self,
        *,
        thresholds: tuple[int, int, int] | None = None,
        every_steps: int = 50,
        interval: float | None = None,
        pressure: float = 0.9,
        freeze: bool = True,
        limit_bytes: int | None = None,
        max_time_share: float = 0.05,
    ) -> None:
        if thresholds is not None:
            require_type(thresholds, (tuple, list), "thresholds")
            right = len(thresholds) == 3 and all(type(one) is int and 0 <= one < 1 << 31 for one in thresholds)
            require(right and thresholds[0] > 0, f"thresholds must be three whole numbers such as (700, 10, 10), the first above 0, not {thresholds!r}")
        require_type(every_steps, int, "every_steps")
        require(every_steps >= 1, f"every_steps must be at least 1, not {every_steps}")
        require_type(interval, (int, float, type(None)), "interval")
        require(interval is None or interval > 0, f"interval must be above 0 seconds, not {interval}")
        require_type(pressure, (int, float), "pressure")
        require(0 < pressure <= 1, f"pressure must be a share above 0 and at most 1, not {pressure}")
        require_type(freeze, bool, "freeze")
        require_type(limit_bytes, (int, type(None)), "limit_bytes")
        require(limit_bytes is None or limit_bytes > 0, f"limit_bytes must be above 0, not {limit_bytes}")
        require_type(max_time_share, (int, float), "max_time_share")
        require(0 < max_time_share <= 1, f"max_time_share must be above 0 and at most 1, not {max_time_share}")
        self.thresholds = None if thresholds is None else tuple(thresholds)
        self.every_steps = every_steps
        self.interval = None if interval is None else float(interval)
        self.freeze = freeze
        self.max_time_share = float(max_time_share)
        self._pressure, self._limit_bytes = float(pressure), limit_bytes
        self._pauses = PauseRecorder()
        self._lock = threading.RLock()
        self._is_started = self._is_scheduling = self._freezes = self._has_frozen = False
        self._frozen = 0
        self._was_started = self._is_child = False
        self._watch: StepWatch | None = None
        self._begin()

    __reduce__ = refuse_pickling

    def start(self) -> None:
        """Takes over. Only one collector can be started in a process; starting the same twice changes nothing."""
        global _active
        with _active_lock:
            other = None if _active is None else _active()
            if other is self and self._is_started:
                return
            if other is not None and other._is_started:
                raise NilometerError("garbage collection is already managed by another GarbageCollector; stop that one first")
            _active = weakref.ref(self)
        self._before = (gc.isenabled(), gc.get_threshold())
        self._freezes = self.freeze and gc.get_freeze_count() < _FROZEN_BY_PYTHON
        self._is_started = True
        self._was_started = True
        atexit.register(self.stop)
        begun = perf_counter()
        self._collect_all()
        ended = perf_counter()
        self._begin()
        self._boundary_throttle.spend(begun, ended)
        self._pauses.start_up_secs = ended - begun
        self._pauses.install()
        self._take_over()

    def stop(self) -> None:
        """Gives back: thresholds, automatic collection and frozen objects are as before `start()`."""
        if not self._is_started:
            return
        self._tell_facts()
        self._is_started = False
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
        self._pauses.remove()
        self._ended_at = perf_counter()
        self._leave_frozen_what_the_program_froze()
        if self._has_frozen:
            gc.unfreeze()
        self._has_frozen = self._is_scheduling = False
        enabled, thresholds = self._before
        gc.set_threshold(*thresholds)
        (gc.enable if enabled else gc.disable)()
        atexit.unregister(self.stop)

    def __enter__(self) -> GarbageCollector:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def step(self) -> None:
        """Call it once in each training step, where few temporary objects are alive: after `optimizer.step()`."""
        if not self._is_started:
            return
        now = perf_counter()
        self._times.note(now)
        self._step_thread = threading.get_ident()
        self._steps_since += 1
        if not self._is_scheduling:
            self._take_over()
        if self._times.count == _WARM_UP_STEPS and self._freezes:
            self._pauses.is_start_up = True
            try:
                self._collect_all(again=False)
            finally:
                self._pauses.is_start_up = False
        elif self._is_due(now):
            found = self.collect(1)
            # Where nothing is left behind, looking for it becomes rare.
            self._wait_steps = self.every_steps if found else min(2 * self._wait_steps, _LONGEST_WAIT * self.every_steps)
        if now - self._looked_at >= _LOOK_SECS:
            self._look_at_memory(now)
        if now - self._told_at >= _TELL_SECS:
            self._tell(now)

    def boundary(self) -> None:
        """Call it where a pause does no harm: after an epoch, before an evaluation, beside a checkpoint. Everything may be collected here, and unused heap is given back."""
        if not self._is_started:
            return
        now = perf_counter()
        if self._full_throttle.allows(now) and self._boundary_throttle.allows(now):
            self._collect_all()
        unused = process_heap.unused_bytes()
        if unused is not None and unused > max(_TRIM_LEAST, _TRIM_SHARE * process_heap.rss_bytes()) and self._trim_throttle.allows(now):
            self.trim()
        self._times.pause()
        self._tell(perf_counter())

    def collect(self, generation: int = 1) -> int:
        """Collects now, and gives the number of objects that could not be reached. Generation 2 is everything that is not frozen."""
        require(generation in (0, 1, 2), f"generation must be 0, 1 or 2, not {generation!r}")
        # Never waited for: finalizers run within a collection, and may wait for anybody.
        if not self._lock.acquire(blocking=False):
            return 0
        begun = perf_counter()
        try:
            self._pauses.own_thread = threading.get_ident()
            found = gc.collect(generation)
        finally:
            self._pauses.own_thread = 0
            self._lock.release()
        ended = perf_counter()
        self._young_throttle.spend(begun, ended)
        self._steps_since, self._collected_at = 0, ended
        return found

    def trim(self) -> int:
        """Has the C library give unused memory back (`malloc_trim`), and gives the bytes by which this process became smaller. Takes about a tenth of a second for a GB."""
        begun = perf_counter()
        given_back = process_heap.trim()
        self._trim_throttle.spend(begun, perf_counter())
        self._trims += 1
        self._trimmed_bytes += given_back
        self._last_trim = (given_back, process_heap.rss_bytes())
        return given_back

    def emergency(self) -> dict[str, int]:
        """Frees all unused memory, whatever it costs: a full collection, torch's cache on GPUs, and the C heap."""
        before = process_heap.rss_bytes()
        collected = self._collect_all()
        cuda_bytes = _empty_cuda_cache()
        trimmed = self.trim()
        freed = max(0, before - process_heap.rss_bytes())
        in_run.tell_mark(
            f"emergency cleanup: {collected} objects collected, {freed / 2**20:.0f} MiB of host memory and {cuda_bytes / 2**20:.0f} MiB of GPU memory freed"
        )
        return {"collected": collected, "freed_bytes": freed, "trimmed_bytes": trimmed, "cuda_bytes": cuda_bytes}

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Within it the loop stands still, for a report: neither its time nor its collections are those of the steps. On another thread than theirs the loop goes on, and its time with it."""
        pauses, thread = self._pauses, threading.get_ident()
        if pauses.aside_thread:
            yield
            return
        pauses.aside_thread, begun = thread, perf_counter()
        try:
            yield
        finally:
            pauses.aside_thread = 0
            seconds = perf_counter() - begun
            if self._step_thread in (0, thread):
                self._aside_secs += seconds
                self._times.leave_out(seconds)

    @property
    def is_automatic(self) -> bool:
        """Whether Python collects by itself: with `thresholds`, and while no steps are made."""
        return not self._is_scheduling or not self._has_schedule

    def stats(self) -> dict[str, Any]:
        """Collections of the whole program since `start()`. What is collected and frozen to begin with, there and after ten steps, is in `startup_seconds` alone."""
        pauses = self._pauses
        return {
            "collections": dict(enumerate(pauses.by_generation)),
            "automatic": pauses.automatic,
            "own": pauses.own,
            "asked": pauses.asked,
            "full_asked": pauses.full_asked,
            "pause_count": pauses.count,
            "pause_total_seconds": pauses.total_secs,
            "asked_seconds": pauses.asked_secs,
            "pause_max_seconds": pauses.longest_secs,
            "startup_seconds": pauses.start_up_secs,
            "pause_p50_seconds": pauses.percentile(0.5),
            "pause_p99_seconds": pauses.percentile(0.99),
            "collected": pauses.collected,
            "uncollectable": pauses.uncollectable,
            "trims": self._trims,
            "trimmed_bytes": self._trimmed_bytes,
            "time_share": pauses.total_secs / max(self._wall_secs(), 1e-9),
            "steps": self._times.count,
            "frozen_objects": gc.get_freeze_count() if self._has_frozen else 0,
        }

    def facts(self) -> dict[str, dict[str, Any]]:
        """What the rules of advice take, under `gc` and `host`; what is not known is None."""
        pauses, heap = self._pauses, process_heap.heap()
        regrown = None
        if self._last_trim is not None and self._last_trim[0] > 0:
            given_back, rss = self._last_trim
            regrown = min(1.0, max(0.0, (process_heap.rss_bytes() - rss) / given_back))
        return {
            "gc": {
                "enabled": gc.isenabled(),
                **self._who_collects(),
                "wall_seconds": self._wall_secs(),
                "steps": self._times.count,
                "total_seconds": pauses.total_secs,
                "automatic_seconds": pauses.automatic_secs,
                "longest_pause_seconds": pauses.longest_automatic_secs,
                "asked_seconds": pauses.asked_secs,
                "full_collections_asked": pauses.full_asked,
                "step_seconds": self._times.median(),
            },
            "host": {
                "rss_bytes": process_heap.rss_bytes(),
                "heap_live_bytes": None if heap is None else heap.live_bytes,
                "heap_free_bytes": process_heap.unused_bytes(),
                "trimmed_bytes": self._trimmed_bytes if self._trims else None,
                "regrown_ratio": regrown,
                "limit_bytes": self._gauge.limit_bytes,
            },
        }

    def _who_collects(self) -> dict[str, bool]:
        """Of the stretch that the figures are of: a collector that was stopped was in use all the same. With `thresholds` it is Python that collects."""
        return {"managed": self._was_started and self.thresholds is None, "sets_thresholds": self._was_started and self.thresholds is not None}

    def _begin(self) -> None:
        self._has_told_who = False
        self._told_pause_secs: float | None = None
        self._pauses.forget()
        self._gauge = PressureGauge(self._pressure, self._limit_bytes)
        self._begun_at = self._told_at = self._looked_at = self._collected_at = perf_counter()
        self._ended_at = None
        self._aside_secs, self._step_thread = 0.0, 0
        self._times = StepTimes()
        self._steps_since = self._trims = self._trimmed_bytes = 0
        self._last_trim = None
        self._wait_steps = self.every_steps
        # Half of the time for young collections by schedule, half for full ones.
        self._young_throttle, self._full_throttle = Throttle(self.max_time_share / 2), Throttle(self.max_time_share / 2)
        # What was looked at in `start()` is not looked at again at the end of a first short epoch; memory that gets short does not wait for it.
        self._boundary_throttle = Throttle(self.max_time_share / 2)
        self._trim_throttle = Throttle(self.max_time_share)

    @property
    def _has_schedule(self) -> bool:
        return self.thresholds is None and _HAS_GENERATIONS

    def _take_over(self) -> None:
        if self._watch is None:
            self._watch = StepWatch(self._on_idle_second)
            if not self._watch.begin():
                self._watch = None
                return  # no thread to watch memory: Python goes on by itself
        self._is_scheduling = True
        if self.thresholds is not None:
            gc.set_threshold(*self.thresholds)
        elif _HAS_GENERATIONS:
            gc.set_threshold(_AUTOMATIC_AT, *self._before[1][1:])
        gc.enable()

    def _give_way(self) -> None:
        """Python collects by itself until the next step."""
        self._is_scheduling = False
        thresholds = self.thresholds or self._before[1]
        gc.set_threshold(*(thresholds if thresholds[0] > 0 else (700, 10, 10)))
        gc.enable()

    def _is_due(self, now: float) -> bool:
        if self.interval is not None and now - self._collected_at >= self.interval:
            return True
        if not self._has_schedule:
            return False
        waiting = gc.get_count()[0]
        if waiting >= _MOST_YOUNG:
            return True
        wait_steps = self.every_steps if waiting >= _SOME_YOUNG else self._wait_steps
        return self._steps_since >= wait_steps and self._young_throttle.allows(now)

    def _collect_all(self, again: bool = True) -> int:
        """A full collection, and what remains is frozen; `again` looks at what is frozen already too."""
        if not self._lock.acquire(blocking=False):
            return 0
        begun = perf_counter()
        try:
            self._leave_frozen_what_the_program_froze()
            if again and self._has_frozen:
                gc.unfreeze()
            found = self.collect(2)
            if self._freezes and self._is_started:
                gc.freeze()
                self._has_frozen, self._frozen = True, gc.get_freeze_count()
        finally:
            self._lock.release()
        self._full_throttle.spend(begun, perf_counter())
        self._gauge.note_full_collection()
        return found

    def _leave_frozen_what_the_program_froze(self) -> None:
        """Frozen objects become fewer by themselves; more are those of a `gc.freeze()` that is not ours. Nobody can take only his own back."""
        if self._has_frozen and gc.get_freeze_count() > self._frozen:
            self._freezes = self._has_frozen = False

    def _look_at_memory(self, now: float) -> None:
        self._looked_at = now
        if self._full_throttle.allows(now) and self._gauge.reason() is not None:
            self._collect_all()

    def _on_idle_second(self) -> None:
        """Once a second on the thread of `StepWatch`: what a step would do, where none comes."""
        now = perf_counter()
        if not self._is_started or not self._lock.acquire(blocking=False):
            return
        try:
            if now - self._looked_at < 1.0:
                return
            if self._is_scheduling and now - (self._times.last_at or self._begun_at) > self._patience():
                self._give_way()
            self._look_at_memory(now)
        finally:
            self._lock.release()

    def _patience(self) -> float:
        return max(_IDLE_SECS if self.interval is None else self.interval, 5 * (self._times.median() or 0.0))

    def _wall_secs(self) -> float:
        return (self._ended_at or perf_counter()) - self._begun_at - self._aside_secs

    def _tell(self, now: float) -> None:
        self._told_at = now
        if not self._has_told_who:
            # Before the end: a program that is killed has figures too.
            self._has_told_who = True
            in_run.tell_facts("gc", self._who_collects())
        # The metric has the pauses that the program asked for too.
        if self._pauses.longest_automatic_secs != self._told_pause_secs:
            self._told_pause_secs = self._pauses.longest_automatic_secs
            in_run.tell_facts("gc", {"longest_pause_seconds": self._told_pause_secs})
        longest, self._pauses.recent_longest_secs = self._pauses.recent_longest_secs, 0.0
        in_run.tell_metrics(
            {
                "gc/pause_max_ms": 1000 * longest,
                "gc/total_ms": 1000 * self._pauses.total_secs,
                "gc/collections": float(self._pauses.count),
                "gc/trimmed_mb": self._trimmed_bytes / 2**20,
            },
            step=in_run.newest_step(self._times.count),
        )

    def _tell_facts(self) -> None:
        # What a forked child that made no steps knows is not what is known of the training.
        if self._is_child and self._times.count == 0:
            return
        for subject, values in self.facts().items():
            in_run.tell_facts(subject, values)

    def _after_fork(self) -> None:
        """In the child: the same settings, Python collecting by itself until the child makes steps, and statistics of its own."""
        self._lock = threading.RLock()
        self._watch = None
        self._is_child = True
        self._pauses.own_thread = 0
        if self._is_started:
            self._begin()
            self._give_way()


def collect_everything() -> int:
    """A full collection of ours: where a collector is started, it does not count as one that the program asked for."""
    active = None if _active is None else _active()
    return gc.collect() if active is None or not active._is_started else active.collect(2)


def _empty_cuda_cache() -> int:
    """Where torch is imported and uses a GPU; gives the bytes given back."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0
    before = _reserved_bytes(torch)
    torch.cuda.empty_cache()
    return max(0, before - _reserved_bytes(torch))


def _reserved_bytes(torch: Any) -> int:
    return sum(int(torch.cuda.memory_reserved(device)) for device in range(torch.cuda.device_count()))


def _after_fork() -> None:
    global _active_lock
    _active_lock = threading.Lock()
    active = None if _active is None else _active()
    if active is not None:
        active._after_fork()


os.register_at_fork(after_in_child=_after_fork)
