"""Which trainer of a run this process is, from what launchers leave in the environment.

Launchers nest: the innermost that has set its variables is taken. Variables that people set by hand have no launcher to
vouch for them, so they are compared with what a launcher says.
"""
from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Mapping, NamedTuple, Optional

from .arguments import whole_number
from .errors import Error

__all__ = ["Ranks", "WrongRank", "find_ranks", "job_name"]

_SLURM_SPECIAL_STEPS = 0xFFFFFFF0


class WrongRank(Error, ValueError):
    """Rank and world contradict each other, or one of them is missing."""


@dataclass(frozen=True)
class Ranks:
    """rank and world are None for a process that no launcher and no argument gives a place."""

    rank: Optional[int]
    world: Optional[int]
    local_rank: Optional[int]  # among the trainers of this node, None where nobody says
    local_world: Optional[int]
    job: str
    source: str  # in words

    def __str__(self) -> str:
        place = "one process alone" if self.rank is None else f"rank {self.rank} of {self.world}"
        return f"{place} (from {self.source}), job {self.job}"


class _Source(NamedTuple):
    name: str
    rank: Optional[int]
    world: Optional[int]
    local_rank: Optional[int] = None
    local_world: Optional[int] = None
    rank_variable: str = ""
    world_variable: str = ""

    def said(self) -> str:
        pairs = ((self.rank_variable, self.rank), (self.world_variable, self.world))
        return " and ".join(f"{name}={value}" for name, value in pairs if value is not None)


def _number(env: Mapping[str, str], name: str) -> Optional[int]:
    text = env.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()):
        raise WrongRank(f'{name}="{text}" in the environment is no rank or count: set a whole number, or unset it')
    return int(text)


def _source(env, name, rank, world, local_rank="", local_world="") -> _Source:
    return _Source(name, _number(env, rank), _number(env, world), _number(env, local_rank), _number(env, local_world), rank, world)


def _slurm_local_world(env: Mapping[str, str]) -> Optional[int]:
    """Entry SLURM_NODEID of a list such as 4(x2),3."""
    node, left = _number(env, "SLURM_NODEID"), env.get("SLURM_STEP_TASKS_PER_NODE", "")
    if node is None:
        return None
    for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", left):
        node -= int(times or 1)
        if node < 0:
            return int(tasks)
    return None


def _slurm(env: Mapping[str, str]) -> _Source:
    """A task of a step. A batch script and an interactive shell have SLURM_PROCID too, but no step or one above all others."""
    name, step = "Slurm", _number(env, "SLURM_STEP_ID")
    if step is None or step >= _SLURM_SPECIAL_STEPS:
        return _Source(name, None, None)
    world = "SLURM_STEP_NUM_TASKS" if env.get("SLURM_STEP_NUM_TASKS") else "SLURM_NTASKS"
    return _source(env, name, "SLURM_PROCID", world, "SLURM_LOCALID")._replace(local_world=_slurm_local_world(env))


