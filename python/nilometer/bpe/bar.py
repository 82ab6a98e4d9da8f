"""A progress bar as text, in terminals and notebooks.

    Training BPE:  42%|██████▊         | 312/743 [00:00<00:01, 350.45merges/s]
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

_STAGES = {"count": ("Counting words", "B", 1 << 20), "merge": ("Training BPE", "merges", 1)}
_EIGHTHS = " ▏▎▍▌▋▊▉"


def is_shown(progress: bool | None, stream: TextIO) -> bool:
    """As asked for; if nothing is asked for, in terminals and notebooks."""
    if progress is not None:
        return progress
    in_notebook = "ipykernel" in sys.modules and type(stream).__module__.startswith("ipykernel")
    return in_notebook or (hasattr(stream, "isatty") and stream.isatty())


class Bar:
    """Hears of progress and draws it. Each stage has a line, which stays when the stage is over."""

    def __init__(self, stream: TextIO | None = None, width: int = 16) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._width = width
        self._stage: str | None = None
        self._began = time.monotonic()
        self._drawn = 0

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage != self._stage:
            self.close()
            self._stage, self._began = stage, time.monotonic()
        self._draw(line(stage, done, total, time.monotonic() - self._began, self._width))

    def expect(self, stage: str) -> None:
        """A stage begins here, whenever it is first heard of."""
        self.close()
        self._stage, self._began = stage, time.monotonic()

    def close(self) -> None:
        """Ends the line."""
        if self._drawn:
            self._stream.write("\n")
            self._stream.flush()
        self._drawn = 0
        self._stage = None

    def _draw(self, text: str) -> None:
        self._stream.write("\r" + text.ljust(self._drawn))
        self._stream.flush()
        self._drawn = len(text)


def line(stage: str, done: int, total: int | None, seconds: float, width: int = 16) -> str:
    """The bar at one moment.

    >>> line("merge", 743, 743, 2.12)
    'Training BPE: 100%|████████████████| 743/743 [00:02<00:00, 350.47merges/s]'
    """
    title, unit, scale = _STAGES[stage]
    rate = done / seconds if seconds > 0 else 0.0
    shown_rate = f"{rate / scale:.2f}{'M' if scale > 1 else ''}{unit}/s"
    shown_done = f"{done / scale:.1f}M" if scale > 1 else str(done)
    if not total:
        return f"{title}: {shown_done} [{clock(seconds)}, {shown_rate}]"
    shown_total = f"{total / scale:.1f}M" if scale > 1 else str(total)
    share = min(done / total, 1.0)
    eighths = int(share * width * 8)
    full, part = divmod(eighths, 8)
    blocks = ("█" * full + (_EIGHTHS[part] if part else "")).ljust(width)
    left = clock((total - done) / rate) if rate > 0 else "?"
    return f"{title}: {share:4.0%}|{blocks}| {shown_done}/{shown_total} [{clock(seconds)}<{left}, {shown_rate}]"


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours where there are any.

    >>> clock(2.4), clock(3725)
    ('00:02', '1:02:05')
    """
    minutes, rest = divmod(int(max(seconds, 0)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
