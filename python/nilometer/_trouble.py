"""What happens when something goes wrong inside the training loop: a warning, once, at the user's line.

Training is worth more than its record. With `NILO_STRICT=1` the same troubles raise, for tests.
"""

from __future__ import annotations

import operator
import os
import sys
import threading
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import NoReturn

_PACKAGE = os.path.dirname(__file__) + os.sep
_MOST_SAID = 1000
_said: set[str] = set()
_lock = threading.Lock()


class NilometerError(Exception):
    """Something that Nilometer could not do. Raised when constructing, and in the loop with `NILO_STRICT=1`."""


class NilometerWarning(UserWarning):
    """Something that Nilometer could not do in the training loop, said once."""


def is_strict() -> bool:
    return os.environ.get("NILO_STRICT", "") not in ("", "0")


def report(message: str) -> None:
    """Warns once for each message; raises in strict mode."""
    if is_strict():
        raise NilometerError(message)
    _say_once(message)


def warn_once(message: str) -> None:
    """Warns once for each message, also in strict mode: something to know, not a trouble."""
    _say_once(message)


def _say_once(message: str) -> None:
    with _lock:
        if message in _said or len(_said) >= _MOST_SAID:
            return
        _said.add(message)
    warnings.warn(message, NilometerWarning, stacklevel=_frames_to_user())


def _frames_to_user() -> int:
    """How many frames lie between `warnings.warn` in _say_once() and the first line outside this package."""
    level = 2
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
        level += 1
    return level


def refuse_pickling(self: object) -> NoReturn:
    """As `__reduce__` of what belongs to one process: a copy would be empty, or write twice."""
    raise TypeError(
        f"{type(self).__name__} cannot be pickled or copied: it writes to the run of its own process; "
        "make one in each process (they join the same run), or pass its figures"
    )


def require(condition: bool, message: str) -> None:
    """For arguments of constructors: wrong ones raise at once."""
    if not condition:
        raise ValueError(message)


def require_type(value: object, kinds: type | tuple[type, ...], name: str) -> None:
    """For arguments of constructors: the wrong type raises at once and names the argument."""
    if not isinstance(value, kinds) or isinstance(value, bool) and kinds not in (bool, (bool,)):
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        words = " or ".join(kind.__name__ for kind in wanted)
        raise TypeError(f"{name} must be {words}, not {type(value).__name__}")


def whole_number(value: object, name: str, *, least: int, expected: str | None = None) -> int:
    """For settings: an integer, or a float such as 1.5e6 that is one."""
    try:
        number = int(value) if isinstance(value, float) and value.is_integer() else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or not least <= number < 1 << 63:
        raise ValueError(f"{name} is {value!r}; it must be {expected or f'a whole number, {least} or more'}")
    return number


def byte_count(value: float, name: str) -> int:
    """For budgets: bytes, of which people write a share such as `0.8 * total`; a fraction of a byte is left out."""
    require_type(value, (int, float), name)
    require(1 <= value < float("inf"), f"{name} must be positive, not {value}")
    return int(value)
