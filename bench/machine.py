"""The machine in words, so that nobody takes its figures for those of another one."""

import os
import platform
from pathlib import Path


def describe() -> list[str]:
    """Sentences about the hardware and the kernel."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = first_value(cpuinfo, "model name") or platform.machine()
    virtual = ", in a virtual machine" if "hypervisor" in (first_value(cpuinfo, "flags") or "").split() else ""
    memory_gib = int(first_value(Path("/proc/meminfo").read_text(), "MemTotal").split()[0]) / 2**20
    cores = len(os.sched_getaffinity(0))
    return [
        f"{cores} {'core' if cores == 1 else 'cores'} ({model}){virtual}, {memory_gib:.1f} GiB of memory.",
        f"{platform.system()} {platform.release()} with {cgroup_version()}; Python {platform.python_version()}.",
    ]


def describe_load(before: float, after: float) -> str:
    """A sentence about what else ran."""
    cores = len(os.sched_getaffinity(0))
    busy = "other work ran at the same time: trust ratios, not times"
    verdict = busy if before > cores / 4 else "the machine was otherwise idle"
    return f"The load average was {before:.1f} at the start and {after:.1f} at the end; {verdict}."


def load() -> float:
    """The load average of the last minute."""
    return os.getloadavg()[0]


def cgroup_version() -> str:
    if Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists():
        return "cgroup v1 for memory"
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    return "cgroup v2 for memory" if controllers.exists() and "memory" in controllers.read_text() else "no memory cgroup"


def first_value(text: str, key: str) -> str | None:
    return next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith(key)), None)
