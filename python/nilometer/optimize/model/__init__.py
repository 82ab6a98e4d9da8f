"""Leaner steps of a model, each measured, and what a model will need."""
