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
    return write_bytes(path, text.encode())


def write_bytes(path: str | os.PathLike[str], content: bytes) -> pathlib.Path:
    """As the command writes: a link stays a link, and what it leads to is replaced; a device or a pipe is written as it is, and so is a file that may be written in a folder that may not."""
    target = pathlib.Path(path)
    is_there = target.exists()
    if is_there and not target.is_file():
        target.write_bytes(content)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _replace(pathlib.Path(os.path.realpath(target)), content)
    except PermissionError:
        if not is_there:
            raise
        target.write_bytes(content)
    return target


def _replace(target: pathlib.Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # mkstemp makes private files; a report is an ordinary one.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        pathlib.Path(temporary).unlink(missing_ok=True)
        raise


def keep_beside(path: pathlib.Path) -> pathlib.Path:
    """Gives a file that is about to be replaced a second name, `name.1.json` or the next number, and gives that."""
    number = len(numbered(path)) + 1
    while True:
        kept = path.with_name(f"{path.stem}.{number}{path.suffix}")
        try:
            # Of a link, what it leads to: the link will lead to the new one.
            os.link(os.path.realpath(path), kept)
            return kept
        except FileExistsError:
            number += 1
        except OSError:
            # A file system without links.
            if not kept.exists():
                os.rename(path, kept)
                return kept
            number += 1


def numbered(path: pathlib.Path) -> list[pathlib.Path]:
    """The files that were kept beside this one, from the first to the last."""
    found: list[pathlib.Path] = []
    while (kept := path.with_name(f"{path.stem}.{len(found) + 1}{path.suffix}")).exists():
        found.append(kept)
    return found


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
