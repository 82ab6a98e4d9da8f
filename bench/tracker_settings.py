"""How thorough a run of the tracker benchmarks is."""

from dataclasses import dataclass
from pathlib import Path

DRIVERS = Path(__file__).resolve().parent / "drivers"


@dataclass(frozen=True)
class Effort:
    """How much each benchmark does; what comes in rounds is done in turns by everybody."""

    call_rounds: int
    call_steps: int
    call_secs: float  # a slow tracker stops here with fewer steps
    kill_rounds: int
    burst_steps: int
    burst_secs: float
    paced_steps: int
    series_points: int
    slow_series_points: int  # TensorBoard's reader takes half a minute for a million
    series_reads: int
    imports: int
    import_secs: float  # a slow import is repeated less often, but at least three times
    piece_rounds: int
    overhead_turns: int
    with_aim: bool


QUICK = Effort(
    call_rounds=2, call_steps=100_000, call_secs=1,
    kill_rounds=1, burst_steps=100_000, burst_secs=1, paced_steps=300,
    series_points=1_000_000, slow_series_points=200_000, series_reads=7,
    imports=20, import_secs=1,
    piece_rounds=10, overhead_turns=700,
    with_aim=False,
)
NORMAL = Effort(
    call_rounds=4, call_steps=100_000, call_secs=3,
    kill_rounds=2, burst_steps=100_000, burst_secs=3, paced_steps=300,
    series_points=1_000_000, slow_series_points=1_000_000, series_reads=15,
    imports=20, import_secs=10,
    piece_rounds=30, overhead_turns=4_000,
    with_aim=True,
)
PACE_SECS = 0.005
