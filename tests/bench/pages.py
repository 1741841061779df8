#!/usr/bin/env python3
"""What a page costs the event loop with many trainers, in CPU time: those of one mirror group, or with streams of their own.

  pages.py [--build build/release] [--trainers 1000] [--share mirror|split] [--page metrics]
"""
import argparse
import os
import pathlib
import resource
import sys
import time
import unittest
import urllib.request

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--build", default="build/release")
parser.add_argument("--trainers", type=int, default=1000)
parser.add_argument("--share", default="mirror")
parser.add_argument("--page", default="metrics")
args = parser.parse_args()
os.environ["DATALOADD_BUILD"] = args.build
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
import harness  # noqa: E402
import wire  # noqa: E402

TURNS, APART = 8, 1.1  # a page that is younger than a second may be given again


class Many(harness.Case):
    def runTest(self):
        harness.write_shards(self.folder / "data")
        feed = {"source": str(self.folder / "data/*.tar"), "transform": [{"resize": 8}, {"center_crop": 8}], "batch": 1, "slots": 2, "share": args.share}
        self.config(feed, metrics="127.0.0.1:0", memory="8GiB", client_memory="1GiB")
        self.start_daemon()
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        peers = [wire.Peer(self.socket) for _ in range(args.trainers)]
        for number, peer in enumerate(peers):
            peer.attach(job="job" if args.share == "mirror" else f"job{number}")
        url = f"{self.status()['http']}/{args.page}"

        def loop_time():
            text = pathlib.Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/schedstat").read_text()
            return int(text.split()[0]) / 1e6

        def took(ask):
            begin = loop_time()
            for _ in range(TURNS):
                time.sleep(APART)
                ask()
            return (loop_time() - begin) / TURNS

        size = len(urllib.request.urlopen(url).read())
        idle = took(lambda: None)
        busy = took(lambda: urllib.request.urlopen(url).read())
        print(f"{args.trainers} trainers ({args.share}): {args.page} of {size / 1e3:.0f} kB takes {busy - idle:.2f} ms of the loop; {APART} s without it take {idle:.2f} ms")
        for peer in peers:
            peer.close()


outcome = unittest.TextTestRunner(verbosity=0).run(Many())
sys.exit(not outcome.wasSuccessful())
