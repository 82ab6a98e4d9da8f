"""A snapshot of PyTorch's CUDA allocator as bytes: bounded, in the format of `torch.cuda.memory._dump_snapshot`."""

from __future__ import annotations

import io
import pickle
from typing import Any

LARGEST_BYTES = 256 << 20
"""As much as one attachment of a run may have."""

# pytorch.org/memory_viz does not read the next one, which is Python's own choice from 3.14 on.
_PROTOCOL = 4


class SnapshotTooLarge(Exception):
    """The snapshot has more bytes than may be stored."""


def pickled(snapshot: Any, most_events: int) -> bytes:
    """The snapshot with the newest `most_events` events of each device; raises SnapshotTooLarge."""
    file = _BoundedBytes()
    pickle.dump(with_newest_events(snapshot, most_events), file, protocol=_PROTOCOL)
    return file.getvalue()


def with_newest_events(snapshot: Any, most_events: int) -> Any:
    """A history that the program records without a bound is cut; what reads snapshots knows that a history may begin late."""
    traces = snapshot.get("device_traces") if isinstance(snapshot, dict) else None
    if not traces or all(len(trace) <= most_events for trace in traces):
        return snapshot
    return snapshot | {"device_traces": [trace[-most_events:] for trace in traces]}


class _BoundedBytes(io.BytesIO):
    def write(self, content: Any, /) -> int:
        if self.tell() + len(memoryview(content)) > LARGEST_BYTES:
            raise SnapshotTooLarge
        return super().write(content)
