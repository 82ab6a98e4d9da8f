#!/usr/bin/env python3
"""How long the checkpoint planner takes, and what its plans cost beside simpler ones.

    python3 bench/checkpoint_plan.py            24, 48 and 96 blocks, 500 slots, the package of this Python

Blocks are drawn: activations 8 to 24 times the output, forward times 50 to 150, backward twice as long.
"flat" is our best plan without checkpoints inside of each other, "uniform" what people write by hand: segments of equal length, the best length that fits.
Nothing is asserted: the goal stands beside the figure.
"""

from __future__ import annotations

import random
import statistics
import time

from nilometer._native import CheckpointCurve

GOAL_MILLIS = {96: 300}


def draw_blocks(count, seed=1):
    random.seed(seed)
    blocks = []
    for _ in range(count):
        forward = random.uniform(50, 150)
        blocks.append((forward, 2 * forward, 1 << 20, random.randint(8 << 20, 24 << 20), 0, 0, 1 << 20))
    return blocks


def uniform_plans(count):
    """Segments of equal length, the last one kept."""
    for length in range(1, count):
        starts = range(0, count - length, length)
        units = [(start, start + length - 1, list(range(start, start + length))) for start in starts]
        yield units + list(range(starts[-1] + length, count))


def extra(step_secs, least_secs):
    return "does not fit" if step_secs is None else f"+{100 * (step_secs / least_secs - 1):.1f} %"


def main():
    print(f"{'blocks':>6} {'solve':>8} {'goal':>8} {'budget':>7} {'planned':>9} {'flat':>13} {'uniform':>13}")
    for count in (24, 48, 96):
        blocks = draw_blocks(count)
        millis = []
        for _ in range(5):
            begun = time.perf_counter()
            curve = CheckpointCurve(1 << 20, blocks)
            millis.append(1000 * (time.perf_counter() - begun))
        flat = CheckpointCurve(1 << 20, blocks, nested=False)
        whole, least_secs, _ = curve.points[-1]
        uniform = [curve.replay(units) for units in uniform_plans(count)]
        goal = GOAL_MILLIS.get(count)
        reached = "" if goal is None else f"{goal} ms" if statistics.median(millis) <= goal else f"{goal} missed"
        for share in (0.75, 0.5, 0.25, 0.1):
            budget = int(whole * share)
            fitting = [secs for peak, secs, _ in uniform if peak <= budget]
            planned = curve.plan(budget)[2] if budget >= curve.minimum_bytes else None
            flat_secs = flat.plan(budget)[2] if budget >= flat.minimum_bytes else None
            row = [extra(secs, least_secs) for secs in (planned, flat_secs, min(fitting, default=None))]
            print(
                f"{count:>6} {statistics.median(millis):>5.0f} ms {reached:>8} {share:>6.0%} {row[0]:>9} {row[1]:>13} {row[2]:>13}"
            )


if __name__ == "__main__":
    main()
