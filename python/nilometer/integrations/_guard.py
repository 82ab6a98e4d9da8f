"""Trouble in a callback is a warning, once: training goes on. With `NILO_STRICT=1` it raises."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from .._trouble import is_strict, report

Method = TypeVar("Method", bound=Callable[..., Any])


def guarded(method: Method) -> Method:
    """A method of a callback whose trouble does not reach the framework."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - training is worth more than its record
            if is_strict():
                raise
            report(f"{type(self).__name__}.{method.__name__}: {type(error).__name__}: {error}")
            return None

    return call  # type: ignore[return-value]
