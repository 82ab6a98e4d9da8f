"""Looking makes many short-lived objects, and must not set off the garbage collector: beside torch one full collection takes as long as a hundred looks."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Automatic collections wait until the end; one that is due then takes place where the program makes its next objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
