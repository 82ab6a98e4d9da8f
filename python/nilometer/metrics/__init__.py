"""Training metrics: trackers that keep statistics at hand, and loggers that keep everything in the run."""

from .grpo import GRPOMetricsTracker
from .logger import TrainingLogger
from .scores import ScoreDistributionTracker
from .tracker import MetricTracker

__all__ = ["GRPOMetricsTracker", "MetricTracker", "ScoreDistributionTracker", "TrainingLogger"]
