"""Training that fits: micro-batches that survive running out of memory, and model steps that were measured on the first batch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ... import _native
from ..._trouble import refuse_pickling, require, require_type
from ..batches.adaptive_batches import AdaptiveBatches
from ..batches.batch_size import NoBatchFits
from ..batches.micro_batches import batch_length, split_batch
from ..batches.probes import at_most
from ..batches.rank_agreement import least, sum_of_all
from ..batches.sample_inputs import on_device
from ..config import TrainingMemoryConfig
from ..host import process_heap
from ..host.housekeeping import start_collector
from ..in_run import tell_facts
from ..live_facts import known_facts, recommendations, torch_facts
from ..measuring.accounting import TensorMeter, device_of, tensor_bytes
from ..measuring.oom_recovery import attempt, release
from ..model.facts import facts_of_model
from ..model.optimization import MARGIN, predicted_batch
from ..model.segments import checkpoint_step
from ..model.steps import AUTOCAST, CHUNKED_LOSS, ModelStep, StepOutcome, apply_steps
from ..report_files import write_report
from .data import epochs, loader_facts, make_loader, same_weights
from .figures import TrainingFigures, as_markdown, failure_of
from .loss import BatchLoss


class TrainingMemoryOptimizer:
    """Trains a model within the memory that there is.

    Of the settings, mixed precision and gradient checkpointing are tried on the first batch and kept where they leave loss and gradients as they are (to rounding)
    and lower its peak by enough for the time that they cost (see `apply_steps`), or by anything where the batch does not fit without;
    the batch runs in micro-batches that shrink when memory runs out and grow again.
    With both switched off and enough memory, the weights are those of a plain loop over the same batches, to the last bit.
    Under `torch.distributed` every rank calls it with its own model: gradients are summed by the optimizer itself, so the model is not wrapped.

    >>> data = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    >>> model = torch.nn.Linear(4, 1)
    >>> with TrainingMemoryOptimizer(TrainingMemoryConfig(num_workers=0, enable_mixed_precision=False)) as optimizer:
    ...     results = optimizer.optimize_training_loop(
    ...         model=model, dataset=data, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), num_epochs=2, loss_fn=torch.nn.MSELoss()
    ...     )
    >>> results["steps"], results["oom_events"], len(results["epoch_losses"])
    (4, 0, 2)
    """

    def __init__(self, config: TrainingMemoryConfig | None = None) -> None:
        if config is not None:
            require_type(config, TrainingMemoryConfig, "config")
        self.config = TrainingMemoryConfig() if config is None else config
        self.collector: Any = None
        self._owns_collector = False
        self._figures: list[TrainingFigures] = []
        self._facts: dict[str, Any] = {}

    __reduce__ = refuse_pickling

    def __enter__(self) -> TrainingMemoryOptimizer:
        self.collector, self._owns_collector = start_collector()
        return self

    def __exit__(self, *_: object) -> None:
        if self._owns_collector and self.collector is not None:
            self.collector.stop()
        self._owns_collector = False

    def optimize_training_loop(
        self,
        model: torch.nn.Module,
        dataset: Any,
        optimizer: torch.optim.Optimizer,
        num_epochs: int,
        loss_fn: Callable[..., torch.Tensor] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        device: str | torch.device | None = None,
        *,
        scheduler: Any = None,
        on_epoch: Callable[[int, float], object] | None = None,
        meter: TensorMeter | None = None,
    ) -> dict[str, Any]:
        """Trains and gives what came out: losses, batch sizes, out-of-memory errors and recoveries, throughput, memory, what was optimized.

        `loss_fn(output, target)` as in a plain loop; without it the model computes its own loss. `dataset` may be a `DataLoader`, whose batches are then the effective ones.
        The model stays on its device unless `device` names another (the optimizer's tensors must be there then).
        `scheduler.step()` is called after each optimizer step, `on_epoch(epoch, loss)` after each epoch.
        `meter` counts tensor bytes and may have a limit of its own.
        """
        require_type(model, torch.nn.Module, "model")
        require_type(optimizer, torch.optim.Optimizer, "optimizer")
        require_type(num_epochs, int, "num_epochs")
        require(num_epochs >= 1, f"num_epochs must be at least 1, not {num_epochs}")
        require(scheduler is None or hasattr(scheduler, "step"), f"scheduler must have a step() method; {type(scheduler).__name__} has none")
        if device is not None:
            model.to(device)
        place = device_of(model)
        loader = make_loader(dataset, self.config, place, collate_fn)
        loss = BatchLoss(loss_fn, model)
        figures = TrainingFigures(self.config, place)
        self._figures.append(figures)
        same_weights(model)
        model.train()
        batches: AdaptiveBatches | None = None
        batch_bytes = 0
        try:
            with self._budget(place), meter or contextlib.nullcontext():
                for epoch, of_epoch in enumerate(epochs(loader, num_epochs)):
                    for given in of_epoch:
                        batch = on_device(given, place, non_blocking=True)
                        del given
                        if batches is None:
                            batch_bytes = tensor_bytes(batch)
                            figures.outcomes = self._optimize(model, batch, loss, optimizer)
                            batches = self._batches(model, optimizer, loss, batch, meter)
                            figures.begin(batches.micro_batch)
                        try:
                            done = batches.step(batch)
                        except NoBatchFits:
                            figures.add_failure(batches.failed_in_step, batches.ooms)
                            raise
                        figures.add_step(done, batch_length(batch), batches.ooms)
                        if scheduler is not None:
                            scheduler.step()
                        if self.collector is not None and self._owns_collector:
                            self.collector.step()
                    # Ranks stop together, so that all of them see it.
                    require(figures.steps > 0, "the dataset gave no batch: nothing was trained")
                    self._end_epoch(figures, epoch, on_epoch)
        except BaseException as error:
            figures.failure = failure_of(error)
            raise
        finally:
            self._facts = {"model": facts_of_model(model, optimizer, outcomes=figures.outcomes), "torch": torch_facts()}
            self._facts |= {"batch": figures.facts(loader.dataset), "loader": loader_facts(loader, batch_bytes)}
            figures.end()
            for subject, values in known_facts(self._facts).items():
                tell_facts(subject, values)
            for outcome in reversed(figures.outcomes):
                outcome.take_off()
        return figures.results(self.collector)

    def get_optimization_report(self) -> dict[str, Any]:
        """Every training so far, with the settings and what the rules of advice recommend."""
        facts = dict(self._facts)
        limit = _native.memory_limit()
        facts["host"] = {"peak_bytes": _native.peak_rss(), "limit_bytes": limit and limit[0], "rss_bytes": process_heap.rss_bytes()}
        if self.collector is not None:
            for subject, values in self.collector.facts().items():
                facts[subject] = {**values, **facts.get(subject, {})}
        return {
            "config": self.config.to_dict(),
            "trainings": [figures.results(self.collector) for figures in self._figures],
            "recommendations": recommendations(known_facts(facts)),
        }

    def export_report(self, filepath: str | os.PathLike[str]) -> dict[str, Any]:
        """The report as a file, JSON or Markdown by its name (`.json`, `.md`), whole or not at all."""
        report = self.get_optimization_report()
        write_report(filepath, report, as_markdown)
        return report

    def _end_epoch(self, figures: TrainingFigures, epoch: int, on_epoch: Callable[[int, float], object] | None) -> None:
        loss, weight = figures.take_epoch()
        total, samples = sum_of_all(loss), sum_of_all(weight)
        figures.epoch_losses.append(total / samples if samples else float("nan"))
        if self.collector is not None and self._owns_collector:
            self.collector.boundary()
        if on_epoch is not None:
            on_epoch(epoch, figures.epoch_losses[-1])

    def _optimize(
        self, model: torch.nn.Module, batch: Any, loss: BatchLoss, optimizer: torch.optim.Optimizer
    ) -> list[StepOutcome]:
        """Tries what the settings ask for on the first micro-batch; ranks keep only what all of them kept."""
        steps: list[ModelStep] = []
        if self.config.enable_mixed_precision:
            steps += [CHUNKED_LOSS] if loss.loss_fn is None else []
            steps.append(AUTOCAST)
        if self.config.enable_gradient_checkpointing:
            steps.append(checkpoint_step(self.config.checkpoint_segments))
        if not steps:
            return []
        outcomes: list[StepOutcome] = []
        has_run_out = False
        size = min(self.config.initial_batch_size, batch_length(batch))
        while size:
            trial = loss.trial(model, next(split_batch(batch, size)), optimizer)
            # Where a whole micro-batch did not fit, memory is short: whatever lowers the peak is needed.
            settings = {"tolerance": True, "steps": steps, "advice": False, "keep_all": has_run_out}
            tried = attempt(lambda trial=trial: apply_steps(model, trial.sample, loss=trial.loss, optimizer=optimizer, **settings))  # type: ignore[misc]
            if tried.result is not None:
                outcomes = tried.result
                break
            release(model)
            size //= 2
            has_run_out = True
        kept = least(*[int(outcome.applied) for outcome in outcomes] or [0] * len(steps))
        for outcome, by_all in zip(reversed(outcomes), reversed(kept), strict=False):
            if outcome.applied and not by_all:
                outcome.undo("reverted: it did not help on another rank")
        return outcomes

    def _batches(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: BatchLoss, batch: Any, meter: TensorMeter | None
    ) -> AdaptiveBatches:
        config = self.config
        largest = config.max_batch_size
        if batch_length(batch) > config.initial_batch_size and meter is None and device_of(model).type != "cuda":
            largest = self._largest_on_host(model, optimizer, loss, batch)
        return AdaptiveBatches(
            model,
            optimizer,
            loss,
            micro_batch=config.initial_batch_size,
            minimum=config.min_batch_size,
            maximum=max(config.initial_batch_size, largest),
            count=loss.count,
            tell_size=False,  # it is logged with the loss
            max_grad_norm=config.max_grad_norm,
            meter=meter,
        )

    def _largest_on_host(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss: BatchLoss, batch: Any) -> int:
        """Host memory is not refused but ends the process: micro-batches grow to what small steps predict, within the share of the limit."""
        limit = _native.memory_limit()
        if limit is None:
            return self.config.max_batch_size
        room = self.config.memory_threshold * limit[0] - process_heap.rss_bytes()
        found = predicted_batch(lambda count: loss.trial(model, next(split_batch(batch, count)), optimizer), MARGIN * room)
        return self.config.initial_batch_size if found is None else min(self.config.max_batch_size, found[0])

    @contextlib.contextmanager
    def _budget(self, device: torch.device) -> Iterator[None]:
        """On a GPU the allocator keeps to the share that the settings allow, so that running out is an error that can be recovered from."""
        if device.type != "cuda":
            yield
            return
        total = torch.cuda.get_device_properties(device).total_memory
        with at_most(device, int(self.config.memory_threshold * total)):
            yield


