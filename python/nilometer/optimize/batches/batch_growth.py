"""When a micro-batch that had to shrink may grow again, and to what: not to a size that failed lately."""

from __future__ import annotations


class BatchGrowth:
    """Counts steps without trouble, and remembers the smallest size that failed within the last `retry_after` of them.

    >>> growth = BatchGrowth(grow_after=2, retry_after=3)
    >>> growth.note_failure(8)
    >>> growth.note_success(), growth.is_due, growth.larger(4)
    (None, False, 7)
    >>> growth.note_success(), growth.is_due
    (None, True)
    >>> growth.note_success(), growth.larger(4)
    (None, 8)
    """

    def __init__(self, grow_after: int, retry_after: int) -> None:
        self.clean_steps = 0
        self.failed_size: int | None = None
        self.steps_since_failure = 0
        self._grow_after = grow_after
        self._retry_after = retry_after

    @property
    def is_due(self) -> bool:
        """Whether there were as many steps without trouble as a larger size needs."""
        return self.clean_steps >= self._grow_after

    @property
    def due_after_this_step(self) -> bool:
        """Whether there will be, once the step that went well now is counted."""
        return self.clean_steps + 1 >= self._grow_after

    def larger(self, size: int) -> int:
        """Twice the size, and below what failed."""
        return 2 * size if self.failed_size is None else min(2 * size, self.failed_size - 1)

    def note_failure(self, size: int) -> None:
        """Memory ran out with this size."""
        self.failed_size = size if self.failed_size is None else min(size, self.failed_size)
        self.steps_since_failure = self.clean_steps = 0

    def note_success(self) -> None:
        """A step went well."""
        self.clean_steps += 1
        if self.failed_size is not None:
            self.steps_since_failure += 1
            if self.steps_since_failure >= self._retry_after:
                self.failed_size = None
