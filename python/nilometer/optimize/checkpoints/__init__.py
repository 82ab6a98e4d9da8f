"""Checkpoint plans for chains of blocks, and putting them on a model."""
