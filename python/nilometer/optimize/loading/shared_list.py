"""A list whose items lie serialized in one buffer, which all workers share.

A forked worker that reads an ordinary list of objects counts a reference in each, which copies the page: over an epoch, every worker gets its own copy of the list.
Here nothing is written on reading. The buffer is an anonymous file in memory: forked workers inherit it, spawned ones get its descriptor,
and it is gone with the last process that has it open, also after a kill.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import multiprocessing.context
import operator
import os
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing import reduction
from typing import Any, SupportsIndex, overload

_CHUNK = 1 << 20
_WORD = 8


class SharedList(Sequence[Any]):
    """The items of an iterable, each pickled by itself; reading gives a new object each time.

    Use it for a dataset's list of records, file names or tokens. It cannot be changed; items are pickled and unpickled in this program only.
    A slice is a view without a copy. Pickled for a spawned worker it shares the buffer; pickled otherwise, its contents are copied.

    >>> names = SharedList({"file": f"{index}.jpg", "label": index % 10} for index in range(1000))
    >>> len(names), names[-1], list(names[:2])
    (1000, {'file': '999.jpg', 'label': 9}, [{'file': '0.jpg', 'label': 0}, {'file': '1.jpg', 'label': 1}])
    """

    __slots__ = ("__weakref__", "_buffer", "_range")

    def __init__(self, items: Iterable[Any]) -> None:
        if not isinstance(items, Iterable):
            raise TypeError(f"items must be a list or another iterable, not {type(items).__name__}")
        self._buffer = _Buffer(_write(items))
        self._range = range(self._buffer.count)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> SharedList: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _view(self._buffer, self._range[index])
        try:
            place = self._range[operator.index(index)]
        except IndexError:
            raise IndexError(f"index {index} is out of range of {len(self)} items") from None
        except TypeError:
            raise TypeError(f"an index must be a whole number or a slice, not {type(index).__name__}") from None
        return self._buffer.item(place)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several items at once, as a DataLoader asks for a batch."""
        return [self[index] for index in indices]

    def __len__(self) -> int:
        return len(self._range)

    def __iter__(self) -> Iterator[Any]:
        return map(self._buffer.item, self._range)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (SharedList, list)):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> SharedList:
        return self

    def __deepcopy__(self, _: Any) -> SharedList:
        # It cannot be changed, so a copy would be the same.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if multiprocessing.context.get_spawning_popen() is None and len(self) < self._buffer.count:
            return SharedList, (list(self),)
        return _view, (self._buffer, self._range)

    def __repr__(self) -> str:
        if len(self) < self._buffer.count:
            return f"SharedList of {len(self)} of the {self._buffer.count} items in {self.nbytes} bytes"
        return f"SharedList of {len(self)} items in {self.nbytes} bytes"

    @property
    def nbytes(self) -> int:
        """Bytes of the buffer, of which a slice is a part."""
        return self._buffer.size


def _view(buffer: _Buffer, places: range) -> SharedList:
    view = SharedList.__new__(SharedList)
    view._buffer, view._range = buffer, places
    return view


class _Buffer:
    """The file in memory: the items one after the other, then their ends, then their number. It is mapped for reading only."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self._map = mmap.mmap(descriptor, self.size, prot=mmap.PROT_READ)
        whole = memoryview(self._map)
        self.count = int.from_bytes(whole[-_WORD:], "little")
        self._data = whole
        self._ends = whole[self.size - _WORD * (self.count + 1) : self.size - _WORD].cast("Q")

    def item(self, place: int) -> Any:
        begin = self._ends[place - 1] if place else 0
        return pickle.loads(self._data[begin : self._ends[place]])

    def __reduce__(self) -> tuple[Any, ...]:
        if multiprocessing.context.get_spawning_popen() is not None:
            return _attach, (reduction.DupFd(self._descriptor),)
        return _from_bytes, (bytes(self._data),)

    def __del__(self, close: Any = os.close) -> None:
        # `os` may be gone when the interpreter ends.
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            close(descriptor)


def _attach(duplicate: Any) -> _Buffer:
    return _Buffer(duplicate.detach())


def _from_bytes(contents: bytes) -> _Buffer:
    descriptor = _anonymous_file()
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(contents)
    return _Buffer(_sealed(descriptor))


def _write(items: Iterable[Any]) -> int:
    descriptor = _anonymous_file()
    ends = array("Q")
    try:
        with os.fdopen(os.dup(descriptor), "wb", buffering=_CHUNK) as file:
            end = 0
            for place, item in enumerate(items):
                try:
                    data = pickle.dumps(item, protocol=pickle.HIGHEST_PROTOCOL)
                except Exception as error:  # whatever a class of the program raises
                    raise TypeError(f"item {place} ({type(item).__name__}) cannot be pickled: {error}") from error
                end += len(data)
                ends.append(end)
                file.write(data)
            # Words lie at multiples of their size.
            file.write(bytes(-end % _WORD))
            file.write(ends)
            file.write(len(ends).to_bytes(_WORD, "little"))
    except BaseException:
        os.close(descriptor)
        raise
    return _sealed(descriptor)


def _anonymous_file() -> int:
    """In memory, and not limited by the size of `/dev/shm`; where there is no such thing, a file without a name."""
    try:
        return os.memfd_create("nilometer-shared-list", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


def _sealed(descriptor: int) -> int:
    """Nobody changes it from here on, where the system can see to that."""
    with contextlib.suppress(AttributeError, OSError):
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor
