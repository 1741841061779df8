#!/usr/bin/env python3
"""Reads an epoch of one's own shards through the daemon of the node: python3 own_feed.py SHARDS..."""
import argparse

import dataload

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("shards", nargs="+", help="tar files, or patterns of them: 'train-{00000..00063}.tar'")
parser.add_argument("--batch", type=int, default=32)
options = parser.parse_args()

feed = dataload.Feed(name="mine", shards=options.shards, transform="eval", batch=options.batch)
with dataload.Loader(feed, as_="numpy") as loader:
    samples = sum(int(batch["valid"].sum()) for batch in loader)
    print(f"{samples} samples of {loader.info['feed']}, plan {loader.info['plan_id']}")
