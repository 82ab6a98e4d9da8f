"""Power, temperature, clocks and throttling of GPUs, from the driver to every view; with the scenario files of the fake driver."""

import json

import pytest
from fake_nvml import GIB, FakeDriver
from package import run_program

COLUMNS = [
    "power_watts",
    "power_limit_watts",
    "temperature_celsius",
    "sm_clock_mhz",
    "memory_clock_mhz",
    "throttled_by_power",
    "throttled_by_heat",
    "throttled_by_hardware",
    "uncorrected_ecc_errors",
    "nvlink_sent_bytes",
    "nvlink_received_bytes",
]


@pytest.fixture
def scenario(tmp_path):
    """Makes a driver that plays a scenario."""

    def play(name):
        folder = tmp_path / "driver"
        folder.mkdir()
        return FakeDriver(folder, name)

    return play


def record(nilo, driver, seconds="1"):
    result = nilo("run", "--quiet", "--interval", "0.05", "--", "sleep", seconds, extra_env=driver.environment)
    assert (result.returncode, result.stderr) == (0, "")
    return nilo.show()


def last_row(nilo, index):
    recording = json.loads(nilo("export", "last", "--format", "json").stdout)
    (table,) = [table for table in recording["tables"] if table["subject"] == {"type": "gpu", "index": index}]
    return {column["name"]: values[-1] for column, values in zip(table["columns"], table["values"])}


def test_sensors_are_recorded_beside_memory_and_shown(nilo, scenario):
    shown = record(nilo, scenario("h100-pair.txt"), "2")
    first, second = shown["gpus"]
    assert first["sensors"]["mean_power_watts"] == 412
    assert (first["sensors"]["power_limit_watts"], first["sensors"]["temperature_celsius"]) == (700, 54)
    assert (first["sensors"]["sm_clock_mhz"], first["sensors"]["memory_clock_mhz"]) == (1980, 2619)
    assert first["sensors"]["throttled_by_power_share"] == 0
    assert (first["sensors"]["nvlink_sent_bytes"], first["sensors"]["nvlink_received_bytes"]) == (2 * GIB, 0), "while it was recorded"
    assert second["sensors"]["nvlink_sent_bytes"] is None
    assert second["sensors"]["throttled_by_power_share"] > 0
    assert second["sensors"]["throttled_by_heat_share"] > 0, "from the third reading on"
    assert second["sensors"]["uncorrected_ecc_errors"] == 0, "they were counted before the run"
    row = last_row(nilo, 0)
    assert [row[name] for name in COLUMNS] == [412, 700, 54, 1980, 2619, 0, 0, 0, 0, 3 * GIB, 2 * GIB]
    everything = nilo("show", "--all").stdout
    assert "  GPU 0: 412 W of 700 W on average, 412 W at most, up to 54 °C, 1980 MHz on average, 2.00 GiB sent and 0 B received over NVLink\n" in everything
    usual = nilo("show").stdout
    assert "  GPU 0:" not in usual, "nothing is wrong with it"
    assert "throttled by heat" in usual.replace("\n", " ")
    assert nilo("verify").returncode == 0


def test_what_a_driver_does_not_tell_is_absent_and_not_spoken_of(nilo, scenario):
    shown = record(nilo, scenario("old-driver.txt"))
    assert shown["blind_spots"] == []
    (gpu,) = shown["gpus"]
    assert (gpu["peak_used_bytes"], gpu["sensors"]["temperature_celsius"]) == (GIB, 40)
    assert gpu["sensors"]["power_watts"] is gpu["sensors"]["throttled_by_power_share"] is None
    assert "  GPU 0: up to 40 °C, 1200 MHz on average\n" in nilo("show", "--all").stdout


def test_a_sensor_that_fails_is_said_once_and_everything_else_is_recorded(nilo, scenario):
    shown = record(nilo, scenario("failing-sensors.txt"), "2.5")
    assert shown["blind_spots"] == ["a sensor of GPU 0 (Fake G16) cannot be read: power: it gives no reason"]
    (gpu,) = shown["gpus"]
    assert (gpu["peak_used_bytes"], gpu["sensors"]["temperature_celsius"]) == (GIB, 40)


def test_a_gpu_that_vanishes_and_comes_back_leaves_a_gap(nilo, scenario):
    shown = record(nilo, scenario("vanishing.txt"), "2")
    assert shown["blind_spots"] == [
        "GPU 1 (Fake G16) cannot be read: it has fallen off the bus; it is not recorded until it can be"
    ]
    assert [gpu["last_used_bytes"] for gpu in shown["gpus"]] == [GIB, 2 * GIB]
    assert [gpu["sensors"]["power_watts"] for gpu in shown["gpus"]] == [100, 200]


def test_parts_of_a_divided_gpu_name_the_whole(nilo, scenario):
    whole, *parts = record(nilo, scenario("divided.txt"))["gpus"]
    assert (whole["part_of"], whole["sensors"]["power_watts"]) == (None, 300)
    assert [(part["index"], part["part_of"], part["sensors"]) for part in parts] == [(2, 0, None), (3, 0, None)]
    assert "NVIDIA H100 MIG 3g.40gb (part of GPU 0)" in nilo("show").stdout


def test_a_profile_says_what_the_sensors_say_now(nilo, scenario):
    driver = scenario("h100-pair.txt")
    arguments = ["profile", "--devices", "0", "--duration", "1", "--no-record"]
    text = nilo(*arguments, extra_env=driver.environment)
    assert text.returncode == 0, text.stderr
    assert "\nGPU 0: 412 W of 700 W, 54 °C, 1980 MHz\n" in text.stdout
    report = json.loads(nilo(*arguments, "--format", "json", extra_env=driver.environment).stdout)
    assert report["devices"]["0"]["sensors"]["temperature_celsius"] == 54
    assert "sensors" not in report["host"]


def test_python_reads_the_sensors(scenario, tmp_path):
    driver = scenario("h100-pair.txt")
    code = "import json; from nilometer import _native; print(json.dumps(_native.gpu_readings()))"
    first, second = json.loads(run_program(code, tmp_path, **driver.environment).stdout)
    assert (first["power_watts"], first["power_limit_watts"], first["temperature_celsius"]) == (412.345, 700, 54)
    assert (first["sm_clock_mhz"], first["memory_clock_mhz"], first["uncorrected_ecc_errors"]) == (1980, 2619, 0)
    assert (first["nvlink_sent_bytes"], first["nvlink_received_bytes"], second["nvlink_sent_bytes"]) == (GIB, 2 * GIB, None)
    assert (first["throttled_by"], second["throttled_by"]) == ([], ["power"])
