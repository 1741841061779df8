"""A Loader inside PyTorch's DataLoader: the same batches, and nothing that would shard or collate them again."""
from python_case import *

torch = need("torch")
from torch.utils.data import DataLoader, DistributedSampler
import dataload.torch

STEPS = 13  # of 100 records, 8 a batch


def ids(batches):
    return [batch["index"].tolist() for batch in batches]


class Adapter(PythonCase):
    def setUp(self):
        super().setUp()
        self.serve()
        self.made = self.loader(as_="torch", names={"index": "index"})
        self.dataset = dataload.torch.IterableDataset(self.made)

    def test_same_batches(self):
        batches = DataLoader(self.dataset, batch_size=None)
        self.assertEqual((len(batches), len(self.made)), (STEPS, STEPS))
        other = self.loader(as_="torch", names={"index": "index"}, job="other")
        for _ in range(2):
            self.assertEqual(ids(batches), ids(other))
        self.dataset.set_epoch(0)
        other.set_epoch(0)
        first = ids(batches)
        self.assertEqual(first, ids(other))
        self.assertEqual(sorted(set(sum(first, []))), list(range(100)))

    def test_state(self):
        want, token = [], None
        for number, batch in enumerate(DataLoader(self.dataset, batch_size=None)):
            if number == 5:
                token = self.dataset.state_dict()
            want.append(batch["index"].tolist())
            del batch
        self.dataset.load_state_dict(token)
        self.assertEqual(ids(DataLoader(self.dataset, batch_size=None)), want[6:])

    def test_two_slots(self):
        """Nothing but the loop holds a batch, from one pass to the next either."""
        batches = DataLoader(dataload.torch.IterableDataset(self.loader(as_="torch", job="two", slots=2)), batch_size=None)
        for _ in range(3):
            for batch in batches:
                pass

    def test_refused(self):
        line = r"DataLoader\(dataset, batch_size=None, num_workers=0\)"
        with self.assertRaisesRegex(dataload.torch.ShardedAgain, line):
            next(iter(DataLoader(self.dataset, batch_size=None, num_workers=2)))
        with self.assertRaisesRegex(TypeError, "num_workers=0"):
            next(iter(DataLoader(self.dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn")))
        with self.assertRaisesRegex(dataload.torch.ShardedAgain, r"DataLoader\(dataset, batch_size=None\)"):
            next(iter(DataLoader(self.dataset)))
        with self.assertRaisesRegex(ValueError, "sampler"):  # PyTorch's own
            DataLoader(self.dataset, batch_size=None, sampler=DistributedSampler(self.dataset, num_replicas=2, rank=0))
        self.assertEqual(len(ids(DataLoader(self.dataset, batch_size=None))), STEPS)
        for options in ({}, {"batch_size": None}, {"num_workers": 1}):
            with self.assertRaisesRegex(TypeError, r"DataLoader\(dataload.torch.IterableDataset\(loader\), batch_size=None, num_workers=0\)"):
                next(iter(DataLoader(self.dataset.loader, **options)))

    def test_process_group(self):
        """Without a launcher the ranks are those of torch.distributed."""
        ranks = [self.script(f"""
            import torch.distributed
            torch.distributed.init_process_group("gloo", init_method="file://{self.folder}/meet", rank={rank}, world_size=2)
            made = loader(names={{"index": "index"}})
            print([index for batch in made for index, valid in zip(batch["index"].tolist(), batch["valid"]) if valid])
            torch.distributed.barrier()
            torch.distributed.destroy_process_group()
            """) for rank in range(2)]
        seen = []
        for process in ranks:
            out, err = process.communicate(timeout=60 * SLACK)
            self.assertEqual(process.returncode, 0, err)
            seen += json.loads(out)
        self.assertEqual(sorted(seen), list(range(100)))


if __name__ == "__main__":
    main()
