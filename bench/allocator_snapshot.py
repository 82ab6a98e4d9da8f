"""Reads a large GPU memory snapshot: nilo-allocator from file to peak and breakdown, against Python's pickle.load alone.

    cargo build --release -p nilo-allocator --example snapshot_figures
    python3 bench/allocator_snapshot.py target/release/examples/snapshot_figures [EVENTS]

With NILO=target/release/nilo it measures `nilo snapshot html` too.

The made-up snapshot shares its objects as torch does: one dict a frame, a list of them for each allocation and each free,
whose two events name the same list; the text of the compile context is written with each event. A million events are about 190 MB.
"""

import os
import pathlib
import pickle
import random
import subprocess
import sys
import tempfile

FRAMES, STACKS, DEPTH, SEGMENTS = 4000, 4000, 34, 1200
SEGMENT_BYTES = 20 << 20
ROUNDS = 3

PYTHON = {
    "pickle.load": "import pickle,sys; pickle.load(open(sys.argv[1],'rb'))",
    "pickle.load, gc off": "import gc,pickle,sys; gc.disable(); pickle.load(open(sys.argv[1],'rb'))",
}


def made_up(events):
    draw = random.Random(1)
    frames = [{"filename": f"/lib/module_{n % 97}.py", "line": n, "name": f"function_{n}"} for n in range(FRAMES)]
    stacks = [[draw.choice(frames) for _ in range(DEPTH)] for _ in range(STACKS)]
    trace = []
    time = 1_794_728_389_259_681

    def record(action, address, size, stack):
        nonlocal time
        time += 7
        trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": time,
                      "compile_context": "".join(("N", "/A")), "user_metadata": "", "frames": stack})

    block = SEGMENT_BYTES // 4
    vacant, live = [], {}
    for number in range(SEGMENTS):
        address = 0x7F00_0000_0000 + number * SEGMENT_BYTES
        record("segment_alloc", address, SEGMENT_BYTES, list(stacks[0]))
        vacant += [address + part * block for part in range(4)]
    while len(trace) < events:
        if vacant and (len(live) < 100 or draw.random() < 0.5):
            address = vacant.pop(draw.randrange(len(vacant)))
            stack = list(draw.choice(stacks))
            live[address] = (block - draw.randrange(4096), stack)
            record("alloc", address, *live[address])
        else:
            address = draw.choice(list(live)[:50])
            size, stack = live.pop(address)[0], list(draw.choice(stacks))
            record("free_requested", address, size, stack)
            record("free_completed", address, size, stack)
            vacant.append(address)
    segments = []
    for number in range(SEGMENTS):
        start = 0x7F00_0000_0000 + number * SEGMENT_BYTES
        blocks, free_from = [], start
        for address in [start + part * block for part in range(4)]:
            if address in live:
                if address > free_from:
                    blocks.append({"address": free_from, "size": address - free_from, "requested_size": 0, "state": "inactive", "frames": []})
                blocks.append({"address": address, "size": block, "requested_size": live[address][0], "state": "active_allocated", "frames": live[address][1]})
                free_from = address + block
        if free_from < start + SEGMENT_BYTES:
            blocks.append({"address": free_from, "size": start + SEGMENT_BYTES - free_from, "requested_size": 0, "state": "inactive", "frames": []})
        segments.append({"device": 0, "address": start, "total_size": SEGMENT_BYTES, "allocated_size": 0, "active_size": 0, "requested_size": 0,
                         "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks})
    return {"segments": segments, "device_traces": [trace], "allocator_settings": {"expandable_segments": False}, "external_annotations": []}


def measure(command):
    """CPU seconds and peak RSS in MB of a command, from the kernel."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    reader, events = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "snapshot.pickle"
        # In a process of its own: the objects are ten times as large as the file.
        if os.fork() == 0:
            with path.open("wb") as file:
                pickle.dump(made_up(events), file, protocol=4)
            os._exit(0)
        os.wait()
        size = path.stat().st_size / 2**20
        print(f"{events:,} events, {size:.1f} MB")
        print(subprocess.check_output([reader, path], text=True), end="")
        commands = {"nilo-allocator, peak and breakdown": [reader, path]}
        commands["nilo-allocator, and two replays"] = [reader, path, "replay"]
        if nilo := os.environ.get("NILO"):
            page = pathlib.Path(folder) / "page.html"
            commands["nilo snapshot html"] = [nilo, "snapshot", "html", path, "-o", page]
        commands |= {name: [sys.executable, "-c", code, path] for name, code in PYTHON.items()}
        best = {}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                figures = measure(command)
                best[name] = min(best.get(name, figures), figures)
        for name, (seconds, rss) in best.items():
            print(f"{name:36} {seconds:6.2f} s CPU  {rss:7.0f} MB peak RSS  {rss / size:5.2f} x file")
        if nilo:
            print(f"the page has {page.stat().st_size / 2**20:.1f} MB")
        seconds, rss = best["nilo-allocator, peak and breakdown"]
        for goal, reached in {"1 s": seconds <= 1, "1.5 x file": rss <= 1.5 * size}.items():
            print(f"goal {goal}: {'reached' if reached else 'not reached'}")


if __name__ == "__main__":
    main()
