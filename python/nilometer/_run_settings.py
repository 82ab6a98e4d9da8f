"""What the environment and the nearest `nilo.toml` say of runs: where they lie, how often memory is sampled, and whether anything is recorded."""

from __future__ import annotations

import os

from . import _native
from ._trouble import report


def runs_folder() -> str:
    """The folder that holds runs: `NILO_DIR`, or `dir` of the nearest `nilo.toml`, or `.nilo`."""
    asked = os.environ.get("NILO_DIR")
    if asked:
        return asked
    try:
        return os.fspath(_native.project_folder())
    except ValueError as error:
        report(str(error))
        return ".nilo"


def interval_secs(asked: float | None) -> float:
    """How often memory is sampled: as asked, or `NILO_INTERVAL`, or `interval` of the nearest `nilo.toml`, or 0.1 seconds."""
    if asked is not None:
        return float(asked)
    try:
        return _native.configured_interval()
    except ValueError as error:
        report(str(error))
        return _native.DEFAULT_INTERVAL_SECS


def is_disabled() -> bool:
    """Whether `NILO_MODE` says that nothing is recorded."""
    mode = os.environ.get("NILO_MODE", "")
    if mode not in ("", "on", "disabled", "off"):
        report(f"NILO_MODE must be 'on' or 'disabled', not {mode!r}; recording stays on")
    return mode in ("disabled", "off")
