#!/usr/bin/env python3
"""How long the checkpoint planner takes, and what its plans cost beside simpler ones.

    python3 bench/checkpoint_plan.py                                           24, 48 and 96 blocks, 500 slots, tables on the terminal
    python3 bench/checkpoint_plan.py --markdown docs/benchmarks/planner.md

Blocks are drawn: activations 8 to 24 times the output, forward times 50 to 150, backward twice as long.
The Python that runs it needs nilometer. Nothing is asserted: the goal stands beside the figure.
"""

from __future__ import annotations

import random
import statistics
import time

from frame import Program
from page import Table, spread

from nilometer._native import CheckpointCurve

COUNTS = (24, 48, 96)
GOAL_MILLIS = {96: 300}
ROUNDS = 9


def draw_blocks(count, seed=1):
    draw = random.Random(seed)
    blocks = []
    for _ in range(count):
        forward = draw.uniform(50, 150)
        blocks.append((forward, 2 * forward, 1 << 20, draw.randint(8 << 20, 24 << 20), 0, 0, 1 << 20))
    return blocks


def uniform_plans(count):
    """Segments of equal length, the last one kept."""
    for length in range(1, count):
        starts = range(0, count - length, length)
        units = [(start, start + length - 1, list(range(start, start + length))) for start in starts]
        yield units + list(range(starts[-1] + length, count))


def extra(step_secs, least_secs):
    return "does not fit" if step_secs is None else f"+{100 * (step_secs / least_secs - 1):.1f} %"


def planning() -> Table:
    table = Table(
        "Time to plan",
        {
            "blocks": "of a chain; 500 slots of memory.",
            "median, ms": f"for the whole curve, from which a plan for any budget is read: of {ROUNDS} rounds.",
            "lowest..highest": "",
            "goal": "",
            "": "",
        },
    )
    for count in COUNTS:
        blocks, millis = draw_blocks(count), []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            CheckpointCurve(1 << 20, blocks)
            millis.append(1000 * (time.perf_counter() - begun))
        median, goal = statistics.median(millis), GOAL_MILLIS.get(count)
        row = [str(count), f"{median:.0f}", spread(millis, 0)]
        table.rows.append([*row, "–", ""] if goal is None else [*row, f"≤ {goal} ms", "reached" if median <= goal else "missed"])
    return table


def plans() -> Table:
    table = Table(
        "What a plan costs",
        {
            "blocks": "",
            "budget": "share of what a step without checkpoints takes.",
            "planned": "time of a step with our plan, beyond that of one without checkpoints.",
            "flat": "our best plan without checkpoints inside of each other.",
            "uniform": "what people write by hand: segments of equal length, the best length that fits.",
        },
    )
    for count in COUNTS:
        blocks = draw_blocks(count)
        curve, flat = CheckpointCurve(1 << 20, blocks), CheckpointCurve(1 << 20, blocks, nested=False)
        whole, least_secs, _ = curve.points[-1]
        uniform = [curve.replay(units) for units in uniform_plans(count)]
        for share in (0.75, 0.5, 0.25, 0.1):
            budget = int(whole * share)
            fitting = [secs for peak, secs, _ in uniform if peak <= budget]
            planned = curve.plan(budget)[2] if budget >= curve.minimum_bytes else None
            flat_secs = flat.plan(budget)[2] if budget >= flat.minimum_bytes else None
            costs = [extra(secs, least_secs) for secs in (planned, flat_secs, min(fitting, default=None))]
            table.rows.append([str(count), f"{share:.0%}", *costs])
    return table


def main() -> None:
    program = Program(
        "bench/checkpoint_plan.py",
        "Checkpoint plans: time to find them, and what they cost",
        ["Blocks are drawn: activations 8 to 24 times the output, forward times 50 to 150, backward twice as long. The costs are those of the model of a step, not of a run."],
        {"planning": planning, "plans": plans},
    )
    program.measure(program.parser(__doc__.splitlines()[0]).parse_args(), (), list)


if __name__ == "__main__":
    main()
