"""Where a Loader attaches: which feed of which daemon, and as whom."""
from __future__ import annotations

import math
import os
import sys
from dataclasses import replace
from typing import NamedTuple, Optional

from .feeds import Feed, gift
from .ranks import Ranks, find_ranks, job_name
from .spawn import daemon_for

__all__ = ["Target", "find_target"]

_told = set()


class Target(NamedTuple):
    feed: str
    socket: Optional[str]
    ranks: Ranks
    given: dict  # to a daemon that runs: recipe and files of a feed of one's own; else empty


def _tell(ranks: Ranks) -> None:
    """Once, whatever the number of Loaders: what comes from the environment may surprise."""
    if ranks not in _told:
        _told.add(ranks)
        print(f"dataload: {ranks}", file=sys.stderr)


def _of_process_group(ranks: Ranks, job: Optional[str]) -> Ranks:
    """Where no launcher says it: of torch.distributed, if the script has set that up already, as after torch.multiprocessing.spawn."""
    group = getattr(sys.modules.get("torch"), "distributed", None)
    if ranks.rank is not None or group is None or not (group.is_available() and group.is_initialized()):
        return ranks
    rank, world = group.get_rank(), group.get_world_size()
    return replace(ranks, rank=rank, world=world, job=job or job_name(world), source="torch.distributed")


def _feeds(feed, spawn: bool, config):
    """What the daemon of one's own serves: a Feed may be given alone."""
    if not spawn and config is not None:
        raise TypeError("config= is for a daemon of your own: add spawn=True; the daemon that runs is given one dataload.Feed by each Loader")
    if not isinstance(feed, Feed):
        return config
    if config is None:
        return [feed]
    if isinstance(config, (list, tuple)) and feed in config:
        return config
    raise TypeError(f'config= has not the feed "{feed.name}" that is given: add it there, or give its name only')


def find_target(feed, rank=None, world=None, job=None, spawn=False, config=None, socket=None, timeout=None) -> Target:
    """Starts the daemon where spawn says so; an attach must follow at once."""
    feeds, given = _feeds(feed, spawn, config), {}
    if isinstance(feed, Feed) and not spawn:
        recipe, files = gift(feed)
        given = {"recipe": recipe, "files": [os.fsencode(path) for path in files]}
    ranks = _of_process_group(find_ranks(rank, world, job), job)
    if ranks.rank is not None and None in (rank, world):
        _tell(ranks)
    if spawn:
        if socket is not None:
            raise TypeError("socket= names a daemon that runs already, and spawn=True starts one: give one of them")
        socket = daemon_for(feeds, ranks.job, 60.0 if timeout in (None, math.inf) else timeout)
    return Target(feed.name if isinstance(feed, Feed) else feed, socket, ranks, given)
