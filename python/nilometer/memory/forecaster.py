"""Will a level run out, when, and how sure is that: readings in, a judgement out."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .. import _native


class RiskLevel(enum.Enum):
    """Risk of running out of memory."""

    LOW = "low"
    MODERATE = "moderate"
    HIGH = "high"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        return list(RiskLevel).index(self)


@dataclass(frozen=True)
class Forecast:
    """The forecast for one resource."""

    level: RiskLevel
    """`high` is likely within ten minutes, `critical` within two."""
    used_share: float | None
    """Share of the limit that cannot be given back; None without a limit."""
    seconds: float | None
    """Seconds until it runs out; None when nothing points to it. The next two are its 80 % interval."""
    seconds_low: float | None
    seconds_high: float | None
    confidence: float
    """The share of similar forecasts that come true."""
    cause: str | None
    """`growth`, `workers`, `peaks`, `fragmentation`, `swap` or `neighbour`."""
    bytes_per_sec: float | None
    lasted_secs: float | None


@dataclass(frozen=True)
class Growth:
    """A lasting rise of what is held."""

    kind: str
    """`leak`: it rises steadily and gives nothing back; `growth`: too early to say so."""
    bytes_per_sec: float
    bytes_per_sec_low: float
    bytes_per_sec_high: float
    grown_bytes: float
    lasted_secs: float


class Forecaster:
    """Forecasts one memory series. Its own memory is bounded, however long the series is.

    >>> forecaster = Forecaster()
    >>> for second in range(900):
    ...     forecaster.observe(second, used_bytes=1e9 + 1e6 * second, limit_bytes=2e9)
    >>> forecaster.forecast().level.value, forecaster.forecast().cause
    ('critical', 'growth')
    >>> forecaster.growth(least_bytes=50e6).kind
    'leak'
    """

    def __init__(self) -> None:
        self._native = _native.Forecaster()

    def observe(
        self,
        time_secs: float,
        used_bytes: float,
        limit_bytes: float | None = None,
        *,
        held_bytes: float | None = None,
        reclaimable_bytes: float = 0.0,
        children_bytes: float | None = None,
        own_bytes: float | None = None,
        swap_used_bytes: float | None = None,
        swap_total_bytes: float | None = None,
        step: int | None = None,
    ) -> None:
        """Takes in a reading, on any clock that does not go back; one that makes no sense is ignored and counted in `ignored`.

        `held_bytes` is the part of `used_bytes` that is really held where there is a cache in it (PyTorch's allocated memory of its reserved),
        `reclaimable_bytes` file pages in it, `children_bytes` the part in worker processes,
        `own_bytes` this program's part where `used_bytes` is the whole machine's.
        """
        self._native.observe(
            time_secs,
            used_bytes,
            limit_bytes,
            held_bytes=held_bytes,
            reclaimable_bytes=reclaimable_bytes,
            children_bytes=children_bytes,
            own_bytes=own_bytes,
            swap_used_bytes=swap_used_bytes,
            swap_total_bytes=swap_total_bytes,
            step=step,
        )

    def boundary(self) -> None:
        """The end of an epoch, or another point at which memory may be given back."""
        self._native.boundary()

    def forecast(self) -> Forecast:
        """The newest judgement."""
        said = self._native.forecast()
        said["level"] = RiskLevel(said["level"])
        return Forecast(**said)

    def growth(self, least_bytes: float, *, may_be_loading: bool = False) -> Growth | None:
        """The lasting growth of what is held, if there is one of at least `least_bytes`.

        With `may_be_loading` it is not called a leak: a program that loads what it works with looks the same.
        """
        said = self._native.growth(least_bytes, may_be_loading)
        return None if said is None else Growth(**said)

    @property
    def ignored(self) -> int:
        """Rejected readings."""
        return self._native.ignored
