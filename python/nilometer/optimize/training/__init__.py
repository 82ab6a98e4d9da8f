"""`TrainingMemoryOptimizer`: a training loop with everything applied."""
