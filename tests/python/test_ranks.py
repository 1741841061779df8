"""dataload.ranks: which rank of which world, by which launcher, and what is refused."""
import os
import unittest

import package_alone  # noqa: F401
from dataload.ranks import Ranks, find_ranks, job_name

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "run7"}
HAND = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
SLURM = {"SLURM_JOB_ID": "42", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NTASKS": "64", "SLURM_STEP_NUM_TASKS": "8",
         "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2)"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
PMI = {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}


class Found(unittest.TestCase):
    def place(self, env, **arguments):
        ranks = find_ranks(env=env, **arguments)
        return ranks.rank, ranks.world, ranks.local_rank, ranks.local_world, ranks.source

    def test_each_launcher(self):
        for env, name in ((TORCHRUN, "torchrun"), (SLURM, "Slurm"), (OPEN_MPI, "Open MPI"), (PMI, "PMI")):
            with self.subTest(name):
                self.assertEqual(self.place(env), (5, 8, 1, 4, name))

    def test_by_hand(self):
        self.assertEqual(self.place(HAND), (5, 8, 1, None, "RANK and WORLD_SIZE in the environment"))

    def test_nobody(self):
        self.assertEqual(self.place({}), (None, None, None, None, "no launcher"))
        self.assertEqual(self.place({"WORLD_SIZE": "1", "RANK": ""})[:2], (None, None))

    def test_arguments_win(self):
        self.assertEqual(self.place(TORCHRUN, rank=0, world=2), (0, 2, 1, 4, "the arguments rank and world"))
        self.assertEqual(self.place(TORCHRUN, rank=0), (0, 8, 1, 4, "the argument rank and torchrun"))
        self.assertEqual(self.place(TORCHRUN, world=16), (5, 16, 1, 4, "the argument world and torchrun"))
        self.assertEqual(self.place({}, rank=0, world=2), (0, 2, None, None, "the arguments rank and world"))

    def test_a_world_from_the_argument(self):
        self.assertEqual(self.place({"JOB_COMPLETION_INDEX": "2"}, world=4), (2, 4, None, None, "the argument world and Kubernetes"))
        self.assertEqual(self.place({"PMIX_RANK": "2"}, world=4), (2, 4, None, None, "the argument world and PMIx"))
        self.assertEqual(self.place({"JOB_COMPLETION_INDEX": "2"})[:2], (None, None))
        self.assertEqual(self.place({"RANK": "2"}, world=4)[:2], (2, 4))
        self.assertEqual(self.place({"WORLD_SIZE": "4"}, rank=2)[:2], (2, 4))

    def test_the_inner_launcher(self):
        node = dict(SLURM, SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2", SLURM_LOCALID="0")
        for inner, name in ((TORCHRUN, "torchrun"), (OPEN_MPI, "Open MPI"), (PMI, "PMI"), (HAND, "RANK and WORLD_SIZE in the environment")):
            self.assertEqual(self.place({**node, **inner})[4], name)
        self.assertEqual(self.place({**OPEN_MPI, **TORCHRUN, "RANK": "0"}), (0, 8, 1, 4, "torchrun"))

    def test_slurm(self):
        self.assertEqual(self.place({**SLURM, "SLURM_STEP_NUM_TASKS": ""})[:2], (5, 64))
        batch = {"SLURM_JOB_ID": "42", "SLURM_PROCID": "0", "SLURM_NTASKS": "64", "SLURM_LOCALID": "0"}
        self.assertEqual(self.place(batch)[:2], (None, None))
        self.assertEqual(self.place({**SLURM, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"})[:2], (None, None))
        for nodes, node, tasks in (("4(x2),3", 2, 3), ("4(x2),3", 1, 4), ("7", 0, 7), ("7", 1, None), ("", 0, None), ("2,1(x3)", 3, 1)):
            env = {**SLURM, "SLURM_NODEID": str(node), "SLURM_STEP_TASKS_PER_NODE": nodes}
            self.assertEqual(find_ranks(env=env).local_world, tasks, nodes)

    def test_by_hand_what_slurm_says_too(self):
        ranks = self.place({**SLURM, "RANK": "5", "WORLD_SIZE": "8"})
        self.assertEqual(ranks, (5, 8, 1, 4, "RANK and WORLD_SIZE in the environment"))
        self.assertEqual(self.place({**SLURM, "WORLD_SIZE": "8"}), (5, 8, 1, 4, "Slurm"))

    def test_in_words(self):
        self.assertEqual(str(find_ranks(env=TORCHRUN)), "rank 5 of 8 (from torchrun), job torchrun-run7")
        self.assertRegex(str(find_ranks(env={})), r"^one process alone \(from no launcher\), job process-\d+-\d+$")
        self.assertIsInstance(find_ranks(env={}), Ranks)

    def test_the_process_environment(self):
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.clear()
        os.environ.update(TORCHRUN)
        self.assertEqual(find_ranks().rank, 5)


class Refused(unittest.TestCase):
    def refused(self, env, *words, **arguments):
        with self.assertRaises(ValueError) as caught:
            find_ranks(env=env, **arguments)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_half_by_hand(self):
        self.refused({"RANK": "1"}, "RANK=1", "WORLD_SIZE")
        self.refused({"WORLD_SIZE": "2"}, "WORLD_SIZE=2", "RANK")

    def test_half_given(self):
        self.refused({}, "rank=1", "world", rank=1)
        self.refused({}, "world=2", "rank", world=2)
        self.refused({"JOB_COMPLETION_INDEX": "1"}, "rank=1", "world", rank=1)

    def test_contradictions(self):
        slurm = "Slurm has SLURM_PROCID=5 and SLURM_STEP_NUM_TASKS=8"
        self.refused({**SLURM, "RANK": "4", "WORLD_SIZE": "8"}, "RANK=4 and WORLD_SIZE=8", slurm)
        self.refused({**SLURM, "RANK": "0", "WORLD_SIZE": "1"}, "RANK=0 and WORLD_SIZE=1", slurm)
        self.refused({**SLURM, "WORLD_SIZE": "2"}, "WORLD_SIZE=2", slurm)
        self.refused({**SLURM, "RANK": "2"}, "RANK=2", slurm)
        self.refused({**OPEN_MPI, "RANK": "4", "WORLD_SIZE": "8"}, "RANK=4", "Open MPI has OMPI_COMM_WORLD_RANK=5")

    def test_ranges(self):
        self.refused({**HAND, "RANK": "8"}, "RANK=8", "WORLD_SIZE=8", "from 0 to 7")
        self.refused(HAND, "RANK=5", "world=4 is given", world=4)
        self.refused({}, "rank=-1 is given", rank=-1, world=4)
        self.refused({}, "world=0 is given", "at least 1", rank=0, world=0)

    def test_no_numbers(self):
        self.refused({"RANK": "one", "WORLD_SIZE": "2"}, 'RANK="one"')
        self.refused({**SLURM, "SLURM_PROCID": "-1"}, 'SLURM_PROCID="-1"')
        for wrong in ("1", 1.0, True):
            with self.assertRaises(TypeError) as caught:
                find_ranks(rank=wrong, world=2, env={})
            self.assertIn(f"rank={wrong!r}", str(caught.exception))


class Job(unittest.TestCase):
    """As client/job.c names it; tests/unit/test_job.c has the same cases."""

    def test_names(self):
        self.assertEqual(job_name(8, SLURM), "slurm-42.0")
        self.assertEqual(job_name(8, {"SLURM_JOB_ID": "42", **TORCHRUN}), "slurm-42.batch")
        self.assertEqual(job_name(8, TORCHRUN), "torchrun-run7")
        self.assertRegex(job_name(8, {"TORCHELASTIC_RUN_ID": "none"}), rf"^launcher-{os.getppid()}-\d+$")
        for variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"):
            self.assertRegex(job_name(1, {variable: "8"}), rf"^launcher-{os.getppid()}-\d+$")
        self.assertEqual(job_name(2, {}), "default")
        self.assertRegex(job_name(1, {}), rf"^process-{os.getpid()}-[1-9]\d*$")
        self.assertEqual(job_name(None, {}), job_name(1, {}))

    def test_what_may_not_stand_in_a_name(self):
        self.assertEqual(job_name(2, {"TORCHELASTIC_RUN_ID": "a b\u00e4*c"}), "torchrun-a_b___c")
        self.assertEqual(job_name(2, {"TORCHELASTIC_RUN_ID": "x" * 200}), ("torchrun-" + "x" * 200)[:128])

    def test_given(self):
        self.assertEqual(find_ranks(job="mine", env=TORCHRUN).job, "mine")


unittest.main(verbosity=2)
