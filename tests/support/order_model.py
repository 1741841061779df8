#!/usr/bin/env python3
"""Reference model of the order of an epoch: docs/order.md, as plainly as can be.

order_model.py SEED COUNT prints COUNT random cases with their outcome, for tests/unit/test_order.c:
    case SEED EPOCH SHUFFLE LANES WORLD BATCH START TAIL SHARDS
    shard RECORDS SIZE...               one a shard
    order RECORDS SHARD RECORD ...      O
    steps T
    rows STEP RANK ROWS POSITION...     one a step and rank
    end
"""
import random
import sys
from fractions import Fraction
from math import ceil

MASK = 0xFFFFFFFF
RUNS, DEAL, REST, LIST, LANES, BLOCK = 1, 2, 3, 4, 5, 6


class Philox:
    def __init__(self, seed, purpose, epoch, lane=0, block=0):
        self.key = (seed & MASK, seed >> 32)
        self.tail = (block & MASK, block >> 32 | lane << 16, purpose << 24 | epoch)
        self.blocks, self.words = 0, []

    def word(self):
        if not self.words:
            a, b, c, d = (self.blocks, *self.tail)
            k, m = self.key
            for _ in range(10):
                p, q = a * 0xD2511F53, c * 0xCD9E8D57
                a, b, c, d = q >> 32 ^ b ^ k, q & MASK, p >> 32 ^ d ^ m, p & MASK
                k, m = (k + 0x9E3779B9) & MASK, (m + 0xBB67AE85) & MASK
            self.words, self.blocks = [a, b, c, d], self.blocks + 1
        return self.words.pop(0)

    def below(self, n):
        while True:
            product = self.word() * n
            if product % 2**32 >= 2**32 % n:
                return product >> 32

    def permute(self, items):
        items = list(items)
        for i in reversed(range(1, len(items))):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]
        return items


def cut_runs(shards, lanes):
    """Runs as lists of (shard, record), in listed order."""
    total = sum(map(sum, shards))
    unit = max(1, ceil(Fraction(total, 2**20)), min(4 * 2**20, ceil(Fraction(total, 64 * lanes))))
    runs = []
    for number, sizes in enumerate(shards):
        c = len(sizes)
        if c:
            r = max(1, min(c, ceil(Fraction(sum(sizes), unit))))
            runs += [[(number, k) for k in range(j * c // r, (j + 1) * c // r)] for j in range(r)]
    return runs


def sequence(shards, seed, epoch, lanes):
    """S: the runs dealt into the lanes' lists, laid end to end."""
    runs = Philox(seed, RUNS, epoch).permute(cut_runs(shards, lanes))
    runs.sort(key=lambda run: Fraction(sum(shards[s][k] for s, k in run), len(run)))
    lists = [[] for _ in range(lanes)]
    whole = len(runs) // lanes * lanes
    for group in range(whole // lanes):
        hands = Philox(seed, DEAL, epoch, block=group).permute(range(lanes))
        for hand, run in zip(hands, runs[group * lanes:]):
            lists[hand].append(run)
    for hand, run in zip(Philox(seed, REST, epoch).permute(range(lanes)), runs[whole:]):
        lists[hand].append(run)
    lists = [Philox(seed, LIST, epoch, lane).permute(runs) for lane, runs in enumerate(lists)]
    return [place for runs in lists for run in runs for place in run]


def order(shards, seed, epoch, shuffle, lanes):
    if shuffle == 0:
        return [(s, k) for s, sizes in enumerate(shards) for k in range(len(sizes))]
    left = sequence(shards, seed, epoch, lanes)
    records = len(left)
    lane_of = {}
    for lane in Philox(seed, LANES, epoch).permute(range(lanes)):
        size = records // lanes + (lane < records % lanes)
        lane_of[lane], left = left[:size], left[size:]
    block = max(1, ceil(Fraction(shuffle, lanes)))
    for lane, places in lane_of.items():
        blocks = [places[at:at + block] for at in range(0, len(places), block)]
        lane_of[lane] = [place for number, one in enumerate(blocks)
                         for place in Philox(seed, BLOCK, epoch, lane, number).permute(one)]
    return [lane_of[i % lanes][i // lanes] for i in range(records)]


def batches(records, lanes, world, batch, start, tail):
    """For each step, the positions of each rank."""
    rows = world * batch
    left = max(0, records - start)
    steps = left // rows if tail == "drop" else ceil(Fraction(left, rows))
    out = []
    for t in range(steps):
        window = list(range(start + t * rows, start + (t + 1) * rows))
        if tail == "partial":
            window = [i for i in window if i < records]
        window.sort(key=lambda i: i % lanes)
        h = len(window)
        cuts = [ceil(Fraction(rank * h, world)) for rank in range(world + 1)]
        out.append([window[a:b] for a, b in zip(cuts, cuts[1:])])
    return out


def random_shards(rng):
    kind = rng.choice(["equal", "small", "photos", "huge", "classes"])
    shards = []
    for number in range(rng.choice([1, 1, 2, 3, 5, 9])):
        sizes = []
        for _ in range(rng.choice([0, 1, 2, 3, 7, 20, 60, 150])):
            sizes.append({"equal": 1000, "small": rng.randrange(0, 4),
                          "photos": int(rng.lognormvariate(11.4, 0.6)),
                          "huge": rng.randrange(1, 9) << 20,
                          "classes": 1000 * (1 + number % 3)}[kind])
        shards.append(sizes)
    return shards


def print_case(rng):
    shards = random_shards(rng)
    records = sum(map(len, shards))
    seed, epoch = rng.choice([0, 1, rng.getrandbits(64)]), rng.choice([0, 1, rng.getrandbits(24)])
    shuffle = rng.choice([0, 1, 5, 64, 100, records, rng.randrange(1, 400), 2**64 - 1])
    lanes = rng.choice([1, 2, 3, 4, 7, 8, 16, 64, 64, 200])
    world, batch = rng.choice([1, 1, 2, 3, 4, 5, 8, 13]), rng.choice([1, 1, 2, 3, 4, 8, 16, 31])
    start = rng.choice([0, 0, rng.randrange(records + 1)])
    tail = rng.choice(["wrap", "drop", "partial"])
    print("case", seed, epoch, shuffle, lanes, world, batch, start, tail, len(shards))
    for sizes in shards:
        print("shard", len(sizes), *sizes)
    print("order", records, *(n for place in order(shards, seed, epoch, shuffle, lanes) for n in place))
    steps = batches(records, lanes if shuffle else 1, world, batch, start, tail)
    print("steps", len(steps))
    for t, ranks in enumerate(steps):
        for rank, positions in enumerate(ranks):
            print("rows", t, rank, len(positions), *positions)
    print("end")


if __name__ == "__main__":
    source = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print_case(source)
