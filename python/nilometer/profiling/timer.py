"""How long the parts of a training step take."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from .. import _native
from .._allocator_figures import AllocatorFigures
from .._training_run import Run, settle_before_finish
from .._trouble import refuse_pickling, report, require_type
from ._cuda import device_index, torch_with_cuda
from ._phase_peaks import PhasePeaks, peak_bounds

_MOST_PENDING = 4096


class TrainingTimer(_native.PhaseTimer):
    """Times named phases: `start`/`stop`, or `with timer.phase("forward")`. Phases nest as `outer/inner`.

    On a CUDA device (torch loaded, `device` not the CPU) a phase is timed by events on the GPU's own stream, so that timing
    never makes the program wait: the run and `get_summary()` have the GPU's time, and `stop` gives the host's, in which the work was queued.
    With `synchronize=True` each `stop` waits for the GPU and gives its time, which costs the overlap of GPU and host.
    The summary then also has the peak of memory that PyTorch had allocated in each phase, `peak_at_least_bytes` and `peak_at_most_bytes`, which are
    the same where it is known: PyTorch's own peak is read when a phase begins and ends, and never reset.
    That is done for the first three phases of each name, and then as often as it takes 0.1 % of the time.

    >>> timer = TrainingTimer()
    >>> timer.start("forward")
    >>> seconds = timer.stop("forward")
    >>> seconds >= 0
    True
    >>> with timer.phase("step"):
    ...     with timer.phase("backward"):
    ...         pass
    >>> sorted(timer.get_summary())
    ['forward', 'step', 'step/backward']
    >>> timer.get_summary()["forward"]["count"]
    1
    """

    __reduce__ = refuse_pickling

    device: int | None
    """The GPU's index; None for the CPU."""

    def __new__(cls, device: Any = None, *, run: Run | None = None, synchronize: bool = False) -> TrainingTimer:
        index = device_index(device)
        if run is not None:
            require_type(run, _native.Run, "run")
        require_type(synchronize, bool, "synchronize")
        is_cuda = cls is TrainingTimer and index is not None and torch_with_cuda() is not None
        timer = super().__new__(CudaTimer if is_cuda else cls, run)
        timer.device = index
        return timer

    def __init__(self, device: Any = None, *, run: Run | None = None, synchronize: bool = False) -> None:
        super().__init__()

    def __call__(self, name: str) -> contextlib.AbstractContextManager[None]:
        """The same as `phase`."""
        return self.phase(name)


class CudaTimer(TrainingTimer):
    """Phases timed by CUDA events on the current stream."""

    def __init__(self, device: Any = None, *, run: Run | None = None, synchronize: bool = False) -> None:
        super().__init__()
        self._torch = torch_with_cuda()
        self._synchronize = synchronize
        # What is open, by the thread or asyncio task that opened it.
        self._open: dict[tuple[int, int], list[_OpenPhase]] = {}
        self._pending: deque[tuple[GpuSeconds, int | None, tuple[int, int] | None]] = deque()
        self._spare: list[Any] = []
        self._peaks = PhasePeaks(self._torch, self.device or 0)
        settle_before_finish.add(self)

    def _event(self) -> Any:
        """An event on the current stream; making one costs more than recording it, so they are used again."""
        event = self._spare.pop() if self._spare else self._torch.cuda.Event(enable_timing=True)
        event.record(self._torch.cuda.current_stream(self.device))
        return event

    def start(self, name: str) -> None:
        if not name:
            return report(f"start({name!r}): its name is empty; it is not timed")
        mine = self._open.setdefault(_native.current_strand(), [])
        if any(phase.name == name for phase in mine):
            return report(f"start({name!r}): it is already running; it is not timed")
        outer = mine[-1].path + "/" if mine else ""
        path = outer + name
        memory = self._peaks.begin(path)
        mine.append(_OpenPhase(name, path, self._event(), time.perf_counter(), memory))

    def stop(self, name: str | None = None) -> float:
        """Ends a phase; gives the host's seconds, or with `synchronize` the GPU's."""
        phases = self._close(name)
        if not phases:
            what = "no phase is open" if name is None else f"{name!r} was not started"
            report(f"stop: {what}")
            return 0.0
        phase, *inner = phases
        if inner:
            report(f"stop: {', '.join(each.name for each in inner)} was still open inside; it is not timed")
        on_host = time.perf_counter() - phase.started
        on_gpu = GpuSeconds(phase.path, phase.event, self._event())
        memory = None if phase.memory is None else peak_bounds(phase.memory, self._peaks.look())
        seconds = on_gpu.wait() if self._synchronize else on_host
        self._pending.append((on_gpu, self.current_step(), memory))
        self.settle(wait=False)
        return seconds

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:  # type: ignore[override]
        """Times a block."""
        self.start(name)
        try:
            yield
        finally:
            if name:
                self.stop(name)

    def cancel(self, name: str) -> None:
        """Gives up a phase, and whatever is open inside it."""
        self._close(name)

    def _close(self, name: str | None) -> list[_OpenPhase]:
        """Takes away a phase, the innermost one without a name, and what is open inside it; nothing where it is not open."""
        strand = _native.current_strand()
        mine = self._open.get(strand, [])
        position = next((at for at in reversed(range(len(mine))) if name is None or mine[at].name == name), None)
        closed = [] if position is None else mine[position:]
        del mine[len(mine) - len(closed) :]
        if not mine:
            self._open.pop(strand, None)
        return closed

    def settle(self, wait: bool = True) -> None:
        """Stores the phases that the GPU has finished, each under the step that it was measured in."""
        while self._pending and (wait or len(self._pending) > _MOST_PENDING or self._pending[0][0].ready()):
            seconds, step, memory = self._pending.popleft()
            self.add(seconds.path, seconds.wait(), step, peak_bytes=memory)
            self._spare.extend(seconds.release())

    def get_summary(self) -> dict[str, dict[str, Any]]:
        """As TrainingTimer's; waits for phases that the GPU is still at."""
        self.settle()
        return super().get_summary()

    def get_bottleneck(self) -> dict[str, Any] | None:
        """As TrainingTimer's; waits likewise."""
        self.settle()
        return super().get_bottleneck()

    def reset(self) -> None:
        self._pending.clear()
        super().reset()


class _OpenPhase(NamedTuple):
    name: str
    path: str
    event: Any
    started: float
    memory: AllocatorFigures | None


class GpuSeconds:
    """The duration of a phase on the GPU, between two events."""

    __slots__ = ("_end", "_seconds", "_start", "path")

    def __init__(self, path: str, start: Any, end: Any) -> None:
        self.path = path
        self._start = start
        self._end = end
        self._seconds: float | None = None

    def ready(self) -> bool:
        """Whether it can be had without waiting."""
        return self._seconds is not None or self._end.query()

    def wait(self) -> float:
        """The seconds, as soon as the GPU has passed the second event."""
        if self._seconds is None:
            self._end.synchronize()
            self._seconds = self._start.elapsed_time(self._end) / 1e3
        return self._seconds

    def release(self) -> tuple[Any, Any]:
        """Gives its events away; the number is known by then."""
        events = (self._start, self._end)
        self._start = self._end = None
        return events
