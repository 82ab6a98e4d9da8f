"""Making training fit: checkpoint plans, leaner model steps and batch sizes, each measured on your own sample.

    from nilometer.optimize import checkpoint_model

    outcome = checkpoint_model(model, sample, budget_bytes=8 << 30)
    print(outcome)          # what was done, what it saved and what it costs, or why the model was left alone
    outcome.undo()

Nothing here imports torch until it is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batches.adaptive_batches import AdaptiveBatches as AdaptiveBatches
    from .batches.adaptive_batches import BatchStep as BatchStep
    from .batches.batch_size import BatchSize as BatchSize
    from .batches.batch_size import NoBatchFits as NoBatchFits
    from .batches.batch_size import find_batch_size as find_batch_size
    from .batches.language_model_loss import language_model_loss_sum as language_model_loss_sum
    from .batches.loop_recovery import BatchRecovery as BatchRecovery
    from .batches.loop_recovery import recover_lightning as recover_lightning
    from .batches.loop_recovery import recover_trainer as recover_trainer
    from .batches.memory_fit import MemoryFit as MemoryFit
    from .batches.token_batches import TokenBudgetBatches as TokenBudgetBatches
    from .batches.trainer_batches import fit_lightning_batch as fit_lightning_batch
    from .batches.trainer_batches import fit_trainer_batch as fit_trainer_batch
    from .buffer_inspection import inspect_buffer as inspect_buffer
    from .checkpoints.checkpointing import CheckpointOutcome as CheckpointOutcome
    from .checkpoints.checkpointing import checkpoint_model as checkpoint_model
    from .checkpoints.checkpointing import checkpoint_plans as checkpoint_plans
    from .config import MemoryOptimizationConfig as MemoryOptimizationConfig
    from .config import TrainingMemoryConfig as TrainingMemoryConfig
    from .config import create_memory_efficient_config as create_memory_efficient_config
    from .config import create_memory_optimized_config as create_memory_optimized_config
    from .config import load_configs as load_configs
    from .config import write_config_template as write_config_template
    from .host.cleanup import quick_memory_optimization as quick_memory_optimization
    from .host.garbage import GarbageCollector as GarbageCollector
    from .loading.loader_report import LoaderReport as LoaderReport
    from .loading.loader_report import inspect_loader as inspect_loader
    from .loading.shared_dataset import share_dataset as share_dataset
    from .loading.shared_list import SharedList as SharedList
    from .measuring.accounting import TensorLimitReached as TensorLimitReached
    from .measuring.accounting import TensorMeter as TensorMeter
    from .measuring.accounting import meter_for as meter_for
    from .model.chunked_loss import chunked_cross_entropy as chunked_cross_entropy
    from .model.estimate import estimate_memory_requirements as estimate_memory_requirements
    from .model.steps import StepOutcome as StepOutcome
    from .model.steps import Tier as Tier
    from .model.steps import apply_steps as apply_steps
    from .objects.leaked_objects import ObjectReport as ObjectReport
    from .objects.object_leaks import ObjectLeaks as ObjectLeaks
    from .system.efficient import memory_efficient_context as memory_efficient_context
    from .system.efficient import memory_efficient_decorator as memory_efficient_decorator
    from .system.efficient import memory_efficient_training as memory_efficient_training
    from .system.optimization_system import MemoryOptimizationSystem as MemoryOptimizationSystem
    from .training.optimizer import TrainingMemoryOptimizer as TrainingMemoryOptimizer

_HOMES = {
    "AdaptiveBatches": "batches.adaptive_batches",
    "BatchRecovery": "batches.loop_recovery",
    "BatchSize": "batches.batch_size",
    "BatchStep": "batches.adaptive_batches",
    "CheckpointOutcome": "checkpoints.checkpointing",
    "GarbageCollector": "host.garbage",
    "LoaderReport": "loading.loader_report",
    "MemoryFit": "batches.memory_fit",
    "MemoryOptimizationConfig": "config",
    "MemoryOptimizationSystem": "system.optimization_system",
    "NoBatchFits": "batches.batch_size",
    "ObjectLeaks": "objects.object_leaks",
    "ObjectReport": "objects.leaked_objects",
    "SharedList": "loading.shared_list",
    "StepOutcome": "model.steps",
    "TensorLimitReached": "measuring.accounting",
    "TensorMeter": "measuring.accounting",
    "Tier": "model.steps",
    "TokenBudgetBatches": "batches.token_batches",
    "TrainingMemoryConfig": "config",
    "TrainingMemoryOptimizer": "training.optimizer",
    "apply_steps": "model.steps",
    "checkpoint_model": "checkpoints.checkpointing",
    "checkpoint_plans": "checkpoints.checkpointing",
    "chunked_cross_entropy": "model.chunked_loss",
    "create_memory_efficient_config": "config",
    "create_memory_optimized_config": "config",
    "estimate_memory_requirements": "model.estimate",
    "find_batch_size": "batches.batch_size",
    "fit_lightning_batch": "batches.trainer_batches",
    "fit_trainer_batch": "batches.trainer_batches",
    "inspect_buffer": "buffer_inspection",
    "inspect_loader": "loading.loader_report",
    "language_model_loss_sum": "batches.language_model_loss",
    "load_configs": "config",
    "memory_efficient_context": "system.efficient",
    "memory_efficient_decorator": "system.efficient",
    "memory_efficient_training": "system.efficient",
    "meter_for": "measuring.accounting",
    "quick_memory_optimization": "host.cleanup",
    "recover_lightning": "batches.loop_recovery",
    "recover_trainer": "batches.loop_recovery",
    "share_dataset": "loading.shared_dataset",
    "write_config_template": "config",
}

_NEED_TORCH = {
    "batches.adaptive_batches",
    "batches.batch_size",
    "batches.language_model_loss",
    "batches.loop_recovery",
    "batches.trainer_batches",
    "checkpoints.checkpointing",
    "loading.loader_report",
    "measuring.accounting",
    "model.chunked_loss",
    "model.estimate",
    "model.steps",
    "training.optimizer",
}


def _has_torch() -> bool:
    try:
        return importlib.util.find_spec("torch") is not None
    except ValueError:  # what stands for torch has no specification
        return sys.modules["torch"] is not None


# `import *` works without torch too, and then leaves out what needs it.
__all__ = sorted(_HOMES) if _has_torch() else sorted(name for name, home in _HOMES.items() if home not in _NEED_TORCH)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
