"""The native checkpoint planner as Python sees it."""

import pytest

from nilometer._native import CheckpointCurve

MIB = 1 << 20
# Seconds forward and backward, then bytes: output, kept, and the temporaries of a pass, of a keeping pass, of backward.
BLOCK = (1.0, 2.0, MIB, 15 * MIB, 4 * MIB, 0, 2 * MIB)


def test_plans_go_from_everything_kept_to_the_least_memory():
    curve = CheckpointCurve(MIB, [BLOCK] * 8)
    units, peak_bytes, step_secs, recompute_secs = curve.plan(1 << 40)
    assert units == list(range(8))
    assert (step_secs, recompute_secs) == (24.0, 0.0)
    assert curve.points[-1] == (peak_bytes, 24.0, 0.0)
    half_units, half_peak, half_secs, half_recompute = curve.plan(peak_bytes // 2)
    assert half_peak <= peak_bytes // 2 and half_secs == 24.0 + half_recompute
    assert any(isinstance(unit, tuple) for unit in half_units)
    assert curve.points[0][0] == curve.minimum_bytes


def test_a_plan_is_replayed_as_it_was_planned():
    curve = CheckpointCurve(MIB, [BLOCK] * 8)
    for peak_bytes, step_secs, recompute_secs in curve.points:
        units = curve.plan(peak_bytes)[0]
        assert curve.replay(units) == (peak_bytes, step_secs, recompute_secs)


def test_without_nesting_no_segment_has_checkpoints_inside():
    curve = CheckpointCurve(MIB, [BLOCK] * 24, nested=False)
    for peak_bytes, _, _ in curve.points:
        for unit in curve.plan(peak_bytes)[0]:
            assert isinstance(unit, int) or all(isinstance(inner, int) for inner in unit[2])
    assert CheckpointCurve(MIB, [BLOCK] * 24).minimum_bytes < curve.minimum_bytes


def test_segments_are_as_long_as_allowed():
    curve = CheckpointCurve(MIB, [BLOCK] * 12, longest_segment=1)
    for peak_bytes, _, _ in curve.points:
        assert all(isinstance(unit, int) or unit[0] == unit[1] for unit in curve.plan(peak_bytes)[0])
    assert CheckpointCurve(MIB, [BLOCK] * 12).minimum_bytes < curve.minimum_bytes


def test_what_cannot_be_planned_is_a_value_error():
    with pytest.raises(ValueError, match="no blocks"):
        CheckpointCurve(0, [])
    with pytest.raises(ValueError, match="block 0: backward_secs is -1"):
        CheckpointCurve(0, [(1.0, -1.0, 0, 0, 0, 0, 0)])
    with pytest.raises(ValueError, match="slots is 0"):
        CheckpointCurve(0, [BLOCK], slots=0)
    with pytest.raises(ValueError, match="longest_segment is 0"):
        CheckpointCurve(0, [BLOCK], longest_segment=0)
    curve = CheckpointCurve(MIB, [BLOCK] * 4)
    with pytest.raises(ValueError, match=f"needs, {curve.minimum_bytes} bytes"):
        curve.plan(curve.minimum_bytes - 1)


@pytest.mark.parametrize(
    ("units", "reason"),
    [
        ([0, 1, 2], "lacks block 3"),
        ([0, 2, 3], "where block 1"),
        ([0, (2, 3, [2, 3])], "does not follow block 1"),
        ([0, (1, 4, [1, 2, 3, 4])], "does not follow"),
        ([(0, 3, [0, 1])], "lacks block 2"),
        ([0, 1, 2, 3, 4], "block 4"),
    ],
)
def test_a_plan_with_gaps_is_not_replayed(units, reason):
    curve = CheckpointCurve(MIB, [BLOCK] * 4)
    with pytest.raises(ValueError, match=reason):
        curve.replay(units)
