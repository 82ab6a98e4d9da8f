"""Which files of code are those of libraries, and not the program's own."""

from __future__ import annotations

import functools
import os
import sysconfig

# Also of another environment, as where one sees the packages of the system, or of the user.
_INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@functools.cache
def _folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths.get(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(os.path.join(folder, "") for folder in found if folder)


def is_library_file(file: str) -> bool:
    """Whether code of this file is Python's or of an installed package."""
    return file.startswith(("<frozen", *_folders())) or any(folder in file for folder in _INSTALLED)
