"""Training that watches its own memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .memory_log import MemoryLog, block
from .options import Path
from .tokenizer import BPE

if TYPE_CHECKING:
    from typing_extensions import Self


class BPEWithMonitoring(BPE):
    """A `BPE` whose training from files samples the memory of the process every `monitor_interval` seconds.

    >>> import pathlib
    >>> _ = pathlib.Path("training.txt").write_text("the cat sat on the mat " * 100)
    >>> bpe = BPEWithMonitoring(monitor_interval=0.01)
    >>> _ = bpe.train("training.txt", vocab_size=260, verbose=False)
    >>> stats = bpe.get_memory_stats()
    >>> 0 < stats["min_memory_mb"] <= stats["average_memory_mb"] <= stats["peak_memory_mb"]
    True
    """

    def __init__(self, monitor_interval: float = 0.1) -> None:
        super().__init__()
        # Made once so that a wrong interval is refused here.
        self.monitor_interval = MemoryLog(monitor_interval).sampling_interval
        self._log: MemoryLog | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the samples, which belong to the process that took them."""
        return super().__getstate__() | {"monitor_interval": self.monitor_interval}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.monitor_interval = state["monitor_interval"]
        self._log = None

    def train(
        self,
        input_path: Path | Sequence[Path],
        vocab_size: int,
        special_tokens: Sequence[str] = (),
        *,
        enable_monitoring: bool = True,
        save_memory_log: bool | Path = False,
        verbose: bool = True,
        progress: bool | None = None,
        **options: Any,
    ) -> Self:
        """As `BPE.train`. The samples go to `save_memory_log`, or with True to `memory_log_<vocab_size>.csv`.

        `verbose=False` prints nothing.
        """
        if not enable_monitoring:
            self._log = None
            return super().train(input_path, vocab_size, special_tokens, progress=progress, **options)

        def say(text: str) -> None:
            if verbose:
                print(text, flush=True)

        log = self._log = MemoryLog(self.monitor_interval)
        say(f"Initial memory usage: {log.initial_mb:.2f} MB")
        log.start_monitoring()
        say(f"Started memory monitoring (interval: {self.monitor_interval:g}s)")
        began = time.monotonic()
        try:
            super().train(input_path, vocab_size, special_tokens, progress=progress, **options)
        finally:
            log.stop_monitoring()
        stats = log.statistics()
        say(f"Training completed in {time.monotonic() - began:.2f} seconds")
        say(f"Stopped memory monitoring. Peak memory: {stats['peak_memory_mb']:.2f} MB")
        if save_memory_log is not False:
            target: Path = f"memory_log_{vocab_size}.csv" if save_memory_log is True else save_memory_log
            say(f"Memory log saved to {log.save(target)}")
        say("\n" + block(stats))
        return self

    def get_memory_stats(self) -> dict[str, float]:
        """Peak, average, least and initial memory, growth in MB, samples and seconds; empty without monitoring."""
        return {} if self._log is None else self._log.statistics()


def train_bpe_with_monitoring(
    input_path: Path | Sequence[Path],
    vocab_size: int,
    special_tokens: Sequence[str] = (),
    *,
    monitor_interval: float = 0.1,
    save_memory_log: bool | Path = False,
    **options: Any,
) -> tuple[BPEWithMonitoring, dict[str, float]]:
    """Trains a tokenizer and gives it with the statistics of its memory.

    >>> import pathlib
    >>> _ = pathlib.Path("training.txt").write_text("the cat sat on the mat " * 100)
    >>> bpe, stats = train_bpe_with_monitoring("training.txt", vocab_size=260, verbose=False)
    >>> bpe.vocab_size, stats["peak_memory_mb"] > 0
    (260, True)
    """
    bpe = BPEWithMonitoring(monitor_interval)
    bpe.train(input_path, vocab_size, special_tokens, save_memory_log=save_memory_log, **options)
    return bpe, bpe.get_memory_stats()
