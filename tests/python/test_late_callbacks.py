"""A callback that comes late is told of what stands, once."""

import time

from conftest import wait_until

from nilometer.memory import MemoryDebugger, OOMDetector, RiskLevel
from nilometer.memory.leak_report import LeakReport
from nilometer.memory.prediction import OOMPrediction

# A share of the limit that this very process is above.
TINY = 1e-6


def test_a_debugger_that_runs_tells_a_late_callback_of_what_stands():
    early, late, last = [], [], []
    debugger = MemoryDebugger(sampling_interval=0.02, warning_percent=TINY, critical_percent=2 * TINY, devices=["host"])
    debugger.add_alert_callback(early.append)
    with debugger:
        wait_until(lambda: early, "the alert")
        debugger.add_alert_callback(late.append)
        wait_until(lambda: late, "the alert that stands")
        time.sleep(0.2)
        assert late == early
        late[0]["message"] = "what one callback does with its alert is its own affair"
        debugger.add_alert_callback(last.append)
        wait_until(lambda: last, "the alert that still stands")
    assert [alert["type"] for alert in early] == [alert["type"] for alert in late] == ["critical_memory"]
    assert last == early


def test_a_detector_that_runs_tells_a_late_callback_of_what_stands():
    late = []
    detector = OOMDetector(threshold=TINY, sampling_interval=0.02, devices=["host"])
    with detector:
        wait_until(lambda: detector.warnings, "the warning")
        detector.add_alert_callback(late.append)
        wait_until(lambda: late, "the warning that stands")
        time.sleep(0.2)
    assert late == detector.warnings and len(late) == 1


def prediction(percent, forecast=RiskLevel.LOW):
    level = max(RiskLevel.HIGH if percent >= 75 else RiskLevel.LOW, forecast, key=lambda level: level.rank)
    return OOMPrediction("host", level, percent, "the machine", forecast_level=forecast)


def told(debugger):
    """What a callback that is added now is told, by one more that is not over."""
    heard = []
    debugger.add_alert_callback(heard.append)
    debugger._alerts.on_leak(LeakReport("0", 0, 1, 1, kind="leak"))
    wait_until(lambda: heard and heard[-1]["device"] == 0, "the last alert")
    return [(alert["type"], alert["device"]) for alert in heard[:-1]]


def test_what_is_over_is_not_told():
    debugger = MemoryDebugger()
    debugger._alerts.on_prediction(prediction(80, RiskLevel.HIGH))
    debugger._alerts.on_prediction(prediction(30))
    assert told(debugger) == []


def test_levels_risks_and_leaks_that_stand_are_told_each_once():
    debugger = MemoryDebugger()
    debugger._alerts.on_prediction(prediction(80))
    debugger._alerts.on_prediction(prediction(95, RiskLevel.CRITICAL))
    debugger._alerts.on_leak(LeakReport("host", 0, 5, 1, kind="leak"))
    assert told(debugger) == [("critical_memory", "host"), ("oom_risk", "host"), ("memory_leak", "host")]


def test_a_new_baseline_ends_the_leaks_before_it():
    debugger = MemoryDebugger()
    debugger._alerts.on_leak(LeakReport("host", 0, 5, 1, kind="leak"))
    debugger.set_baseline()
    assert told(debugger) == []
