"""A program that holds a spike of memory for 50 ms and knows its own true peak.

    spike.py shared PATH BYTES REPORT      maps BYTES of the file at PATH, which is resident already
    spike.py anonymous - BYTES REPORT      allocates BYTES of its own, in huge pages

Filling fresh memory takes a second or more for 2 GiB, slow enough for any sampler to see it.
Mapping memory that is resident already takes milliseconds; that is the spike which samplers miss.
The address is a multiple of 2 MiB so that huge pages can be mapped whole.
Writes to REPORT, as JSON: the kernel's own peak of this process (VmHWM), how long the rise took, how long the spike stood.
"""

import ctypes
import json
import mmap
import os
import random
import sys
import time

HOLD_SECONDS = 0.05
MADV_HUGEPAGE = 14
HUGE_PAGE_BYTES = 2 << 20
FREE_ALIGNED_ADDRESS = 0x6000_0000_0000  # a wish, not an order: the kernel takes another address if this one is in use

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def map_memory(flags: int, size_bytes: int, descriptor: int) -> int:
    address = libc.mmap(FREE_ALIGNED_ADDRESS, size_bytes, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap failed")
    return address


def rise(kind: str, path: str, size_bytes: int) -> int:
    if kind == "shared":
        descriptor = os.open(path, os.O_RDWR)
        return map_memory(mmap.MAP_SHARED | mmap.MAP_POPULATE, size_bytes, descriptor)
    address = map_memory(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, size_bytes, -1)
    libc.madvise(address, size_bytes, MADV_HUGEPAGE)
    for offset in range(0, size_bytes, HUGE_PAGE_BYTES):
        ctypes.memset(address + offset, 1, 1)
    if rss_bytes() < size_bytes:  # the kernel gave small pages
        ctypes.memset(address, 1, size_bytes)
    return address


def rss_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * mmap.PAGESIZE


def kernel_peak_bytes() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main() -> None:
    kind, path, size_bytes, report = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    time.sleep(random.uniform(1.0, 2.0))  # the spike falls anywhere between two samples
    started = time.perf_counter()
    address = rise(kind, path, size_bytes)
    risen = time.perf_counter()
    time.sleep(HOLD_SECONDS)
    libc.munmap(address, size_bytes)
    ended = time.perf_counter()
    time.sleep(random.uniform(0.3, 0.6))
    with open(report, "w") as out:
        json.dump({"peak_bytes": kernel_peak_bytes(), "rise_secs": risen - started, "stood_secs": ended - risen}, out)


if __name__ == "__main__":
    main()
