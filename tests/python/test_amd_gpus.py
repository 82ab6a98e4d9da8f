"""AMD's GPUs in a recording and in Python, from a tree of files as the kernel's driver lays them out."""

import json
import pathlib
import shutil

import pytest
from conftest import python
from package import run_program

GIB = 1 << 30
TREE = pathlib.Path(__file__).resolve().parents[2] / "crates/nilo-source/testdata/amd-sysfs"

# The job computes on the second GPU: what the kernel would write about it, it writes itself.
JOB = f"""
import os, pathlib, time
sysfs = pathlib.Path(os.environ["NILO_SYSFS"])
own = sysfs / "class/kfd/kfd/proc" / str(os.getpid())
own.mkdir()
(own / "vram_28851").write_text("{20 * GIB}\\n")
(own / "vram_51113").write_text("0\\n")
(sysfs / "class/drm/card1/device/mem_info_vram_used").write_text("{32 * GIB}\\n")
time.sleep(1.5)
"""


@pytest.fixture
def machine(tmp_path):
    """A machine with two AMD GPUs and no NVIDIA driver, as environment."""
    sysfs = tmp_path / "sys"
    shutil.copytree(TREE, sysfs)
    return {"NILO_SYSFS": str(sysfs), "NILO_NVML": "/nowhere/libnvidia-ml.so.1"}


def test_a_job_on_an_amd_gpu_is_recorded_with_its_share_and_sensors(nilo, machine):
    result = nilo("run", "--quiet", "--interval", "0.05", "--", *python(JOB), extra_env=machine)
    assert (result.returncode, result.stderr) == (0, "")
    shown = nilo.show()
    gpu = shown["gpus"][-1]
    assert (gpu["index"], gpu["name"], gpu["uuid"]) == (1, "AMD Instinct MI300X", "GPU-5a1b2c3d4e5f6071")
    assert (gpu["peak_used_bytes"], gpu["peak_job_bytes"], gpu["total_bytes"]) == (32 * GIB, 20 * GIB, 192 * GIB)
    assert (gpu["sensors"]["power_watts"], gpu["sensors"]["temperature_celsius"]) == (415, 61)
    assert gpu["sensors"]["throttled_by_heat_share"] is None
    assert "415 W of 750 W" in nilo("show", "--all").stdout


def test_variables_hide_amd_gpus(nilo, machine):
    result = nilo("run", "--quiet", "--", "sleep", "1", extra_env=machine | {"HIP_VISIBLE_DEVICES": "0"})
    assert result.returncode == 0
    assert [gpu["index"] for gpu in nilo.show()["gpus"]] == [0]


def test_python_reads_amd_gpus_and_an_empty_variable_turns_gpus_off(machine, tmp_path):
    code = "import json; from nilometer import _native; print(json.dumps(_native.gpu_readings()))"
    first, second = json.loads(run_program(code, tmp_path, **machine).stdout)
    assert (first["used_bytes"], second["used_bytes"]) == (3 * GIB, 12 * GIB)
    assert (second["power_watts"], second["throttled_by"]) == (415, None)
    (only,) = json.loads(run_program(code, tmp_path, **machine, ROCR_VISIBLE_DEVICES="1").stdout)
    assert (only["index"], only["driver_index"]) == (0, 1)
    assert json.loads(run_program(code, tmp_path, **machine | {"NILO_NVML": ""}).stdout) == []
