"""GPU memory of a model step by step, and the part that torch does not count. Runs without a GPU too, on host memory.

    python examples/gpu_memory.py
"""

from nilometer.memory import MemoryProfiler
from nilometer.profiling import GPUMemoryProfiler, TrainingTimer

try:
    import torch
except ImportError:
    torch = None


def main() -> None:
    profiler = GPUMemoryProfiler(device=0)
    timer = TrainingTimer(device=0)
    where = "GPU 0" if profiler.available else "host memory"
    print(f"measuring {where}")
    profiler.set_baseline()
    kept = []
    for step in range(5):
        timer.start("forward")
        if profiler.available:
            kept.append(torch.ones(16 << 20, device="cuda"))
        else:
            kept.append(bytearray(b"x") * (64 << 20))
        timer.stop("forward")
        figures = profiler.measure(f"step {step}")
        host = profiler.host_reading()
        if host is None:
            print(f"step {step}: {figures['allocated_gb']:.3f} GB allocated, {figures['max_allocated_gb']:.3f} GB at most")
        else:
            # Without a GPU its figures are 0.
            print(f"step {step}: {host['memory_bytes'] / 2**30:.3f} GB of host memory")
    print("grew by more than 0.2 GB:", profiler.detect_leak(threshold_gb=0.2))
    print(f"forward: {1000 * timer.get_summary()['forward']['mean_sec']:.1f} ms")

    # torch counts its tensors; the driver also counts the context and the libraries, some hundred MiB.
    for name, device in MemoryProfiler(devices=[0]).get_status()["devices"].items():
        usage = device["current_usage"]
        print(f"GPU {name}: {usage['allocated'] / 2**30:.2f} GB used, {usage.get('non_torch', 0) / 2**30:.2f} GB of it not torch's")


if __name__ == "__main__":
    main()
