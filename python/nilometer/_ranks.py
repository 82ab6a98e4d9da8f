"""How the ranks of a distributed program find the run that they share."""

from __future__ import annotations

import os

from . import _native

# Launchers that give each launch a name of its own.
_LAUNCH = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",), ("OMPI_MCA_ess_base_jobid",), ("PMI_JOBID",))


def ranks_key(name: str | None, begun: dict[str | None, int]) -> str | None:
    """A text that every rank of this run has and no other run; None for a program alone.

    The n-th run of a name belongs to the n-th of that name in the other ranks.
    """
    place = _native.own_rank()
    if place is None:
        return None
    begun[name] = begun.get(name, 0) + 1
    return "\n".join([_launch(), str(place[1]), str(name), str(begun[name])])


def _launch() -> str:
    """What tells this launch from every other, one of yesterday with the same port included."""
    told = os.environ
    if told.get("RANK") and told.get("WORLD_SIZE"):
        names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
        parts = [told.get(name, "") for name in names]
        if told.get("LOCAL_WORLD_SIZE", told["WORLD_SIZE"]) == told["WORLD_SIZE"] and not told.get("SLURM_STEP_ID"):
            parts.append(_parent())
        return "torch " + " ".join(parts) + " " + told.get("SLURM_JOB_ID", "") + " " + told.get("SLURM_STEP_ID", "")
    for names in _LAUNCH:
        if told.get(names[0]):
            return " ".join(told.get(name, "") for name in names)
    return _parent()


def _parent() -> str:
    """The process that started the ranks, told apart from others that had its number."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", encoding="utf-8", errors="replace") as file:
            started = file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        started = ""
    return f"{os.uname().nodename} {parent} {started}"
