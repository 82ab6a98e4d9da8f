"""One look at every device that the program uses memory of.

The device `host` is the process tree against its limit: the smallest cgroup limit above it, or the machine's memory.

GPUs go by CUDA's indices, those that torch uses: `CUDA_VISIBLE_DEVICES="3,1"` makes the machine's GPU 3 device 0.
They appear once the program holds memory on them, or computes and the driver does not tell what it holds, or when they are asked for by index; looking starts neither CUDA nor a context.
Where the program has a context of torch's, torch says how much is used and free; elsewhere, and without torch, the GPU's driver does.
A GPU of torch's and one of the driver's are the same when their UUIDs are; a torch that tells none is matched by the order.
"""

from __future__ import annotations

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

    own_unknown: str | None = None
    """On a GPU: why `own` is not known although the program computes on a GPU."""

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


def resource_name(device: str) -> str:
    """What a reading is of, as the command calls it: of the host this program's process tree, not the whole machine."""
    return "job memory" if device == HOST else device_name(device)


def is_of_program(reading: DeviceReading) -> bool:
    """Whether the program uses this device, so that nobody has to name it."""
    return (
        reading.device == HOST
        or bool(reading.own)
        or reading.torch_reserved is not None
        # It computes on one of them and the driver does not tell on which: better one too many than none.
        or reading.own_unknown is not None
    )


def host_reading(said: dict[str, Any]) -> DeviceReading:
    """The host, of a reading of the monitor."""
    allocated = said["memory_bytes"]
    total = said["limit_bytes"] or 0
    free = max(total - allocated, 0)
    if said["available_bytes"] is not None:
        # What others took of the machine is not free, whatever the limit says.
        free = min(free, said["available_bytes"])
    source = said["limit_source"] or "no limit known"
    return DeviceReading(HOST, allocated, free, total, source, children=said["children_bytes"])


def gpu_readings() -> list[DeviceReading]:
    """Every GPU that the program can see."""
    of_driver = _native.gpu_readings()
    readings = None
    try:
        readings = _torch_readings(of_driver)
    except Exception:  # noqa: BLE001 - torch half loaded, or a device that stopped answering: what the driver says remains
        pass
    if readings is None:
        readings = [reading for gpu in of_driver if (reading := _driver_reading(gpu["index"], gpu)) is not None]
    return readings


def _driver_reading(index: int, gpu: dict[str, Any] | None) -> DeviceReading | None:
    if gpu is None or gpu["used_bytes"] is None:
        return None
    # What the driver keeps for itself is neither used nor free, and nobody can have it.
    used, free = gpu["used_bytes"], gpu["free_bytes"]
    return DeviceReading(
        str(index), used, free, used + free, gpu["name"], own=gpu["own_bytes"], own_unknown=gpu["own_unknown"]
    )


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
