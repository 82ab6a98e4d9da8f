"""Phases of a GPU's stream for `nilometer.torch.watch`: timed by events, with the peak of memory; nothing waits for the GPU."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from ._allocator_figures import AllocatorFigures
from .profiling import TrainingTimer
from .profiling._cuda import device_index, torch_with_cuda
from .profiling._phase_peaks import PhasePeaks, peak_bounds
from .profiling.timer import GpuSeconds

# Phases that may wait for the GPU.
_MANY_PENDING = 64
_MOST_PENDING = 4096


class Moment(NamedTuple):
    """Where a phase begins or ends: an event in the GPU's stream, and what was allocated when it was queued."""

    event: Any
    memory: AllocatorFigures | None


class _Phase(NamedTuple):
    seconds: GpuSeconds
    began: Any
    peak_bytes: tuple[int, int] | None
    step: int | None
    weight: int


class GpuClock:
    """Events on the GPU's current stream, stored as durations when the GPU has passed them."""

    def __init__(self, timer: TrainingTimer, device: Any) -> None:
        torch = torch_with_cuda()
        self._cuda = torch.cuda
        self._timer = timer
        self._device = device
        self._peaks = PhasePeaks(torch, device_index(device) or 0)
        self._pending: deque[_Phase] = deque()
        # What was allocated when the last forward ended.
        self._after_forward: AllocatorFigures | None = None
        # Making an event costs as much as recording it.
        self._spare: list[Any] = []

    def now(self) -> Moment | None:
        """An event at the end of what the stream has to do; None while a graph is captured, since it could not be read."""
        if self._cuda.is_current_stream_capturing():
            return None
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return Moment(event, self._peaks.look())

    def store(self, name: str, began: Moment, ended: Moment, step: int | None, weight: int) -> None:
        """A phase between two moments, which stands for `weight` steps; without a step it belongs to the one that the run is at."""
        if step is None:
            step = self._timer.current_step()
        memory = began.memory
        if name == "forward":
            self._after_forward = ended.memory
        elif name == "backward" and self._after_forward is not None:
            # The model's backward begins when that of the loss is done, whose memory belongs to neither otherwise.
            memory, self._after_forward = self._after_forward, None
        seconds = GpuSeconds(name, began.event, ended.event)
        self._pending.append(_Phase(seconds, began.event, peak_bounds(memory, ended.memory), step, weight))
        if len(self._pending) >= _MANY_PENDING:
            self.settle(wait=False)

    def settle(self, wait: bool) -> None:
        """Stores the durations that are known, each under the step that it was measured in."""
        while self._pending and (wait or len(self._pending) > _MOST_PENDING or self._pending[0].seconds.ready()):
            phase = self._pending.popleft()
            seconds = phase.seconds
            self._timer.add(seconds.path, seconds.wait(), phase.step, phase.weight, peak_bytes=phase.peak_bytes)
            # Where one phase ends another may begin, and then this event is the end of one and the beginning of the next.
            # The next one comes later, so that whoever begins with an event is the last to need it.
            self._spare.append(phase.began)
