"""Making training fit: checkpoint plans, leaner model steps and batch sizes, each measured on your own sample.

    from nilometer.optimize import checkpoint_model

    outcome = checkpoint_model(model, sample, budget_bytes=8 << 30)
    print(outcome)          # what was done, what it saved and what it costs, or why the model was left alone
    outcome.undo()

Nothing here imports torch until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accounting import TensorMeter as TensorMeter
    from .accounting import meter_for as meter_for
    from .adaptive_batches import AdaptiveBatches as AdaptiveBatches
    from .adaptive_batches import BatchStep as BatchStep
    from .batch_size import BatchSize as BatchSize
    from .batch_size import NoBatchFits as NoBatchFits
    from .batch_size import find_batch_size as find_batch_size
    from .checkpointing import CheckpointOutcome as CheckpointOutcome
    from .checkpointing import checkpoint_model as checkpoint_model
    from .checkpointing import checkpoint_plans as checkpoint_plans
    from .chunked_loss import chunked_cross_entropy as chunked_cross_entropy
    from .cleanup import quick_memory_optimization as quick_memory_optimization
    from .config import MemoryOptimizationConfig as MemoryOptimizationConfig
    from .config import TrainingMemoryConfig as TrainingMemoryConfig
    from .config import create_memory_efficient_config as create_memory_efficient_config
    from .config import create_memory_optimized_config as create_memory_optimized_config
    from .config import load_configs as load_configs
    from .config import write_config_template as write_config_template
    from .efficient import memory_efficient_context as memory_efficient_context
    from .efficient import memory_efficient_decorator as memory_efficient_decorator
    from .efficient import memory_efficient_training as memory_efficient_training
    from .estimate import estimate_memory_requirements as estimate_memory_requirements
    from .garbage import GarbageCollector as GarbageCollector
    from .language_model_loss import language_model_loss_sum as language_model_loss_sum
    from .leaked_objects import ObjectReport as ObjectReport
    from .loading import LoaderReport as LoaderReport
    from .loading import inspect_loader as inspect_loader
    from .loop_recovery import BatchRecovery as BatchRecovery
    from .loop_recovery import recover_lightning as recover_lightning
    from .loop_recovery import recover_trainer as recover_trainer
    from .memory_fit import MemoryFit as MemoryFit
    from .model_steps import StepOutcome as StepOutcome
    from .model_steps import Tier as Tier
    from .model_steps import apply_steps as apply_steps
    from .object_leaks import ObjectLeaks as ObjectLeaks
    from .shared_dataset import share_dataset as share_dataset
    from .shared_list import SharedList as SharedList
    from .system import MemoryOptimizationSystem as MemoryOptimizationSystem
    from .token_batches import TokenBudgetBatches as TokenBudgetBatches
    from .trainer_batches import fit_lightning_batch as fit_lightning_batch
    from .trainer_batches import fit_trainer_batch as fit_trainer_batch
    from .training import TrainingMemoryOptimizer as TrainingMemoryOptimizer

_HOMES = {
    "AdaptiveBatches": "adaptive_batches",
    "BatchRecovery": "loop_recovery",
    "BatchSize": "batch_size",
    "BatchStep": "adaptive_batches",
    "CheckpointOutcome": "checkpointing",
    "GarbageCollector": "garbage",
    "LoaderReport": "loading",
    "MemoryFit": "memory_fit",
    "MemoryOptimizationConfig": "config",
    "MemoryOptimizationSystem": "system",
    "NoBatchFits": "batch_size",
    "ObjectLeaks": "object_leaks",
    "ObjectReport": "leaked_objects",
    "SharedList": "shared_list",
    "StepOutcome": "model_steps",
    "TensorMeter": "accounting",
    "Tier": "model_steps",
    "TokenBudgetBatches": "token_batches",
    "TrainingMemoryConfig": "config",
    "TrainingMemoryOptimizer": "training",
    "apply_steps": "model_steps",
    "checkpoint_model": "checkpointing",
    "checkpoint_plans": "checkpointing",
    "chunked_cross_entropy": "chunked_loss",
    "create_memory_efficient_config": "config",
    "create_memory_optimized_config": "config",
    "estimate_memory_requirements": "estimate",
    "find_batch_size": "batch_size",
    "fit_lightning_batch": "trainer_batches",
    "fit_trainer_batch": "trainer_batches",
    "inspect_loader": "loading",
    "language_model_loss_sum": "language_model_loss",
    "load_configs": "config",
    "memory_efficient_context": "efficient",
    "memory_efficient_decorator": "efficient",
    "memory_efficient_training": "efficient",
    "meter_for": "accounting",
    "quick_memory_optimization": "cleanup",
    "recover_lightning": "loop_recovery",
    "recover_trainer": "loop_recovery",
    "share_dataset": "shared_dataset",
    "write_config_template": "config",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
