"""One look at every device that the program uses memory of.

The device `host` is the process tree against its limit: the smallest cgroup limit above it, or the machine's memory.
GPUs appear under their indices once the program itself has started CUDA; looking never starts it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from .. import _native
from .._trouble import require_type

HOST = "host"


@dataclass(frozen=True)
class DeviceReading:
    """Memory of one device at one moment, in bytes."""

    device: str
    """`host`, or a GPU's index as text."""
    allocated: int
    free: int
    total: int
    source: str
    """What `total` is: the limit's source, or the GPU."""
    torch_allocated: int | None = None
    torch_reserved: int | None = None

    @property
    def utilization_percent(self) -> float:
        return 100 * self.allocated / self.total if self.total else 0.0


class DeviceReader:
    """Reads the host and the GPUs, or the devices named."""

    def __init__(self, devices: Sequence[int | str] | None = None) -> None:
        self._devices = None if devices is None else device_names(devices)
        wants_host = self._devices is None or HOST in self._devices
        self._host = _native.MemorySampler() if wants_host else None

    def read(self) -> list[DeviceReading]:
        readings = []
        if self._host is not None:
            readings.append(_host_reading(self._host))
        readings.extend(reading for reading in _gpu_readings() if self._wants(reading.device))
        return readings

    def _wants(self, device: str) -> bool:
        return self._devices is None or device in self._devices


def device_names(devices: Sequence[int | str]) -> list[str]:
    """`[0, "cuda:1", "host"]` as `["0", "1", "host"]`."""
    if isinstance(devices, str):
        raise TypeError("devices must be a list of indices or names, not a str")
    names = []
    for device in devices:
        require_type(device, (int, str), "devices")
        name = str(device).removeprefix("cuda:")
        if name not in (HOST, "cpu") and not name.isdigit():
            raise ValueError(f"devices must hold GPU indices or 'host', not {device!r}")
        names.append(HOST if name == "cpu" else name)
    return names


def _host_reading(sampler: _native.MemorySampler) -> DeviceReading:
    reading = sampler.read()
    allocated = reading["memory_bytes"]
    total = reading["limit_bytes"] or 0
    free = max(total - allocated, 0)
    if reading["available_bytes"] is not None:
        # What others took of the machine is not free, whatever the limit says.
        free = min(free, reading["available_bytes"])
    return DeviceReading(HOST, allocated, free, total, reading["limit_source"] or "no limit known")


def _gpu_readings() -> list[DeviceReading]:
    torch = sys.modules.get("torch")
    try:
        if torch is None or not torch.cuda.is_initialized():
            return []
        readings = []
        for index in range(torch.cuda.device_count()):
            free, total = torch.cuda.mem_get_info(index)
            allocated, reserved = torch.cuda.memory_allocated(index), torch.cuda.memory_reserved(index)
            name = torch.cuda.get_device_name(index)
            readings.append(DeviceReading(str(index), total - free, free, total, name, allocated, reserved))
        return readings
    except Exception:  # noqa: BLE001 - torch half loaded, or a driver that stopped answering: no reading
        return []
