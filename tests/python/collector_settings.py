"""Tests of garbage collection give back what they set."""

import gc

import pytest

from nilometer.optimize.host import garbage


@pytest.fixture(autouse=True)
def settings_as_before():
    enabled, thresholds = gc.isenabled(), gc.get_threshold()
    gc.collect()
    yield
    active = garbage._active and garbage._active()
    if active is not None:
        active.stop()
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*thresholds)
    gc.unfreeze()
