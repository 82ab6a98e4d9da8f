"""Which kinds of objects go on growing from sample to sample."""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Set
from itertools import accumulate

from .earlier_peaks import EarlierPeaks
from .object_samples import Kind, ObjectSample

# Growth is established by this many steps from sample to sample, and none of the latest may be missing.
INCREMENTS = 4
# Of the latest, most show growth; whether it slows down is told from more of them.
_LATEST = 12
_WINDOW = 48
# With so many, thirds of the time are compared, before that halves.
_MANY = 9
# Growth that fell to half slows down; one that fell by less does where that is no chance.
_HALF = 0.5
_LESS = 0.85
_NO_CHANCE = 2.0
_STILL = 0.15
# Bytes of one, packed.
_NUMBER = 8


class GrowthJudge:
    """Follows all kinds over the latest samples.

    Compared are neighbouring samples, so that a cut (objects that were frozen in between) costs one comparison and not all of them.
    What it keeps is numbers packed into bytes, which the garbage collector does not count: it must not be the growth that it finds.
    """

    def __init__(self) -> None:
        self._before: ObjectSample | None = None
        self._steps = array("q")
        self._more: dict[Kind, bytes] = {}
        self._more_bytes: dict[Kind, bytes] = {}
        self._compared = 0
        self._peaks = EarlierPeaks()

    @property
    def comparisons(self) -> int:
        """How often a sample was compared with the one before it."""
        return self._compared

    @property
    def is_established(self) -> bool:
        """Whether there were enough to tell growth that goes on."""
        return self._compared >= INCREMENTS

    @property
    def is_whole(self) -> bool:
        """Whether the latest sample met all that it is about."""
        return self._before is None or self._before.is_whole

    def places(self) -> set[int]:
        """Where that lies which it keeps: not the program's."""
        before = self._before
        kept = () if before is None else (before.counts, before.sizes, before.containers, before.names)
        return {id(one) for one in (self._more, self._more_bytes, *kept)} | {self._peaks.place()}

    def follows(self, kind: Kind) -> bool:
        """Whether this is a container of the latest sample."""
        return self._before is not None and kind[0] == "container" and int(kind[1]) in self._before.containers

    def add(self, sample: ObjectSample, ours: Set[int] = frozenset()) -> None:
        """The newest sample. `ours` is where containers lie that are not the program's."""
        ours = self.places() | ours
        before, self._before = self._before, sample
        if before is None or sample.step <= before.step:
            return
        if before.frozen != sample.frozen:
            self._peaks.clear()
            return
        self._steps.append(sample.step - before.step)
        self._compared += 1
        self._add_counts(before, sample)
        self._add_containers(before, sample, ours)
        for kind in [kind for kind in self._more_bytes if kind not in sample.sizes]:
            del self._more_bytes[kind]
        for kind, size in sample.sizes.items():
            self._append(self._more_bytes, kind, size - before.sizes.get(kind, 0))
        if len(self._steps) > _WINDOW:
            del self._steps[0]
            self._more = {kind: later for kind, more in self._more.items() if any(later := more[_NUMBER:])}
            self._more_bytes = {kind: later for kind, more in self._more_bytes.items() if any(later := more[_NUMBER:])}

    def _add_counts(self, before: ObjectSample, sample: ObjectSample) -> None:
        for kind in [kind for kind in self._more if kind[0] != "container" and kind not in sample.counts]:
            del self._more[kind]
        for kind, level in sample.counts.items():
            old = before.counts.get(kind, 0)
            floor = self._peaks.floor(kind, old, level, self._compared)
            if floor and level <= floor:
                # What it grew by before it fell does not count any more.
                self._more.pop(kind, None)
            else:
                self._append(self._more, kind, level - max(old, floor) if level > old else level - old)

    def _add_containers(self, before: ObjectSample, sample: ObjectSample, ours: Set[int]) -> None:
        # A variable may hold a new container each time: what its last one had counts too.
        lengths_of_names = {name: before.containers[place] for place, name in before.names.items() if place in before.containers}
        followed: set[Kind] = set()
        keys: list[int | str] = []
        for place, length in sample.containers.items():
            name = sample.names.get(place)
            key: int | str = place if name is None else name
            keys.append(key)
            old = before.containers.get(place)
            floor = self._peaks.floor(key, lengths_of_names.get(name or "", length if old is None else old), length, self._compared)
            if old is None or length < old or length <= floor or place in ours:
                continue
            kind: Kind = ("container", str(place))
            followed.add(kind)
            self._append(self._more, kind, length - max(old, floor))
        self._peaks.gone([*keys, *sample.counts], self._compared)
        # Others are forgotten: addresses are used again.
        for gone in [kind for kind in self._more if kind[0] == "container" and kind not in followed]:
            del self._more[gone]

    def _append(self, kept: dict[Kind, bytes], kind: Kind, more: int) -> None:
        increments = kept.get(kind)
        if increments is not None or more:
            before = bytes(_NUMBER * (len(self._steps) - 1)) if increments is None else increments
            kept[kind] = before + more.to_bytes(_NUMBER, sys.byteorder, signed=True)

    def growing(self) -> dict[Kind, tuple[float, float]]:
        """Kinds whose growth goes on without slowing down, with objects and bytes a step. A cache that fills slows down, sooner or later."""
        found = {}
        for kind, packed in self._more.items():
            increments = array("q", packed)
            # It may have begun within the window; before that it says nothing.
            first = next((index for index, more in enumerate(increments) if more > 0), len(increments))
            more, steps = increments[first:], self._steps[first:]
            latest = more[-_LATEST:]
            if len(more) < INCREMENTS or min(more[-INCREMENTS:]) <= 0 or sum(one > 0 for one in latest) < 0.8 * len(latest) or _slows_down(more, steps):
                continue
            # The rate is that of the latest.
            total = sum(steps[-_LATEST:])
            sizes = array("q", self._more_bytes.get(kind, b""))
            found[kind] = (sum(latest) / total, sum(sizes[first:][-_LATEST:]) / total)
        return found


def _slows_down(more: array[int], steps: array[int]) -> bool:
    """Whether a part of the time has less than the one before it: half as much, or less by more than their spread makes likely."""
    count = 3 if len(more) >= _MANY else 2
    ends = list(accumulate(steps))
    parts = [[index for index, end in enumerate(ends) if number < end * count / ends[-1] <= number + 1] for number in range(count)]
    if not all(parts):
        return False
    *first, older, newer = (_rate([more[one] for one in part], [steps[one] for one in part]) for part in parts)
    # A program that begins makes more than one that goes on, which is no slowing down: that goes on after the first third.
    still = [one for one in first if older[0] - newer[0] > _STILL * (one[0] - newer[0])]
    return any(_is_less(newer, one) for one in (older, *still))


def _is_less(newer: tuple[float, float], older: tuple[float, float]) -> bool:
    is_no_chance = older[0] - newer[0] > _NO_CHANCE * (older[1] + newer[1]) ** 0.5
    return newer[0] < _HALF * older[0] or newer[0] < _LESS * older[0] and is_no_chance


def _rate(more: list[int], steps: list[int]) -> tuple[float, float]:
    """Objects a step, and the variance of that: as where each step makes one or not by chance (or as many as it takes), or as seen where that is more."""
    total, of_all = sum(steps), sum(more)
    rate = of_all / total
    seen = sum((one - rate * number) ** 2 for one, number in zip(more, steps, strict=True)) * len(more) / max(1, len(more) - 1)
    return rate, max(abs(of_all) * (1 - rate / max(1, math.ceil(rate))), seen) / total**2