def _by_hand(env: Mapping[str, str]) -> _Source:
    name = "torchrun" if env.get("TORCHELASTIC_RUN_ID") else "RANK and WORLD_SIZE in the environment"
    return _source(env, name, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def _launchers(env: Mapping[str, str]) -> list[_Source]:
    """From the innermost to the outermost; the last two say no world."""
    return [
        _source(env, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                "OMPI_COMM_WORLD_LOCAL_SIZE"),
        _source(env, "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
        _slurm(env),
        _source(env, "PMIx", "PMIX_RANK", ""),
        _source(env, "Kubernetes", "JOB_COMPLETION_INDEX", ""),
    ]


def _contradict(first: str, second: str) -> WrongRank:
    return WrongRank(f"the environment contradicts itself: {first}, but {second}; unset what does not belong to this run, or give "
                      "rank= and world=")


def _compare(hand: _Source, launcher: _Source) -> None:
    """A world larger than the launcher's is that of a launcher of its own, below it."""
    if None in (launcher.rank, launcher.world) or launcher.world == 1:
        return
    nested = None not in (hand.rank, hand.world) and hand.world > launcher.world
    if not nested and (hand.rank not in (None, launcher.rank) or hand.world not in (None, launcher.world)):
        raise _contradict(hand.said(), f"{launcher.name} has {launcher.said()}")


def _half(hand: _Source) -> None:
    if hand.rank is not None:
        raise WrongRank(f"RANK={hand.rank} is set, but WORLD_SIZE is not: set both, unset both, or give rank= and world=")
    if hand.world is not None and hand.world > 1:
        raise WrongRank(f"WORLD_SIZE={hand.world} is set, but RANK is not: set both, unset both, or give rank= and world=")


def _choose(env: Mapping[str, str], rank: Optional[int], world: Optional[int]) -> Optional[_Source]:
    """The innermost source that, with the arguments, gives rank and world."""
    def whole(source: _Source) -> bool:
        return (rank if rank is not None else source.rank) is not None and (world if world is not None else source.world) is not None

    hand, launchers = _by_hand(env), _launchers(env)
    if rank is not None and world is not None:
        return None
    if hand.name != "torchrun" and rank is None and world is None:
        for launcher in launchers:
            _compare(hand, launcher)
    named = [source for source in [hand, *launchers] if source.rank is not None or source.world is not None]
    chosen = next((source for source in named if whole(source)), None)
    if chosen is None and rank is None and world is None:
        _half(hand)
    return chosen


def _local(env: Mapping[str, str], rank: Optional[int], world: Optional[int], chosen: Optional[_Source]):
    """Of the source taken, else of one that means the same rank, else of any: a process is where it is."""
    sources = [_by_hand(env), *_launchers(env)]
    same = [source for source in sources if (source.rank, source.world) == (rank, world)]
    for source in ([chosen] if chosen else []) + same + sources:
        if source.local_rank is not None:
            return source.local_rank, source.local_world
    return None, None


def _check(rank: int, world: int, said_rank: str, said_world: str) -> None:
    if world < 1:
        raise WrongRank(f"{said_world}: a world has at least 1 trainer")
    if not 0 <= rank < world:
        raise WrongRank(f"{said_rank}, but {said_world}: ranks go from 0 to {world - 1}")


def find_ranks(rank: Optional[int] = None, world: Optional[int] = None, job: Optional[str] = None,
               env: Optional[Mapping[str, str]] = None) -> Ranks:
    """Arguments win over the environment. WrongRank names the two that contradict each other, or what is missing."""
    env = os.environ if env is None else env
    rank, world = whole_number("rank", rank), whole_number("world", world)
    given = [name for name, value in (("rank", rank), ("world", world)) if value is not None]
    chosen = _choose(env, rank, world)
    said_rank, said_world = f"rank={rank} is given", f"world={world} is given"
    if chosen is None and len(given) == 1:
        missing = "world" if given == ["rank"] else "rank"
        raise WrongRank(f"{said_rank if rank is not None else said_world} without {missing}, and no launcher says it: give both, or "
                         "start with torchrun, srun or mpirun")
    if chosen and rank is None:
        rank, said_rank = chosen.rank, f"{chosen.rank_variable}={chosen.rank} ({chosen.name})"
    if chosen and world is None:
        world, said_world = chosen.world, f"{chosen.world_variable}={chosen.world} ({chosen.name})"
    if rank is not None and world is not None:
        _check(rank, world, said_rank, said_world)
    local_rank, local_world = _local(env, rank, world, chosen)
    arguments = f"the argument{'s' * (len(given) - 1)} {' and '.join(given)}" if given else ""
    source = " and ".join(filter(None, [arguments, chosen.name if chosen else ""])) or "no launcher"
    return Ranks(rank, world, local_rank, local_world, job or job_name(world, env), source)


def _start_time(pid: int) -> int:
    """In clock ticks after boot, 0 when not known. The second field may hold anything, so fields count from its last bracket."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def job_name(world: Optional[int], env: Optional[Mapping[str, str]] = None) -> str:
    """The name that libdataload gives a job that is not named: the rules are those of job_default in client/job.c."""
    env = os.environ if env is None else env
    slurm, run = env.get("SLURM_JOB_ID"), env.get("TORCHELASTIC_RUN_ID")
    if slurm:
        name = f"slurm-{slurm}.{env.get('SLURM_STEP_ID') or 'batch'}"
    elif run and run != "none":
        name = f"torchrun-{run}"
    elif any(env.get(variable) for variable in ("TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")):
        name = f"launcher-{os.getppid()}-{_start_time(os.getppid())}"
    elif world is not None and world > 1:
        name = "default"
    else:
        name = f"process-{os.getpid()}-{_start_time(os.getpid())}"
    return re.sub(rb"[^A-Za-z0-9._:/-]", b"_", os.fsencode(name)[:128]).decode()
