"""How the ranks of a distributed program find the run that they share."""

from __future__ import annotations

import json
import os
import sys

from . import _native
from ._program_end import is_multiprocessing_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Launchers that give each launch a name of its own.
_LAUNCH = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",), ("OMPI_MCA_ess_base_jobid",), ("PMI_JOBID",))

_is_told_by_torch = False


def ranks_key(name: str | None, begun: dict[str | None, int]) -> tuple[str, bool] | None:
    """A text that every rank of this run has and no other run that is open; None for a program alone.

    The n-th run of a name belongs to the n-th of that name in the other ranks.
    True where no later launch can have the text either: a rank then joins the run even if the others have left it.
    """
    place = _own_place()
    if place is None:
        return None
    begun[name] = begun.get(name, 0) + 1
    launch, is_unique = _launch(os.getpid(), os.getppid())
    return "\n".join([launch, str(place[1]), str(name), str(begun[name])]), is_unique


def own_rank() -> int | None:
    """This process's rank in a distributed program; None for a program alone."""
    place = _own_place()
    return None if place is None else place[0]


def launch_of(program: int, parent: int) -> tuple[str, bool] | None:
    """What the ranks of this launch have in common, and whether no later launch has it; None for a program alone. `program` is the rank that this process is, or is a worker of."""
    return None if _own_place() is None else _launch(program, parent)


def first_rank_of_lightning() -> int | None:
    """The process of Lightning's first rank, where that started this one; it may have logged before it knew that it is a rank."""
    return os.getppid() if _is_started_by_lightning() and os.environ["LOCAL_RANK"] != "0" else None


def _own_place() -> tuple[int, int] | None:
    place = _native.own_rank()
    return _native.own_rank() if place is None and _ask_torch() else place


def _ask_torch() -> bool:
    """Takes the place in torch's process group, where the program started its ranks itself (`mp.spawn`, Lightning's `ddp_spawn`)."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return False
        rank, world_size = distributed.get_rank(), distributed.get_world_size()
    except Exception:  # noqa: BLE001 - a process group in trouble is no reason not to train
        return False
    if rank < 0 or world_size < 2:
        return False
    global _is_told_by_torch
    _is_told_by_torch = True
    _native.tell_own_rank(rank, world_size)
    return True


def _launch(program: int, parent: int) -> tuple[str, bool]:
    """What tells this launch from every other that runs, and whether from those to come as well: a shell or a program may launch twice."""
    if _is_started_by_lightning():
        return "lightning " + process_key(program if os.environ["LOCAL_RANK"] == "0" else parent), False
    if _is_told_by_torch:
        return f"spawned {os.environ.get('MASTER_PORT')} " + process_key(os.getppid()), False
    told = os.environ
    if told.get("RANK") and told.get("WORLD_SIZE"):
        names = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
        parts = [told.get(name, "") for name in names]
        is_on_one_machine = told.get("LOCAL_WORLD_SIZE", told["WORLD_SIZE"]) == told["WORLD_SIZE"] and not told.get("SLURM_STEP_ID")
        if is_on_one_machine:
            parts.append(process_key(parent))
        slurm = [told.get("SLURM_JOB_ID", ""), told.get("SLURM_STEP_ID", "")]
        # Torchrun starts each rank once in each attempt.
        is_unique = is_on_one_machine and bool(told.get("TORCHELASTIC_RUN_ID"))
        return " ".join(["torch", *parts, *slurm]), is_unique
    for names in _LAUNCH:
        if told.get(names[0]):
            return " ".join(told.get(name, "") for name in names), False
    return process_key(parent), False


def _is_started_by_lightning() -> bool:
    """Whether these are ranks of Lightning's own launcher: the first is the program that the user started, and starts the others."""
    told = os.environ
    # Not WORLD_SIZE, which Lightning takes away after each training. Ranks that it spawns or forks are told their place by it too.
    return "RANK" not in told and all(told.get(name) for name in ("LOCAL_RANK", "NODE_RANK")) and not is_multiprocessing_child()


def begun_by_first_rank(path: str) -> dict[str, Any] | None:
    """`run.json` of a run that the first rank began before it started this process, which is to join it; None if it is no such run."""
    if not _is_started_by_lightning() or os.environ["LOCAL_RANK"] == "0":
        return None
    try:
        with open(os.path.join(path, "run.json"), encoding="utf-8") as file:
            told = json.load(file)
    except (OSError, ValueError):
        return None
    is_first = isinstance(told, dict) and told.get("mode") == "python" and told.get("recorder_pid") == os.getppid()
    return told if is_first else None


def process_key(pid: int) -> str:
    """A process, told apart from others that had its number."""
    return f"{os.uname().nodename} {pid} {_native.process_started(pid) or ''}"
