"""Batches from dataloadd: shuffled, decoded and laid ready by one daemon a node, without a copy.

    import dataload
    loader = dataload.Loader("pets", batch_size=64)
    for epoch in range(90):
        for batch in loader:
            train_step(batch["image"], batch["label"])

Needs neither torch nor numpy to be imported; a Loader imports what its `as_` names.
"""
from ._dataload import version as __version__
from .convert import texts
from .errors import AllSlotsHeld, BadSample, DaemonGone, Error, Forked, LeftBehind, NoSuchFeed, NotPermitted, RankTaken, ResumeRefused, Timeout
from .feeds import Feed
from .loader import Loader
from .measure import Measurement, measure
from .ranks import WrongRank
from .spawn import DaemonFailed, FeedsDiffer

__all__ = ["AllSlotsHeld", "BadSample", "DaemonFailed", "DaemonGone", "Error", "Feed", "FeedsDiffer", "Forked", "LeftBehind", "Loader",
           "Measurement", "NoSuchFeed", "NotPermitted", "RankTaken", "ResumeRefused", "Timeout", "WrongRank", "measure", "texts"]
