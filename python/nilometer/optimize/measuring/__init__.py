"""Measuring a training step: its memory, its time, whether its gradients stayed the same."""
