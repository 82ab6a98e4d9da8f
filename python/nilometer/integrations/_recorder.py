"""What the callbacks of all frameworks do at a step: phases, throughput, the GPU's memory."""

from __future__ import annotations

import time
from typing import Any

from ..profiling import GPUMemoryProfiler, ThroughputTracker, TrainingTimer
from ..profiling.timer import CudaTimer
from ..run import Run


class StepRecorder:
    """Forgives what a timer does not: frameworks leave out events, repeat them, and stop in the middle of a step."""

    def __init__(self, run: Run, device: Any = None) -> None:
        self.run = run
        # Names of other accelerators mean nothing to the timer.
        on_gpu = device is not None and str(device).startswith("cuda")
        self.timer = TrainingTimer(device if on_gpu else None, run=run)
        self.throughput = ThroughputTracker(run=run)
        self._memory = GPUMemoryProfiler(device, run=run) if on_gpu else None
        self._open: list[str] = []
        self._idle_since: float | None = None
        # Of the batches whose gradients are added up for the step.
        self._accumulated = (0.0, 0.0)

    def start(self, name: str) -> None:
        """A phase begins."""
        if name not in self._open:
            if name == "evaluate":
                self.throughput.pause()
            self._open.append(name)
            self.timer.start(name)

    def stop(self, name: str) -> None:
        """A phase ends, and with it what is open inside."""
        if name not in self._open:
            return
        while True:
            innermost = self._open.pop()
            self.timer.stop(innermost)
            if innermost == "evaluate":
                self.throughput.resume()
            if innermost == name:
                return

    def evaluated(self, seconds: float) -> None:
        """An evaluation is over that the framework timed itself."""
        self.run.phase("evaluate", seconds)
        self.throughput.leave_out(seconds)

    def idle(self) -> None:
        """From here on the framework gets the next batch, unless something else comes first."""
        self._idle_since = time.perf_counter()

    def busy(self, phase: str | None) -> None:
        """Ends the time since `idle`: it was this phase, or nothing that can be named."""
        if self._idle_since is not None and phase is not None:
            self.run.phase(phase, time.perf_counter() - self._idle_since)
        self._idle_since = None

    def accumulate(self, samples: float, tokens: float = 0) -> None:
        """A batch is done whose gradients are only added up: it counts with its step."""
        self._accumulated = (self._accumulated[0] + samples, self._accumulated[1] + tokens)

    def step_done(self, samples: float, tokens: float = 0) -> None:
        """Counts the step's samples and reads the GPU's memory."""
        self.accumulate(samples, tokens)
        self.throughput.update(*self._accumulated)
        self._accumulated = (0.0, 0.0)
        if self._memory is not None:
            self._memory.measure()

    def end(self) -> None:
        """Training is over: what the GPU is done with is stored, and nothing is waited for."""
        self._idle_since = None
        if isinstance(self.timer, CudaTimer):
            self.timer.settle(wait=False)
        # What the program logs from here on counts by itself again.
        self.run.set_step(None)
