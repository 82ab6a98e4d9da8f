"""Who sees a spike of 2 GiB that stands for 50 ms?

The truth is the kernel's own high-water mark, read by the program itself at its end.
The memory of the fast spike is made resident beforehand, in huge pages, by this process (see targets/spike.py for why).
It is kept as an open file and not mapped here, so that the pages belong to the watched program alone.
"""

import contextlib
import ctypes
import json
import mmap
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nilo
import rivals
from page import Table, spread
from processes import run, scratch_folder
from settings import TARGETS, Settings
from targets.spike import libc, map_memory

SPIKE_BYTES = 2 << 30
MADV_COLLAPSE = 25  # gathers resident pages into huge ones; Linux 6.1 and later


@dataclass(frozen=True)
class Monitor:
    name: str
    launch: Callable[[list], list]
    peak: Callable[[Path], int | None]


@dataclass(frozen=True)
class Sighting:
    seen_bytes: int | None
    true_bytes: int
    rise_secs: float
    stood_secs: float

    @property
    def error_percent(self) -> float:
        return ((self.seen_bytes or 0) - self.true_bytes) / self.true_bytes * 100


def monitors(settings: Settings) -> list[Monitor]:
    found = [
        Monitor("GNU time -v", rivals.gnu_time_run, rivals.gnu_time_peak),
        Monitor("psrecord, 0.1 s", rivals.psrecord_run, rivals.psrecord_peak),
        Monitor("mprof, 0.1 s", rivals.mprof_run, rivals.mprof_peak),
        Monitor("duct, 1 s (default)", rivals.duct_run, rivals.duct_peak),
    ]
    binary = settings.nilo
    if binary:
        peak = lambda folder: nilo.summary(binary, folder)["memory"]["peak_bytes"]  # noqa: E731
        found.insert(0, Monitor("nilo run, 0.1 s", lambda command: nilo.run_command(binary, command), peak))
    return found


def measure(settings: Settings) -> Table:
    table = Table(
        "A spike of 2 GiB that stands for 50 ms",
        {
            "monitor": "the tool and its sampling interval.",
            "spike": "mapped: memory that was resident before; filled: fresh memory, as fast as the kernel clears it.",
            "runs": "how often it was tried.",
            "seen MiB": "the peak that the tool reported, lowest to highest.",
            "true MiB": "the kernel's own peak of the program, lowest to highest.",
            "error %": "how far the report is off, lowest to highest.",
        },
        notes=["Goal: within 1 % of the kernel's own figure."],
    )
    with resident_memory() as path:
        add_rows(table, settings, "mapped", ["shared", path], settings.effort.spikes)
    add_rows(table, settings, "filled", ["anonymous", "-"], settings.effort.slow_spikes)
    return table


def add_rows(table: Table, settings: Settings, name: str, kind: list, runs: int) -> None:
    sightings = {monitor.name: [] for monitor in monitors(settings)}
    for _ in range(runs):
        for monitor in monitors(settings):
            sightings[monitor.name].append(sight(monitor, kind))
    for monitor, found in sightings.items():
        table.rows.append([
            monitor, name, str(len(found)),
            spread([(sighting.seen_bytes or 0) / 2**20 for sighting in found], 0),
            spread([sighting.true_bytes / 2**20 for sighting in found], 0),
            spread([sighting.error_percent for sighting in found], 2),
        ])
    everything = [sighting for found in sightings.values() for sighting in found]
    rise_ms = statistics.median(sighting.rise_secs for sighting in everything) * 1e3
    stood_ms = statistics.median(sighting.stood_secs for sighting in everything) * 1e3
    table.notes.append(f"The {name} spike took {rise_ms:.1f} ms to rise and then stood for {stood_ms:.0f} ms (medians).")


def sight(monitor: Monitor, kind: list) -> Sighting:
    with scratch_folder() as folder:
        report = folder / "truth.json"
        command = [sys.executable, "-S", TARGETS / "spike.py", *kind, SPIKE_BYTES, report]
        run(monitor.launch(command), folder)
        truth = json.loads(report.read_text())
        return Sighting(monitor.peak(folder), truth["peak_bytes"], truth["rise_secs"], truth["stood_secs"])


@contextlib.contextmanager
def resident_memory() -> Iterator[str]:
    """2 GiB of resident shared memory; gives the path under which other processes open it."""
    descriptor = os.memfd_create("nilo-bench-spike")
    try:
        os.ftruncate(descriptor, SPIKE_BYTES)
        fill(descriptor)
        yield f"/proc/{os.getpid()}/fd/{descriptor}"
    finally:
        os.close(descriptor)


def fill(descriptor: int) -> None:
    address = map_memory(mmap.MAP_SHARED, SPIKE_BYTES, descriptor)
    ctypes.memset(address, 1, SPIKE_BYTES)
    # Without huge pages (a kernel before 6.1, or memory in pieces) the rise takes 0.1 s or more; the notes tell how long it took.
    if libc.madvise(address, SPIKE_BYTES, MADV_COLLAPSE) != 0:
        print(f"no huge pages: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
    libc.munmap(address, SPIKE_BYTES)
