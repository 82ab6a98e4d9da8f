"""GPUs in the classes that watch memory from inside, without torch and with a stand-in for it; with a fake driver."""

import json
import os
import subprocess
import sys

import pytest
from conftest import unavailable
from fake_nvml import GIB, FakeDriver, gpu_line
from package import run_program


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    return FakeDriver(folder)


def told(driver, tmp_path, code, **environment):
    """What a program prints as JSON."""
    return json.loads(run_program(code, tmp_path, **driver.environment, **environment).stdout)


READ = """
    import json
    from nilometer import _native
    print(json.dumps(_native.gpu_readings()))
"""


def test_the_driver_is_read_and_gpus_are_numbered_as_cuda_does(driver, tmp_path):
    driver.say(gpu_line(GIB, "GPU-a"), gpu_line(2 * GIB, "GPU-b", busy=-1), "process GPU-b 1 1000")
    first, second = told(driver, tmp_path, READ)
    assert (first["index"], first["driver_index"], first["uuid"], first["name"]) == (0, 0, "GPU-a", "Fake G16")
    assert (first["used_bytes"], first["free_bytes"], first["total_bytes"]) == (GIB, 14 * GIB, 16 * GIB)
    assert (first["utilization"], second["utilization"]) == (0.5, None)
    assert (first["own_bytes"], second["own_bytes"]) == (0, 0)
    for visible, expected in [("1,0", ["GPU-b", "GPU-a"]), ("GPU-b", ["GPU-b"]), ("", [])]:
        found = told(driver, tmp_path, READ, CUDA_VISIBLE_DEVICES=visible)
        assert [gpu["uuid"] for gpu in found] == expected
        assert [gpu["index"] for gpu in found] == list(range(len(expected)))


def test_without_a_driver_there_are_none_and_no_thread_for_them(tmp_path):
    code = """
        import os
        from nilometer import _native
        from nilometer.memory import MemoryProfiler
        assert _native.gpu_readings() == []
        assert [reading.device for reading in MemoryProfiler(devices=[0, "host"]).read()] == ["host"]
        assert len(os.listdir("/proc/self/task")) == 1
    """
    run_program(code, tmp_path, NILO_NVML="/nowhere")


def test_a_driver_that_hangs_or_a_lost_gpu_gives_no_readings(driver, tmp_path):
    driver.say(gpu_line(GIB, "GPU-a"), gpu_line(2 * GIB, "GPU-b"), "fail GPU-a 15")
    assert [gpu["index"] for gpu in told(driver, tmp_path, READ)] == [1]
    code = """
        import os, pathlib
        from nilometer import _native
        assert len(_native.gpu_readings()) == 1
        state = pathlib.Path(os.environ["FAKE_NVML"])
        lines = state.read_text()
        state.write_text("hang\\n" + lines)
        assert _native.gpu_readings() == []
        state.write_text(lines)
        while not _native.gpu_readings():
            pass
    """
    run_program(code, tmp_path, **driver.environment)


# A program that holds memory on the second GPU that it sees; others fill the first.
OWNER = """
    import json, os, pathlib
    from nilometer.memory import LeakDetector, MemoryProfiler, OOMDetector
    GIB = 1 << 30
    state = pathlib.Path(os.environ["FAKE_NVML"])
    def hold(bytes):
        lines = state.read_text().splitlines()[:2]
        draft = state.with_name("draft")
        draft.write_text("\\n".join([*lines, "process GPU-a 1 1000", f"process GPU-b {os.getpid()} {bytes}"]))
        draft.replace(state)
"""


@pytest.fixture
def shared_gpus(driver):
    driver.say(gpu_line(14 * GIB, "GPU-a"), gpu_line(9 * GIB, "GPU-b"))
    return driver


def test_a_profile_has_the_gpus_that_the_program_holds_memory_on_or_those_named(shared_gpus, tmp_path):
    code = OWNER + """
    profiler = MemoryProfiler(sampling_interval=0.01)
    before = sorted(profiler.get_status()["devices"])
    hold(3 * GIB)
    with profiler:
        while len(profiler.samples(1)) < 3:
            pass
    named = [reading.device for reading in MemoryProfiler(devices=["cuda:0"]).read()]
    print(json.dumps([before, profiler.generate_report()["devices"], named]))
"""
    before, devices, named = told(shared_gpus, tmp_path, code)
    assert (before, sorted(devices), named) == (["host"], ["1", "host"], ["0"])
    usage = devices["1"]["current_usage"]
    assert (usage["allocated"], usage["free"], usage["total"], usage["own"]) == (9 * GIB, 6 * GIB, 15 * GIB, 3 * GIB)
    assert (usage["utilization_percent"], usage["limit"]) == (60.0, "Fake G16")
    assert devices["1"]["statistics"]["peak_allocated"] == 9 * GIB


def test_a_gpu_that_fills_up_is_warned_of_without_torch(shared_gpus, tmp_path):
    code = OWNER + """
    import threading
    seen, warned = [], threading.Event()
    def warn(prediction):
        seen.append([prediction.device_id, prediction.risk_level.value, prediction.limit_source])
        warned.set()
    with OOMDetector(threshold=85.0, warning_callback=warn, sampling_interval=0.01, devices=[0]):
        assert warned.wait(60)
    print(json.dumps(seen))
"""
    assert told(shared_gpus, tmp_path, code) == [[0, "high", "Fake G16"]]


