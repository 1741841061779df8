"""For torch.utils.data.DataLoader, and for frameworks that want a data set of PyTorch's.

    loader = dataload.Loader("pets", batch_size=64)
    for batch in DataLoader(dataload.torch.IterableDataset(loader), batch_size=None):
        ...
"""
import sys

import torch.utils.data

from .errors import Error


class ShardedAgain(Error):
    """Something would split, repeat or collate batches that are each rank's own already."""


def askers():
    """Whose methods are asking for the iterator: that is the one place where PyTorch and the frameworks show who they are."""
    frame = sys._getframe(2)
    while frame is not None:
        yield frame.f_locals.get("self")
        frame = frame.f_back


def kind(asker, name):
    return any(base.__name__ == name for base in type(asker).__mro__)


def processes(asker):
    """Of an object of Accelerate's."""
    state = asker if hasattr(asker, "num_processes") else getattr(asker, "state", None)
    return getattr(state, "num_processes", 1)


def refuse(asker):
    """Raises if this one would do what the daemon has done."""
    if kind(asker, "_IterableDatasetFetcher") and asker.auto_collation:
        raise ShardedAgain("this DataLoader would put batches together that are whole already: write DataLoader(dataset, batch_size=None)")
    if (kind(asker, "IterableDatasetShard") or kind(asker, "DataLoaderDispatcher")) and processes(asker) > 1:
        raise ShardedAgain(f"{type(asker).__name__} would split batches among {processes(asker)} processes that are each rank's own already, and "
                           "samples would be lost: leave the loader out of accelerator.prepare(...), and iterate over the dataload.Loader itself; "
                           "with Trainer of transformers override get_train_dataloader() to return it")


class IterableDataset(torch.utils.data.IterableDataset):
    """A Loader as a data set of whole batches. The Loader has its rank's part, in its order, decoded in parallel by the
    daemon, so the DataLoader around it is DataLoader(dataset, batch_size=None), without workers and samplers, and nothing
    may shard it again: what would is refused with the line to change."""

    def __init__(self, loader):
        super().__init__()
        self.loader = loader

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            raise ShardedAgain(f"DataLoader(num_workers={worker.num_workers}): the daemon's workers decode for all trainers, and a Loader cannot be "
                               "used in a worker process: write DataLoader(dataset, batch_size=None, num_workers=0)")
        for asker in askers():
            refuse(asker)
        return iter(self.loader)

    def __len__(self):
        return len(self.loader)

    def set_epoch(self, epoch):
        self.loader.set_epoch(epoch)

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)
