"""Phases of a GPU's stream for `nilometer.torch.watch`, timed by events; nothing waits for the GPU."""

from __future__ import annotations

from collections import deque
from typing import Any

from .profiling import TrainingTimer
from .profiling._cuda import torch_with_cuda
from .profiling.timer import GpuSeconds

# Phases that may wait for the GPU.
_MANY_PENDING = 64
_MOST_PENDING = 4096


class GpuClock:
    """Events on the GPU's current stream, stored as durations when the GPU has passed them."""

    def __init__(self, timer: TrainingTimer, device: Any) -> None:
        self._cuda = torch_with_cuda().cuda
        self._timer = timer
        self._device = device
        self._pending: deque[tuple[GpuSeconds, Any, int | None, int]] = deque()
        # Making an event costs as much as recording it.
        self._spare: list[Any] = []

    def now(self) -> Any:
        """An event at the end of what the stream has to do; None while a graph is captured, since it could not be read."""
        if self._cuda.is_current_stream_capturing():
            return None
        event = self._spare.pop() if self._spare else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def store(self, name: str, began: Any, ended: Any, step: int | None, weight: int) -> None:
        """A phase between two events, which stands for `weight` steps; without a step it belongs to the one that the run is at."""
        if step is None:
            step = self._timer.current_step()
        self._pending.append((GpuSeconds(name, began, ended), began, step, weight))
        if len(self._pending) >= _MANY_PENDING:
            self.settle(wait=False)

    def settle(self, wait: bool) -> None:
        """Stores the durations that are known, each under the step that it was measured in."""
        while self._pending and (wait or len(self._pending) > _MOST_PENDING or self._pending[0][0].ready()):
            seconds, began, step, weight = self._pending.popleft()
            self._timer.add(seconds.path, seconds.wait(), step, weight)
            # Where one phase ends another may begin, and then this event is the end of one and the beginning of the next.
            # The next one comes later, so that whoever begins with an event is the last to need it.
            self._spare.append(began)
