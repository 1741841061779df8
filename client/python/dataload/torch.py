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


ALONE = ("leave the loader out of accelerator.prepare(...), and iterate over the dataload.Loader itself; with Trainer of transformers "
         "override get_train_dataloader() to return it")
ASKERS = ("torch.utils.data._utils.fetch", "accelerate.data_loader")


def askers():
    """Whose methods are asking for the iterator: the one place where PyTorch and Accelerate show who they are. The locals of
    other frames stay alone, since a frame that was looked into keeps what it held: batches, too."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__") in ASKERS:
            yield frame.f_locals.get("self")
        frame = frame.f_back


def kind(asker, name):
    return any(base.__name__ == name for base in type(asker).__mro__)


def refuse(asker):
    """Raises if this one would do what the daemon has done."""
    if kind(asker, "_IterableDatasetFetcher") and asker.auto_collation:
        raise ShardedAgain("this DataLoader would put batches together that are whole already: write DataLoader(dataset, batch_size=None)")
    if kind(asker, "DataLoaderDispatcher") and asker.state.num_processes > 1:  # of Accelerate
        raise ShardedAgain(f"Accelerate would split the batches of rank 0 among all {asker.state.num_processes} processes, each of which has its own "
                           f"already, and samples would be lost: {ALONE}")


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

    @property
    def generator(self):
        """None. Accelerate asks for it when it is about to shard."""
        if sys._getframe(1).f_globals.get("__name__") == "accelerate.data_loader":
            raise ShardedAgain(f"Accelerate would leave out the batches of other ranks, which are not in this one's: {ALONE}")
        return None

    def set_epoch(self, epoch):
        self.loader.set_epoch(epoch)

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)
