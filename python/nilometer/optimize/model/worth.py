"""Whether a change that saves memory is worth the time that it costs."""

from __future__ import annotations

from ..measuring.trial import StepFigures

# Where nothing is short, a change is worth keeping if it saves this share of a step's peak ...
LEAST_SHARE = 0.05
# ... and this many bytes ...
LEAST_BYTES = 1 << 20
# ... for at most this share more time, or for no larger a share of the time than it saves of the peak.
MOST_SLOWDOWN = 0.15

_MIB = 1 << 20


def not_worth_it(before: StepFigures, after: StepFigures, budget_bytes: int | None = None) -> str:
    """Why a change is not worth keeping; nothing where it is. Time is named only where it is the reason.

    A step whose peak is above the budget needs whatever lowers it. Below the budget a change may cost no time at all.
    """
    if budget_bytes is not None and before.peak_bytes > budget_bytes:
        return ""
    saved = before.peak_bytes - after.peak_bytes
    share = saved / before.peak_bytes if before.peak_bytes else 0.0
    slowdown = after.secs / before.secs - 1 if before.secs else 0.0
    most = 0.0 if budget_bytes is not None else max(MOST_SLOWDOWN, share)
    reasons: list[str] = []
    if saved < LEAST_BYTES:
        reasons.append(f"which is less than {LEAST_BYTES / _MIB:.0f} MiB")
    elif share < LEAST_SHARE:
        reasons.append(f"which is less than {LEAST_SHARE:.0%}")
    if slowdown > most:
        reasons.append(f"{'and' if reasons else 'but'} takes {slowdown:.0%} more time")
    if not reasons:
        return ""
    if budget_bytes is not None:
        reasons.append("and the peak is within the budget already")
    return f"not worth it: it saves {saved / _MIB:.2f} MiB ({share:.1%}) of the peak, {', '.join(reasons)}"
