"""What this process has used so far, by the kernel's account: all of its threads together."""

import json
import resource
import time


def mark() -> dict:
    """The moment on the clock that all processes share, CPU seconds, and the highest resident memory up to here."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "clock_secs": time.monotonic(),
        "cpu_secs": used.ru_utime + used.ru_stime,
        "peak_bytes": used.ru_maxrss * 1024,
    }


def tell(folder: str, before: dict, after: dict, **more) -> None:
    """Leaves two marks for the process that measures."""
    with open(f"{folder}/usage.json", "w") as file:
        json.dump({"before": before, "after": after, **more}, file)
