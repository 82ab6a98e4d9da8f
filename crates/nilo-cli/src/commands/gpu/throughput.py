"""Measures how fast a GPU copies and multiplies, and prints one JSON object.

It is given the bytes that it may allocate and the seconds that it may take. Times are those of the GPU's own events.
"""

import json
import os
import statistics
import sys
import time

# What is printed by libraries on the way is not the result.
RESULT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
# The folder that this is started in is none to import from.
if sys.path and sys.path[0] == "":
    del sys.path[0]

MOST_BYTES = int(sys.argv[1])
DEADLINE = time.monotonic() + float(sys.argv[2])
REPETITIONS = 9
# Shorter times are those of the launch as well.
SHORTEST_SECONDS = 0.01
LARGEST_MATRIX = 8192
SMALLEST_MATRIX = 512
MIB = 1 << 20


def tell(status, **found):
    """Prints the result and ends: what libraries do at exit is of no use here, and may hang."""
    RESULT.write(json.dumps({"status": status, **found}))
    RESULT.flush()
    os._exit(0)


class Torch:
    name = "torch"

    def __init__(self, torch):
        self.torch = torch
        self.version = str(torch.__version__)

    def has_gpu(self):
        return self.torch.cuda.is_available()

    def device_name(self):
        return str(self.torch.cuda.get_device_name(0))

    def free_bytes(self):
        return self.torch.cuda.mem_get_info()[0]

    def peak_bytes(self):
        return self.torch.cuda.max_memory_reserved()

    def seconds(self, action, times):
        begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            action()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000

    def copy(self, size):
        source, target = (self.torch.zeros(size, dtype=self.torch.uint8, device="cuda") for _ in range(2))
        return lambda: target.copy_(source)

    def types(self):
        """The types with their bytes; those that the GPU has no units for are left out."""
        torch = self.torch
        is_amd = getattr(torch.version, "hip", None) is not None
        is_recent = torch.cuda.get_device_capability(0) >= (8, 0)
        kinds = {"fp32": (torch.float32, 4), "fp16": (torch.float16, 2)}
        if is_recent and not is_amd:
            kinds["tf32"] = (torch.float32, 4)
        if is_recent or is_amd:
            kinds["bf16"] = (torch.bfloat16, 2)
        return kinds

    def product(self, kind, size):
        torch = self.torch
        torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
        dtype, _ = self.types()[kind]
        left, right = (torch.randn(size, size, dtype=dtype, device="cuda") for _ in range(2))
        out = torch.empty_like(left)
        return lambda: torch.matmul(left, right, out=out)

    def forget(self):
        self.torch.cuda.empty_cache()


class Cupy:
    name = "cupy"

    def __init__(self, cupy):
        self.cupy = cupy
        self.version = str(cupy.__version__)

    def has_gpu(self):
        try:
            return self.cupy.cuda.runtime.getDeviceCount() > 0
        except self.cupy.cuda.runtime.CUDARuntimeError:
            return False

    def device_name(self):
        name = self.cupy.cuda.runtime.getDeviceProperties(0)["name"]
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

    def free_bytes(self):
        return self.cupy.cuda.runtime.memGetInfo()[0]

    def peak_bytes(self):
        return self.most

    most = 0

    def seconds(self, action, times):
        self.most = max(self.most, self.cupy.get_default_memory_pool().total_bytes())
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        begin.record()
        for _ in range(times):
            action()
        end.record()
        end.synchronize()
        return self.cupy.cuda.get_elapsed_time(begin, end) / 1000

    def copy(self, size):
        source, target = (self.cupy.zeros(size, dtype=self.cupy.uint8) for _ in range(2))
        return lambda: self.cupy.copyto(target, source)

    def types(self):
        return {"fp32": (self.cupy.float32, 4), "fp16": (self.cupy.float16, 2)}

    def product(self, kind, size):
        dtype, _ = self.types()[kind]
        # Equal numbers: random ones of 16 bits would need a copy in 32.
        left, right = (self.cupy.full((size, size), 0.5, dtype=dtype) for _ in range(2))
        out = self.cupy.empty_like(left)
        return lambda: self.cupy.matmul(left, right, out=out)

    def forget(self):
        self.cupy.get_default_memory_pool().free_all_blocks()


def library():
    """PyTorch, or else CuPy."""
    try:
        import torch

        return Torch(torch)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            tell("failed", library="torch", message=str(error))
    try:
        import cupy

        return Cupy(cupy)
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            tell("failed", library="cupy", message=str(error))
    tell("no-library")


def median_seconds(gpu, action):
    """Of one repetition, after a warm-up; none where the time is up."""
    gpu.seconds(action, 1)
    first = max(gpu.seconds(action, 1), 1e-6)
    times = max(1, int(SHORTEST_SECONDS / first))
    gpu.seconds(action, times)
    measured = []
    for _ in range(REPETITIONS):
        if time.monotonic() > DEADLINE:
            break
        measured.append(gpu.seconds(action, times) / times)
    return statistics.median(measured) if measured else None


def matrix_size(most_bytes, width):
    """The largest power of two whose three matrices fit; none where not even small ones do."""
    size = LARGEST_MATRIX
    while 3 * size * size * width > most_bytes:
        size //= 2
    return size if size >= SMALLEST_MATRIX else None


def measure(gpu):
    # The context has taken its part by now.
    most_bytes = min(MOST_BYTES, gpu.free_bytes() // 4)
    half = min(256 * MIB, most_bytes // 2) // MIB * MIB
    copied = median_seconds(gpu, gpu.copy(half)) if half else None
    gpu.forget()
    rates = {}
    for kind, (_, width) in gpu.types().items():
        size = matrix_size(most_bytes, width)
        taken = median_seconds(gpu, gpu.product(kind, size)) if size else None
        rates[kind] = 2 * size**3 / taken if taken else None
        gpu.forget()
    tell(
        "measured",
        library=gpu.name,
        version=gpu.version,
        device_name=gpu.device_name(),
        # A copy reads and writes each byte.
        copy_bytes_per_sec=2 * half / copied if copied else None,
        flops_per_sec={kind: rates.get(kind) for kind in ("fp32", "tf32", "bf16", "fp16")},
        peak_allocated_bytes=gpu.peak_bytes(),
    )


name = "torch"
try:
    gpu = library()
    name = gpu.name
    if not gpu.has_gpu():
        tell("no-gpu", library=gpu.name, version=gpu.version)
    measure(gpu)
except Exception as error:
    tell("failed", library=name, message=f"{type(error).__name__}: {error}")
