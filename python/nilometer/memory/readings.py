"""One look at every device that the program uses memory of.

The device `host` is the process tree against its limit: the smallest cgroup limit above it, or the machine's memory.

GPUs go by CUDA's indices, those that torch uses: `CUDA_VISIBLE_DEVICES="3,1"` makes the machine's GPU 3 device 0.
They appear once the program holds memory on them, or when they are asked for by index; looking starts neither CUDA nor a context.
Where the program has a context of torch's, torch says how much is used and free; elsewhere, and without torch, NVIDIA's driver does.
A GPU of torch's and one of the driver's are the same when their UUIDs are; a torch that tells none is matched by the order.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
    own: int | None = None
    """On a GPU: held by this program's processes, contexts included, where the driver tells."""

    children: int | None = None
    """On the host: held by descendants of this process, as closely as it is known."""

    @property
    def utilization_percent(self) -> float:
        return 100 * self.allocated / self.total if self.total else 0.0

    @property
    def cached(self) -> int:
        """What PyTorch keeps without need, and gives back or uses before it fails."""
        return max((self.torch_reserved or 0) - (self.torch_allocated or 0), 0)

    @property
    def held_percent(self) -> float:
        """As `utilization_percent`, without PyTorch's cache."""
        return 100 * max(self.allocated - self.cached, 0) / self.total if self.total else 0.0


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
        if self._devices is None or any(device != HOST for device in self._devices):
            readings.extend(_gpu_readings(self._devices))
        return readings


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


def device_name(device: int | str) -> str:
    """As it is printed."""
    return "host memory" if device == HOST else f"GPU {device}"


def _host_reading(sampler: _native.MemorySampler) -> DeviceReading:
    reading = sampler.read()
    allocated = reading["memory_bytes"]
    total = reading["limit_bytes"] or 0
    free = max(total - allocated, 0)
    if reading["available_bytes"] is not None:
        # What others took of the machine is not free, whatever the limit says.
        free = min(free, reading["available_bytes"])
    children = None if reading["processes"] > 1 else 0
    if children is None and (own := _own_resident()) is not None:
        children = max(allocated - own, 0)
    source = reading["limit_source"] or "no limit known"
    return DeviceReading(HOST, allocated, free, total, source, children=children)


def _own_resident() -> int | None:
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _gpu_readings(wanted: list[str] | None) -> list[DeviceReading]:
    """The GPUs named, or those that the program holds memory on."""
    of_driver = _native.gpu_readings()
    readings = None
    try:
        readings = _torch_readings(of_driver)
    except Exception:  # noqa: BLE001 - torch half loaded, or a device that stopped answering: what the driver says remains
        pass
    if readings is None:
        readings = [reading for gpu in of_driver if (reading := _driver_reading(gpu["index"], gpu)) is not None]
    if wanted is None:
        return [reading for reading in readings if reading.own or reading.torch_reserved is not None]
    return [reading for reading in readings if reading.device in wanted]


def _driver_reading(index: int, gpu: dict[str, Any] | None) -> DeviceReading | None:
    if gpu is None or gpu["used_bytes"] is None:
        return None
    # What the driver keeps for itself is neither used nor free, and nobody can have it.
    used, free = gpu["used_bytes"], gpu["free_bytes"]
    return DeviceReading(str(index), used, free, used + free, gpu["name"], own=gpu["own_bytes"])


def _torch_readings(of_driver: list[dict[str, Any]]) -> list[DeviceReading] | None:
    """Every GPU that torch sees, in its order; None before it has started CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    by_uuid = {gpu["uuid"].removeprefix("GPU-"): gpu for gpu in of_driver}
    by_index = {gpu["index"]: gpu for gpu in of_driver}
    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", lambda _: True)
    readings = []
    for index in range(torch.cuda.device_count()):
        properties = torch.cuda.get_device_properties(index)
        uuid = getattr(properties, "uuid", None)
        gpu = by_index.get(index) if uuid is None else by_uuid.get(str(uuid).removeprefix("GPU-"))
        reading = _driver_reading(index, gpu)
        # To ask torch about memory would make the context that is not there, of some hundred MiB.
        if has_context(index):
            free, total = torch.cuda.mem_get_info(index)
            allocated, reserved = torch.cuda.memory_allocated(index), torch.cuda.memory_reserved(index)
            own = None if gpu is None else gpu["own_bytes"]
            reading = DeviceReading(
                str(index), total - free, free, total, properties.name, allocated, reserved, own
            )
        if reading is not None:
            readings.append(reading)
    return readings
