"""Callbacks and loggers for the frameworks people train with. Each module needs its framework and says so when imported."""
