"""A callback that comes late is told of what stands, once."""

import time

from conftest import wait_until

from nilometer.memory import DeviceReading, MemoryDebugger, OOMDetector
from nilometer.memory.leak_report import LeakReport

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


def full(percent):
    """A look at a GPU that is full to a percentage."""
    used = percent << 30
    return DeviceReading("0", used, (100 << 30) - used, 100 << 30, "A GPU", own=used)


def leak(debugger, device):
    debugger._on_leak(LeakReport(device, 0, 5, 1, kind="leak"), "it leaks")


def told(debugger):
    """What a callback that is added now is told, by one more that is not over."""
    heard = []
    debugger.add_alert_callback(heard.append)
    leak(debugger, "7")
    wait_until(lambda: heard and heard[-1]["device"] == 7, "the last alert")
    return [(alert["type"], alert["device"]) for alert in heard[:-1]]


def test_what_is_over_after_some_time_of_calm_is_not_told():
    debugger, detector, halfway = MemoryDebugger(), OOMDetector(90), MemoryDebugger()
    watchers = (debugger._alerts, detector)
    for watcher in (*watchers, halfway._alerts):
        watcher.on_reading([full(96)], 0.0)
    assert told(debugger) == [("gpu_critical_memory", 0)] and len(detector.warnings) == 1

    def is_over():
        for watcher in watchers:
            watcher.on_reading([full(30)], 0.0)
        halfway._alerts.on_reading([full(85)], 0.0)
        standing = [set(one._alerts._standing) for one in (debugger, halfway)]
        return not detector._standing and standing == [{("memory_leak", 7)}, {("gpu_warning_memory", 0)}]

    # A moment of calm is none.
    assert not is_over()
    wait_until(is_over, "the end of the warnings", seconds=60)
    # What was left out beside something worse is told once that is over.
    assert told(halfway) == [("gpu_warning_memory", 0)]
    late = []
    detector.add_alert_callback(late.append)
    detector.on_reading([full(96)], 0.0)
    wait_until(lambda: late, "the next warning")
    assert late == detector.warnings[1:]


def test_levels_and_leaks_that_stand_are_told_each_once():
    debugger = MemoryDebugger()
    debugger._alerts.on_reading([full(85)], 0.0)
    debugger._alerts.on_reading([full(97)], 0.0)
    leak(debugger, "host")
    assert told(debugger) == [("gpu_critical_memory", 0), ("memory_leak", "host")]


def test_a_new_baseline_ends_the_leaks_before_it():
    debugger = MemoryDebugger()
    leak(debugger, "host")
    debugger.set_baseline()
    assert told(debugger) == []


def beyond_baseline(debugger, *, was_set):
    """Growth beyond the baseline that has the trend of a leak just now, as one look finds it."""
    debugger._on_leak(LeakReport("host", 0, 200 << 20, 100 << 20, kind="leak", mb_per_minute=760.0, lasted_secs=8.0, baseline_was_set=was_set), None)


def test_a_leak_is_told_once_and_not_before_several_looks_have_found_it():
    debugger, heard = MemoryDebugger(), []
    debugger.add_alert_callback(heard.append)
    beyond_baseline(debugger, was_set=False)
    leak(debugger, "host")
    leak(debugger, "7")
    wait_until(lambda: heard and heard[-1]["device"] == 7, "the last alert")
    assert [(alert["device"], alert["message"]) for alert in heard] == [("host", "it leaks"), (7, "it leaks")]


def test_growth_beyond_a_baseline_that_was_set_is_told_at_once_and_its_trend_not_again():
    debugger, heard = MemoryDebugger(), []
    debugger.add_alert_callback(heard.append)
    beyond_baseline(debugger, was_set=True)
    leak(debugger, "host")
    leak(debugger, "7")
    wait_until(lambda: heard and heard[-1]["device"] == 7, "the last alert")
    assert [alert["device"] for alert in heard] == ["host", 7] and "beyond its baseline" in heard[0]["message"]
    # Once it is over, the next one is told.
    debugger._alerts.on_leak_over("host")
    leak(debugger, "host")
    wait_until(lambda: len(heard) == 3, "the next leak")
    assert heard[-1]["message"] == "it leaks"
