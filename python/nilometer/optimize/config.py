"""Settings of the memory optimization system and of memory-optimized training, with their JSON files.

A file has the keys of one of them, or both under `memory` and `training`; `nilo optimize --config` reads the same files.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from .. import _native
from .._files import write_text
from .config_checks import at_least, at_most, check_type, fraction, in_order

_Config = TypeVar("_Config", bound="_Settings")
_GIB = 1 << 30
_MIB = 1 << 20
# An object of its own: whoever writes 1024 down has another one, and means it.
_DEFAULT_BUFFER_MB = float("1024")


@dataclass
class _Settings:
    """What both have in common: fields are checked when made, and JSON."""

    SECTION: ClassVar[str]

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            setattr(self, field.name, check_type(getattr(self, field.name), str(field.type), field.name))
        self.check()

    def check(self) -> None:
        """Raises ValueError for values out of range and values that contradict each other."""

    @classmethod
    def from_mapping(cls: type[_Config], values: Any) -> _Config:
        """From the keys of a JSON object; unknown ones raise ValueError."""
        if not isinstance(values, dict):
            raise ValueError(f"{cls.__name__} is a JSON object of settings, not {type(values).__name__}")
        known = [field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in known:
                raise ValueError(_unknown(cls, str(name), known))
        return cls(**values)

    @classmethod
    def from_json(cls: type[_Config], source: str | os.PathLike[str]) -> _Config:
        """From a file, or from JSON text (which begins with a brace). Of a file with both settings, in two parts or side by side, it takes its own."""
        return cls.from_mapping(_parts(_read(source))[cls.SECTION])

    def to_dict(self) -> dict[str, Any]:
        """Every field by its name."""
        return dataclasses.asdict(self)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """JSON text with every field, also written to `path` when given, in a folder that is there."""
        text = json.dumps(self.to_dict(), indent=2) + "\n"
        if path is not None:
            _write(path, text)
        return text


@dataclass
class MemoryOptimizationConfig(_Settings):
    """Settings of `MemoryOptimizationSystem`.

    >>> MemoryOptimizationConfig(max_memory_usage_gb=16.0).memory_warning_threshold
    0.75
    """

    SECTION = "memory"

    max_memory_usage_gb: float = 8.0
    """What the program may hold of host memory; the limit in force counts where it is smaller."""
    memory_warning_threshold: float = 0.75
    memory_critical_threshold: float = 0.90
    gpu_warning_threshold: float = 0.80
    gpu_critical_threshold: float = 0.95
    gc_threshold_0: int = 700
    gc_threshold_1: int = 10
    gc_threshold_2: int = 10
    auto_gc_interval: float = 60.0
    """Seconds between collections that are not caused by allocations."""
    buffer_size_limit_mb: float = _DEFAULT_BUFFER_MB
    """What the cache of arrays may take: at most half of `max_memory_usage_gb`, which the default gives way to."""
    enable_buffer_compression: bool = True
    monitoring_interval: float = 5.0
    enable_memory_profiling: bool = True
    """Whether Python allocations are traced by line (tracemalloc); slows Python code down."""
    profile_top_n: int = 10
    enable_object_counting: bool = True
    """Whether live objects are counted, to find those that accumulate; takes at most a hundredth of the time."""

    @property
    def gc_thresholds(self) -> tuple[int, int, int]:
        """As `gc.set_threshold` takes them."""
        return (self.gc_threshold_0, self.gc_threshold_1, self.gc_threshold_2)

    @property
    def max_memory_bytes(self) -> int:
        """`max_memory_usage_gb` in bytes."""
        return int(self.max_memory_usage_gb * _GIB)

    @property
    def buffer_bytes(self) -> int:
        """`buffer_size_limit_mb` in bytes."""
        return int(self.buffer_size_limit_mb * _MIB)

    def check(self) -> None:
        at_least(self.max_memory_usage_gb, 0, "max_memory_usage_gb", above=True)
        at_most(self.max_memory_usage_gb, 1e9, "max_memory_usage_gb")
        for name in ("memory_warning_threshold", "memory_critical_threshold", "gpu_warning_threshold", "gpu_critical_threshold"):
            fraction(getattr(self, name), name)
        in_order(self, "memory_warning_threshold", "memory_critical_threshold", may_be_equal=False)
        in_order(self, "gpu_warning_threshold", "gpu_critical_threshold", may_be_equal=False)
        for name in ("gc_threshold_0", "gc_threshold_1", "gc_threshold_2", "profile_top_n"):
            at_least(getattr(self, name), 1, name)
        at_least(self.auto_gc_interval, 0, "auto_gc_interval", above=True)
        at_most(self.auto_gc_interval, 1e9, "auto_gc_interval")
        at_least(self.buffer_size_limit_mb, 0, "buffer_size_limit_mb", above=True)
        at_most(self.buffer_size_limit_mb, 1e12, "buffer_size_limit_mb")
        at_least(self.monitoring_interval, 0.01, "monitoring_interval")
        if self.monitoring_interval > 3600:
            raise ValueError(f"monitoring_interval must be at most 3600 seconds, not {self.monitoring_interval:g}")
        half_mb = self.max_memory_usage_gb * 512
        if self.buffer_size_limit_mb > half_mb:
            # The default gives way to a small maximum; what was written down does not.
            if self.buffer_size_limit_mb is not _DEFAULT_BUFFER_MB:
                raise ValueError(
                    f"buffer_size_limit_mb ({self.buffer_size_limit_mb:.15g} MB) is more than half of max_memory_usage_gb ({self.max_memory_usage_gb:.15g} GB): "
                    f"set it to {half_mb:.15g} or less"
                )
            self.buffer_size_limit_mb = half_mb


@dataclass
class TrainingMemoryConfig(_Settings):
    """Settings of `TrainingMemoryOptimizer`.

    A step trains on `effective_batch_size` samples (by default `initial_batch_size`), in micro-batches that begin with `initial_batch_size`
    and change between `min_batch_size` and `max_batch_size`: the result of training does not depend on what fits.

    >>> TrainingMemoryConfig(initial_batch_size=16, min_batch_size=4).effective_batch_size is None
    True
    """

    SECTION = "training"

    initial_batch_size: int = 32
    max_batch_size: int = 512
    min_batch_size: int = 8
    memory_threshold: float = 0.85
    """The share of the device's memory, or of the host's limit, that training may take."""
    enable_mixed_precision: bool = True
    enable_gradient_checkpointing: bool = True
    checkpoint_segments: int = 4
    """Segments of a model whose blocks are not alike, so that no plan can be made."""
    num_workers: int = 4
    pin_memory: bool = True
    """Heeded where training runs on a GPU."""
    persistent_workers: bool = True
    """Heeded where there are workers."""
    effective_batch_size: int | None = None
    max_grad_norm: float | None = None
    shuffle: bool = True

    def check(self) -> None:
        for name in ("min_batch_size", "initial_batch_size", "max_batch_size", "checkpoint_segments"):
            at_least(getattr(self, name), 1, name)
        in_order(self, "min_batch_size", "initial_batch_size", may_be_equal=True)
        in_order(self, "initial_batch_size", "max_batch_size", may_be_equal=True)
        fraction(self.memory_threshold, "memory_threshold")
        at_least(self.num_workers, 0, "num_workers")
        if self.effective_batch_size is not None:
            at_least(self.effective_batch_size, 1, "effective_batch_size")
            # A micro-batch is a part of the batch.
            in_order(self, "initial_batch_size", "effective_batch_size", may_be_equal=True)
        if self.max_grad_norm is not None:
            at_least(self.max_grad_norm, 0, "max_grad_norm", above=True)


def load_configs(source: str | os.PathLike[str]) -> tuple[MemoryOptimizationConfig, TrainingMemoryConfig]:
    """Both settings of one file or JSON text: under `memory` and `training`, or all keys side by side. What is left out has its default."""
    parts = _parts(_read(source))
    return MemoryOptimizationConfig.from_mapping(parts["memory"]), TrainingMemoryConfig.from_mapping(parts["training"])


def write_config_template(path: str | os.PathLike[str]) -> None:
    """Writes a file with every setting and its default, to be edited. Its folder has to be there."""
    both = {"memory": MemoryOptimizationConfig().to_dict(), "training": TrainingMemoryConfig().to_dict()}
    _write(path, json.dumps(both, indent=2) + "\n")


def create_memory_optimized_config(**settings: Any) -> MemoryOptimizationConfig:
    """Settings for this machine: nine tenths of the memory limit in force, an eighth of it for buffers (1 GiB at most), and thresholds
    of the garbage collector at which its longest pause is short. What is given counts instead.

    >>> create_memory_optimized_config(monitoring_interval=1.0).monitoring_interval
    1.0
    """
    chosen: dict[str, Any] = {"gc_threshold_0": 50_000, "gc_threshold_1": 20, "gc_threshold_2": 10}
    limit = _native.memory_limit()
    if limit is not None:
        chosen["max_memory_usage_gb"] = round(0.9 * limit[0] / _GIB, 3)
        # Of a smaller maximum that is given, buffers have an eighth.
        eighth_mb = 128 * _least_number(limit[0] / _GIB, settings.get("max_memory_usage_gb"))
        chosen["buffer_size_limit_mb"] = min(1024.0, round(eighth_mb, 1) or eighth_mb)
    return MemoryOptimizationConfig.from_mapping(chosen | settings)


def create_memory_efficient_config(**settings: Any) -> TrainingMemoryConfig:
    """Settings of training for this machine: workers by the CPUs that it may use, pinned memory and mixed precision where there is a GPU,
    and small batches that may shrink to one sample. What is given counts instead.

    >>> create_memory_efficient_config(num_workers=0).num_workers
    0
    """
    cpus = len(os.sched_getaffinity(0))
    has_gpu = bool(_native.gpu_readings())
    largest = _least_number(16, settings.get("max_batch_size"), settings.get("effective_batch_size"))
    chosen: dict[str, Any] = {
        "initial_batch_size": max(_numbers(largest, settings.get("min_batch_size"))),
        "min_batch_size": 1,
        "max_batch_size": max(_numbers(TrainingMemoryConfig.max_batch_size, settings.get("initial_batch_size"), settings.get("min_batch_size"))),
        "memory_threshold": 0.8,
        "num_workers": min(4, max(0, cpus - 1)),
        "pin_memory": has_gpu,
        "enable_mixed_precision": has_gpu,
    }
    return TrainingMemoryConfig.from_mapping(chosen | settings)


def _least_number(*values: Any) -> Any:
    return min(_numbers(*values))


def _numbers(*values: Any) -> list[Any]:
    """Those that are numbers; what is none is refused later, by its name."""
    return [value for value in values if isinstance(value, (int, float)) and value > 0]


def _write(path: str | os.PathLike[str], text: str) -> None:
    """Whole or not at all. A name with a mistake makes no folders."""
    target = pathlib.Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write the settings {target}: the folder {target.parent} does not exist; make it first, or name another")
    if target.is_dir():
        raise IsADirectoryError(f"cannot write the settings {target}: it is a folder; name a file in it")
    write_text(target, text)


def _read(source: str | os.PathLike[str]) -> Any:
    is_text = isinstance(source, str) and source.lstrip("\ufeff \n\r\t").startswith(("{", "["))
    if is_text:
        text = str(source)
    else:
        with open(source, encoding="utf-8", errors="replace") as file:
            text = file.read()
    try:
        # One judge for files: what `nilo optimize --config` refuses is refused here, with the same sentence.
        _native.check_settings(text)
    except ValueError as error:
        raise ValueError(f"{'the JSON text' if is_text else os.fspath(source)}: {error}") from None
    return json.loads(text.lstrip("\ufeff"))


def _parts(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of each class, of a file that was judged: what is in neither has been refused."""
    if set(values) & {"memory", "training"}:
        return {"memory": {}, "training": {}, **values}
    of_training = {field.name for field in dataclasses.fields(TrainingMemoryConfig)}
    return {
        "memory": {name: value for name, value in values.items() if name not in of_training},
        "training": {name: value for name, value in values.items() if name in of_training},
    }


def _unknown(cls: type[_Settings], name: str, known: list[str]) -> str:
    other = TrainingMemoryConfig if cls is MemoryOptimizationConfig else MemoryOptimizationConfig
    if name in {field.name for field in dataclasses.fields(other)}:
        return f"{name} is a setting of {other.__name__}, not of {cls.__name__}: put it under {other.SECTION!r}"
    near = difflib.get_close_matches(name, known, 1)
    return f"{cls.__name__} has no setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(known)}")
