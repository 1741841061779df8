"""What each rank must get: docs/order.md by its reference model, for whoever compares batches with it."""
import functools
import os
import sys

from harness import SOURCE

sys.path.insert(0, os.path.join(SOURCE, "tests/support"))
import order_model  # noqa: E402


class Order:
    """The order of a data set under the settings of a feed. sizes: the bytes of each record of each shard."""

    def __init__(self, sizes, shuffle, lanes=64, tail="wrap"):
        self.sizes, self.shuffle, self.tail = sizes, shuffle, tail
        self.lanes = lanes if shuffle else 1
        self.records = sum(map(len, sizes))
        self.first = [sum(map(len, sizes[:shard])) for shard in range(len(sizes))]
        self.ids = functools.cache(self.ids)

    def ids(self, seed, epoch):
        """Sample ids, by position."""
        return [self.first[s] + k for s, k in order_model.order(self.sizes, seed, epoch, self.shuffle, self.lanes)]


class Plan:
    """The steps of a job that begins at (epoch, position) of an order."""

    def __init__(self, order, world, batch, seed, start=(0, 0)):
        self.order, self.world, self.batch, self.seed = order, world, batch, seed
        self.rows_a_step = world * batch
        self.cut = functools.cache(self.cut)
        self.start = self.settled(*start)

    def cut(self, position):
        """By step and rank: the positions of the rows, from a position to the end of its epoch."""
        return order_model.batches(self.order.records, self.order.lanes, self.world, self.batch, position, self.order.tail)

    def settled(self, epoch, position):
        """A place after which its epoch has no step is the beginning of the next epoch."""
        return (epoch + 1, 0) if position and not self.cut(position) else (epoch, position)

    def origin(self, epoch):
        return self.start[1] if epoch == self.start[0] else 0

    def total(self, epoch):
        return len(self.cut(self.origin(epoch)))

    def steps(self, rank, epoch):
        """Those in which the rank has a row."""
        return sum(1 for step in self.cut(self.origin(epoch)) if step[rank])

    def after(self, rank, epoch, step):
        """(epoch, step) of what follows the steps before this one."""
        return (epoch, step) if step < self.steps(rank, epoch) else (epoch + 1, 0)

    def position(self, epoch, step):
        """(epoch, position) before a step that exists."""
        return epoch, self.origin(epoch) + step * self.rows_a_step

    def rows(self, rank, epoch, step):
        """(sample id, is it valid) of each row of a batch."""
        ids, records = self.order.ids(self.seed, epoch), self.order.records
        return [(ids[i % records], i < records) for i in self.cut(self.origin(epoch))[step][rank]]

    def between(self, rank, place, end):
        """Samples of a rank from one (epoch, step) to another, and rows of its batches."""
        samples = steps = 0
        while place < end:
            epoch, step = place
            if step < self.steps(rank, epoch):
                samples += sum(valid for _, valid in self.rows(rank, epoch, step))
                steps += 1
            place = (epoch, step + 1) if step < self.steps(rank, epoch) else (epoch + 1, 0)
        return samples, steps * self.batch
