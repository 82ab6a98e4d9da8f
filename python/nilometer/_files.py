"""Files written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import pathlib
import tempfile
from typing import Any


def write_json(path: str | os.PathLike[str], value: Any) -> pathlib.Path:
    """Writes JSON beside the place and moves it there. NaN and infinities, which JSON does not have, become null."""
    return write_text(path, json.dumps(_jsonable(value), indent=2, allow_nan=False) + "\n")


def write_text(path: str | os.PathLike[str], text: str) -> pathlib.Path:
    target = pathlib.Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        # mkstemp makes private files; a report is an ordinary one.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise
    return target


def _jsonable(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _jsonable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(inner) for inner in value]
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    try:
        return _jsonable(float(value))
    except (TypeError, ValueError):
        return str(value)
