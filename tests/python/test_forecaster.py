"""The forecaster with series whose end is known."""

import math
import random

import pytest

from nilometer import _native
from nilometer.memory import Forecaster, RiskLevel

GIB = 1 << 30


def followed(level_at, seconds, interval=1.0, limit=16 * GIB, **parts):
    """A forecaster that has seen a series, with other parts of the readings as functions of time."""
    forecaster = Forecaster()
    for number in range(int(seconds / interval)):
        second = number * interval
        others = {name: part(second) for name, part in parts.items()}
        forecaster.observe(second, level_at(second), limit, **others)
    return forecaster


@pytest.mark.parametrize(("interval", "scale"), [(0.1, 300), (1.0, 600), (5.0, 2500)])
def test_a_steady_leak_to_the_limit_is_forecast_in_time(interval, scale):
    """At four fifths of the way the rest is known within a factor of 1.5."""
    noise = random.Random(1)
    rate = 12 * GIB / scale
    forecaster = followed(lambda t: 4 * GIB + rate * t + noise.gauss(0, 0.01 * GIB), 0.8 * scale, interval)
    forecast = forecaster.forecast()
    truth = 0.2 * scale
    assert forecast.level in (RiskLevel.HIGH, RiskLevel.CRITICAL)
    assert truth / 1.5 < forecast.seconds < truth * 1.5
    assert forecast.seconds_low < forecast.seconds < forecast.seconds_high
    assert (forecast.level is RiskLevel.CRITICAL) == (forecast.seconds <= 120)
    assert 0.5 < forecast.confidence <= 1 and forecast.cause == "growth"
    assert forecast.bytes_per_sec == pytest.approx(rate, rel=0.1)
    growth = forecaster.growth(GIB)
    assert growth.kind == "leak"
    assert growth.bytes_per_sec_low <= growth.bytes_per_sec <= growth.bytes_per_sec_high


def test_a_young_program_is_believed_to_warm_up_unless_it_makes_steps():
    rising = {"level_at": lambda t: (4 + 0.2 * t) * GIB, "seconds": 32, "interval": 0.1}
    assert followed(**rising).forecast().level is RiskLevel.LOW
    assert followed(**rising, step=lambda t: int(10 * t)).forecast().level is RiskLevel.CRITICAL
    # By half of the time that is left after 30 seconds it is no loading any more.
    assert followed(**rising | {"seconds": 45}).forecast().level is RiskLevel.CRITICAL


def test_a_flat_level_is_no_risk_even_near_the_limit():
    noise = random.Random(2)
    forecaster = followed(lambda t: 14 * GIB + noise.gauss(0, 0.05 * GIB), 1200)
    assert forecaster.forecast().level is RiskLevel.LOW
    assert forecaster.growth(0.1 * GIB) is None
    assert forecaster.forecast().used_share == pytest.approx(14 / 16, abs=0.02)


def test_without_a_limit_there_is_growth_but_no_forecast():
    forecaster = followed(lambda t: 4 * GIB + 1e7 * t, 600, limit=None)
    forecast = forecaster.forecast()
    assert (forecast.level, forecast.seconds, forecast.used_share) == (RiskLevel.LOW, None, None)
    assert forecaster.growth(GIB).kind == "leak"


def test_causes_are_told_apart():
    rising = {"level_at": lambda t: 4 * GIB + 0.02 * GIB * t, "seconds": 500}
    assert followed(**rising).forecast().cause == "growth"
    assert followed(**rising, own_bytes=lambda t: GIB).forecast().cause == "neighbour"
    assert followed(**rising, children_bytes=lambda t: 0.019 * GIB * t).forecast().cause == "workers"
    # The end of an epoch came and nothing was given back: these workers do not stop.
    workers = Forecaster()
    for second in range(500):
        workers.observe(second, 4 * GIB + 0.02 * GIB * second, 16 * GIB, children_bytes=0.019 * GIB * second)
        if second == 400:
            workers.boundary()
    assert workers.forecast().cause == "growth"


def test_a_reserve_that_grows_over_flat_allocations_is_fragmentation():
    forecaster = followed(lambda t: (4 + 0.02 * t) * GIB, 550, held_bytes=lambda t: 3 * GIB, step=lambda t: int(t))
    forecast = forecaster.forecast()
    assert forecast.cause == "fragmentation" and forecast.used_share == pytest.approx(3 / 16)
    full = followed(lambda t: 15.8 * GIB, 550, held_bytes=lambda t: 3 * GIB)
    assert full.forecast().level is RiskLevel.LOW


def test_readings_that_make_no_sense_are_ignored_and_counted():
    def series(disturb):
        forecaster = _native.Forecaster()
        for second in range(1, 601):
            forecaster.observe(second, 4e9 + 1.8e7 * second, 16e9)
            disturb(forecaster, second)
        return forecaster

    clean = series(lambda forecaster, second: None)
    nonsense = [
        (math.nan, 1e9), (math.inf, 1e9), (-math.inf, 1e9), (-1.0, 1e9), (None, math.nan), (None, math.inf), (None, -1.0),
        (0.0, 1e9), ("same", 15e9),
    ]  # fmt: skip

    def disturb(forecaster, second):
        for time_secs, used in nonsense:
            place = {None: second + 0.5, "same": second}.get(time_secs, time_secs)
            forecaster.observe(place, used, 16e9)
        forecaster.observe(second + 0.5, 1e9, 16e9, own_bytes=math.nan)

    disturbed = series(disturb)
    assert disturbed.forecast() == clean.forecast()
    assert disturbed.growth(1e8) == clean.growth(1e8)
    assert (clean.ignored, disturbed.ignored) == (0, 600 * (len(nonsense) + 1))


def test_a_limit_that_is_none_is_no_limit():
    for limit in (None, math.nan, math.inf, 0.0, -1.0):
        forecaster = followed(lambda t: GIB + 1e7 * t, 100, limit=limit)
        assert (forecaster.forecast().used_share, forecaster.ignored) == (None, 0)


def test_wrong_types_raise():
    forecaster = Forecaster()
    with pytest.raises(TypeError):
        forecaster.observe("now", 1.0)
    with pytest.raises(TypeError):
        forecaster.growth(None)
