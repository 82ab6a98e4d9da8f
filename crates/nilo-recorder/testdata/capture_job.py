#!/usr/bin/env python3
"""Captures the files that a recorder reads of a small job, at four moments: `testdata/job/0` to `job/3`.

Needs root and a memory cgroup of version 1. The job forks a worker, grows, and the worker ends; PIDs become 100 and 101.
Memory and times differ from capture to capture: the tests take them from the files.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CGROUP = pathlib.Path("/sys/fs/cgroup/memory/nilo-capture")
OF_PROCESS = ["stat", "statm", "status", "cmdline", "io", "smaps_rollup", "cgroup", "limits", "environ"]
OF_HOST = ["meminfo", "vmstat", "pressure/memory"]
OF_CGROUP = [
    "cgroup.procs",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.failcnt",
    "memory.stat",
    "memory.oom_control",
]
JOB = """
import os, sys
def heard(): print(os.getpid(), flush=True); return sys.stdin.readline()
def spent(seconds):
    while sum(os.times()[:2]) < seconds: pass
block = bytearray(b"x") * (32 << 20); spent(0.2); heard()
r, w = os.pipe(); told, tell = os.pipe()
worker = os.fork()
if worker == 0:
    os.close(w)
    own = bytearray(b"y") * (16 << 20); os.write(tell, b"."); os.read(r, 1); os._exit(0)
os.close(r); os.read(told, 1); print(worker, flush=True); heard()
more = bytearray(b"z") * (64 << 20); spent(0.4); heard()
os.close(w); os.waitpid(worker, 0); heard()
"""


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return None


def capture(moment, pids):
    """Copies everything, with the PIDs of the test."""
    folder = HERE / "job" / str(moment)
    shutil.rmtree(folder, ignore_errors=True)
    names = {str(pid): str(100 + place) for place, pid in enumerate(pids)}
    names[str(os.getpid())] = "1"

    def store(path, content):
        if content is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def renamed(text):
        return re.sub(rb"\b\d+\b", lambda number: names.get(number[0].decode(), number[0].decode()).encode(), text)

    for pid in pids:
        for name in OF_PROCESS:
            content = read(pathlib.Path(f"/proc/{pid}/{name}"))
            if name == "environ":
                content = b"CUDA_VISIBLE_DEVICES=0\0"
            elif name == "cmdline":
                content = b"python3\0train.py\0"
            elif content is not None and name in ("stat", "status"):
                content = renamed(content)
            store(folder / "proc" / names[str(pid)] / name, content)
    for name in OF_HOST:
        content = read(pathlib.Path("/proc") / name)
        if name == "vmstat":
            content = b"".join(line for line in content.splitlines(keepends=True) if line.startswith(b"oom_kill "))
        store(folder / "proc" / name, content)
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines(keepends=True)
    mounts = [line for line in mounts if " /sys/fs/cgroup/memory " in line]
    store(folder / "proc/self/mountinfo", "".join(mounts).encode())
    for name in OF_CGROUP:
        content = read(CGROUP / name)
        store(folder / "cgroup/memory/nilo-capture" / name, renamed(content) if name == "cgroup.procs" else content)
    root = pathlib.Path("/sys/fs/cgroup/memory")
    store(folder / "cgroup/memory/memory.limit_in_bytes", read(root / "memory.limit_in_bytes"))


def main():
    CGROUP.mkdir(exist_ok=True)
    (CGROUP / "memory.limit_in_bytes").write_text(str(512 << 20))
    enter = f"echo $$ > {CGROUP}/cgroup.procs; exec {sys.executable} -c '{JOB}'"
    job = subprocess.Popen(["sh", "-c", enter], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        pids = [int(job.stdout.readline())]
        capture(0, pids)
        for moment in (1, 2, 3):
            job.stdin.write("\n")
            job.stdin.flush()
            if moment == 1:
                pids.append(int(job.stdout.readline()))
            job.stdout.readline()
            capture(moment, pids if moment < 3 else pids[:1])
    finally:
        job.kill()
        job.wait()
        CGROUP.rmdir()


if __name__ == "__main__":
    main()
