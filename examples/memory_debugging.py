"""Watch memory from inside a program: a profile, warnings before it runs out, leaks, and alerts for a handler of your own.

    python examples/memory_debugging.py

The same from outside, for any process: `python -m nilometer.memory profile`, `oom`, `leak` and `monitor`.
"""

import logging
import os
import time

from nilometer.memory import MemoryDebugger, MemoryProfiler, OOMDetector


class Record:
    """Something that a careless program keeps."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.data = bytearray(1000)


def work(kept: list) -> None:
    """A stand-in for training, which forgets to let go."""
    for number in range(20_000):
        kept.append(Record(number))
        if number % 1000 == 0:
            time.sleep(0.01)


def main() -> None:
    if os.environ.get("DEBUG"):
        # Every look at memory is logged at this level.
        logging.basicConfig(level=logging.DEBUG)

    print("--- everything at once")
    debugger = MemoryDebugger(monitoring_interval=0.05)

    def on_alert(alert: dict) -> None:
        if alert["type"] == "critical_memory":
            print("critical: make room, or save and stop:", alert["message"])
        else:
            print("alert:", alert["type"], alert["message"])

    debugger.add_alert_callback(on_alert)
    kept: list = []
    debugger.start_monitoring()
    work(kept)
    debugger.stop_monitoring()
    report = debugger.get_status_report()
    for device, state in report["devices"].items():
        statistics = state["statistics"]
        print(f"{device}: {state['current_usage']['utilization_percent']} % used, {statistics['samples_count']} samples, {statistics['trend']}")
    print("GPUs:", report["summary"]["total_devices"])
    kind, more = next(iter(report["python_objects"].items()))
    print(f"most objects kept: {kind} (+{more})")

    print("--- a profile, written as JSON")
    with MemoryProfiler(sampling_interval=0.02) as profiler:
        time.sleep(0.2)
    profiler.generate_report("memory_report.json")
    print("wrote memory_report.json")

    print("--- warnings before memory runs out")

    def on_risk(prediction) -> None:
        if prediction.risk_level.value == "critical":
            print(f"{prediction.device_name} is about to run out: a smaller batch, quickly")
        else:
            print(prediction)

    # 85 percent; a fraction does as well.
    with OOMDetector(threshold=0.85, warning_callback=on_risk) as detector:
        risks = detector.check()
    for risk in risks:
        print(f"{risk.device_name}: {risk.risk_level.value} risk at {risk.current_usage:.1f} %")


if __name__ == "__main__":
    main()