def test_a_leak_on_a_gpu_is_the_programs_own_growth(shared_gpus, tmp_path):
    code = OWNER + """
    hold(GIB)
    detector = LeakDetector(threshold_mb=100, devices=[1])
    detector.set_baseline()
    hold(2 * GIB)
    # The list of processes is read anew after a second, while the used memory stays.
    import time
    while not detector.check()[0].is_leak:
        time.sleep(0.05)
    report = detector.check()[0]
    print(json.dumps([report.device, report.growth_bytes]))
"""
    assert told(shared_gpus, tmp_path, code) == ["1", GIB]


def test_a_forked_child_reads_with_a_reader_of_its_own(shared_gpus, tmp_path):
    code = OWNER + """
    from nilometer import _native
    hold(GIB)
    assert _native.gpu_readings()[1]["own_bytes"] == GIB
    pid = os.fork()
    if pid == 0:
        # The parent's memory is not the child's.
        os._exit(0 if [gpu["own_bytes"] for gpu in _native.gpu_readings()] == [0, 0] else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert _native.gpu_readings()[1]["own_bytes"] == GIB
    print("[]")
"""
    told(shared_gpus, tmp_path, code)


# As in a container, where the driver names nobody; the device files are made up.
DEVICE_FILES = """
    set -e
    mkdir "$FOLDER/devices" && mount --bind /dev "$FOLDER/devices" && mount -t tmpfs none /dev
    for name in null zero urandom; do touch /dev/$name && mount --bind "$FOLDER/devices/$name" /dev/$name; done
    touch /dev/nvidia-uvm
    exec "$@"
"""


@pytest.mark.parametrize("computes", [True, False])
def test_a_gpu_whose_shares_the_driver_does_not_tell_is_seen_by_a_program_that_computes(driver, tmp_path, computes):
    command = ["unshare", "--mount", "sh", "-c", DEVICE_FILES, "sh"]
    if subprocess.run([*command[:2], "true"], capture_output=True).returncode:
        unavailable("a mount namespace needs root")
    code = """
import json, os, pathlib, sys
from nilometer.memory import MemoryProfiler
held = open("/dev/nvidia-uvm") if sys.argv[1] == "True" else None
state = pathlib.Path(os.environ["FAKE_NVML"])
state.write_text(state.read_text() + f"\\nprocess GPU-a {os.getpid()} -1\\n")
print(json.dumps(MemoryProfiler().get_status()["devices"]))
"""
    driver.say(gpu_line(9 * GIB))
    environment = os.environ | driver.environment | {"FOLDER": str(tmp_path)}
    program = [sys.executable, "-c", code, str(computes)]
    result = subprocess.run([*command, *program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    devices = json.loads(result.stdout)
    if not computes:
        assert list(devices) == ["host"]
        return
    usage = devices["0"]["current_usage"]
    assert (usage["allocated"], usage["own_unknown"]) == (9 * GIB, "the driver does not report memory per process")
    assert "own" not in usage


# Torch's devices in the opposite order, as on a machine with GPUs of several kinds; a context on the first only.
STAND_IN = """
    import sys, types
    class Cuda:
        uuids = ["b", "a"]
        def is_initialized(self): return True
        def device_count(self): return 2
        def get_device_properties(self, index):
            known = {"uuid": self.uuids[index]} if self.uuids else {}
            return types.SimpleNamespace(name=f"torch {index}", total_memory=15 << 30, **known)
        def mem_get_info(self, index):
            assert index == 0, "this would make a context"
            return (6 << 30, 15 << 30)
        def memory_allocated(self, index): return 1 << 30
        def memory_reserved(self, index): return 2 << 30
    torch = types.ModuleType("torch")
    torch.cuda = Cuda()
    torch._C = types.SimpleNamespace(_cuda_hasPrimaryContext=lambda index: index == 0)
    sys.modules["torch"] = torch
    def rows(readings):
        return [[r.device, r.source, r.allocated >> 30, r.own and r.own >> 30, r.torch_reserved and r.torch_reserved >> 30] for r in readings]
"""


def test_torch_and_the_driver_are_matched_by_uuid_and_no_context_is_made(shared_gpus, tmp_path):
    code = OWNER + STAND_IN + """
    hold(3 * GIB)
    every = rows(MemoryProfiler(devices=[0, 1]).read())
    usual = rows(MemoryProfiler().read())[1:]
    Cuda.uuids = None
    by_order = rows(MemoryProfiler(devices=[0, 1]).read())
    print(json.dumps([every, usual, by_order]))
"""
    every, usual, by_order = told(shared_gpus, tmp_path, code)
    assert every == [["0", "torch 0", 9, 3, 2], ["1", "Fake G16", 14, 0, None]]
    assert usual == every[:1]
    assert by_order == [["0", "torch 0", 9, 0, 2], ["1", "Fake G16", 9, 3, None]]
