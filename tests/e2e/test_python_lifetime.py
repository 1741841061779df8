"""How long memory of the daemon stays with Python, and how a Loader ends: break, exceptions, Ctrl-C, threads, forks, exit."""
import gc
import pickle
import resource
import threading
import warnings

from python_case import *

numpy = need("numpy")
SLOTS = 4
STEPS = 13


class Lifetime(PythonCase):
    def held(self, loader):
        return loader.stats()["held"]

    def test_a_slot_goes_back_with_its_last_tensor(self):
        self.serve()
        loader = self.loader()
        iterator = iter(loader)
        batch = next(iterator)
        image, label, part = batch["image"], batch["label"], batch["image"][2:3]
        before = part.copy()
        del batch, image
        next(iterator)
        self.assertEqual(self.held(loader), 2)  # label and part; the loop's
        del label
        for _ in range(2 * SLOTS):
            next(iterator)
            self.assertTrue((part == before).all())
        self.assertEqual(self.held(loader), 2)
        del part
        self.assertEqual(self.held(loader), 1)
        copied = self.loader(copy=True, job="copies")
        kept = list(copied)
        self.assertEqual((len(kept), self.held(copied)), (STEPS, 0))

    def test_kept_beyond_the_loader(self):
        """Closed, gone, its daemon gone: the values stay, and the rank is free at once."""
        torch = need("torch")
        self.serve()
        for as_, close in (("numpy", True), ("torch", True), ("torch", False), ("dlpack", True)):
            loader = self.loader(as_=as_, job="one")
            iterator = iter(loader)
            batches = [next(iterator) for _ in range(3)]
            before = [{name: numpy.array(tensor) for name, tensor in batch.items()} for batch in batches]
            if close:
                loader.close()
            else:
                self._cleanups = [cleanup for cleanup in self._cleanups if cleanup[0] != loader.close]
                del loader, iterator
            self.until_gone()
            wait_for("the memory to be back", lambda: self.status()["memory_used"] == 0)
            again = self.loader(job="one")
            sum(1 for _ in again)
            again.close()
            for batch, want in zip(batches, before):
                for name, tensor in batch.items():
                    self.assertTrue(numpy.array_equal(numpy.asarray(tensor), want[name]))
            if as_ == "torch":
                batches[0]["image"].add_(1)
            del batches[0]
            gc.collect()
            self.assertTrue(numpy.array_equal(numpy.asarray(batches[0]["image"]), before[1]["image"]))
        self.assertEqual(torch.from_dlpack(batches[1]["image"]).shape, (8, 224, 224, 3))
        loader = self.loader(job="last")
        batch = next(iter(loader))
        before = batch["image"].copy()
        self.stop_daemon()
        loader.close()
        self.assertTrue((batch["image"] == before).all())

    def test_orders_of_deletion(self):
        """Views, batches, iterators, loaders, in any order, also by the garbage collector of cycles."""
        self.serve()
        for first in range(4):
            loader = dataload.Loader("feed", socket=str(self.socket), as_="dlpack", job="orders")
            iterator = iter(loader)
            field = next(iterator)["image"]
            things = [loader, iterator, field, field.__dlpack__(), numpy.asarray(field)]
            del loader, iterator, field
            things = things[first:] + things[:first]
            while things:
                del things[0]
            self.until_gone()
        loader = dataload.Loader("feed", socket=str(self.socket), as_="numpy", job="cycle")
        cycle = {"batch": next(iter(loader)), "loader": loader}
        cycle["self"] = cycle
        del loader, cycle
        gc.collect()
        self.until_gone()

    def test_deleters_in_threads(self):
        """Tensors end in other threads while the loop goes on; nothing is lost, none is filled too early."""
        self.serve(feed={"slots": 8})
        loader = self.loader()
        wrong, queue = [], []
        ready, done = threading.Semaphore(0), threading.Event()

        def consume():
            while True:
                ready.acquire()
                if done.is_set():
                    return
                image, want = queue.pop()
                if int(image[3, ::16, ::16].sum()) != want:
                    wrong.append(want)
                del image

        threads = [threading.Thread(target=consume) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # consumers may be behind for a moment
                for _ in range(20):
                    for batch in loader:
                        queue.append((batch["image"], int(batch["image"][3, ::16, ::16].sum())))
                        ready.release()
                        del batch
            wait_for("the consumers", lambda: not queue)
        finally:
            done.set()
            for _ in threads:
                ready.release()
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual((self.held(loader), loader.stats()["batches"]), (0, 20 * STEPS))

    def test_stats_while_iterating(self):
        self.serve()
        loader = self.loader()
        seen, stop = [], threading.Event()

        def watch():
            while not stop.is_set():
                seen.append((loader.stats()["batches"], len(loader), loader.info["slots"], loader.state_dict()["schema"]))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            for _ in range(10):
                sum(1 for _ in loader)
        finally:
            stop.set()
            thread.join()
        self.assertEqual([row[0] for row in seen], sorted(row[0] for row in seen))
        self.assertEqual({row[1:] for row in seen}, {(STEPS, SLOTS, 1)})

    def test_waits_without_the_interpreter(self):
        """Another thread runs while one waits for a batch."""
        self.serve()
        loader, other = self.loader(rank=0, world=2, job="pair", batch_size=4), []
        sum(1 for _ in loader)
        self.daemon.send_signal(signal.SIGSTOP)
        thread = threading.Thread(target=lambda: other.append(sum(1 for _ in loader)))
        thread.start()
        start = loader.stats()["wait_s"]
        wait_for("time to pass in both", lambda: loader.stats()["wait_s"] > start + 0.2)
        self.assertTrue(thread.is_alive())
        self.daemon.send_signal(signal.SIGCONT)
        thread.join()
        self.assertEqual(other, [len(loader)])

    def test_too_many_held(self):
        """A warning with the remedy, then an error, and the Loader goes on afterwards."""
        self.serve()
        loader = self.loader()
        kept = []
        with self.assertWarnsRegex(RuntimeWarning, r"holds all 4 slots.*loss\.item\(\).*tensor\.clone\(\).*copy=True.*slots=N"):
            with self.assertRaisesRegex(dataload.AllSlotsHeld, "holds all 4 slots"):
                for batch in loader:
                    kept.append(batch)
        self.assertEqual(len(kept), SLOTS)
        del kept, batch
        self.assertEqual(sum(1 for _ in loader), STEPS)
        self.assertEqual(self.held(loader), 0)

    def test_garbage_is_no_deadlock(self):
        """Batches that only the collector can find are found when slots are short."""
        self.serve()
        gc.disable()
        self.addCleanup(gc.enable)
        loader = self.loader()
        count = 0
        for batch in loader:
            cycle = [batch]
            cycle.append(cycle)
            count += 1
        self.assertEqual(count, STEPS)

    def test_break_and_exceptions(self):
        self.serve()
        loader = self.loader()
        for batch in loader:
            break
        del batch
        self.assertEqual(self.held(loader), 0)
        with self.assertRaises(ZeroDivisionError):
            for batch in loader:
                batch["label"][0] / 0 if False else 1 / 0
        del batch
        self.assertEqual(self.held(loader), 0)
        with self.assertRaises(ZeroDivisionError), self.loader(job="with") as inner:
            for batch in inner:
                1 / 0
        wait_for("its end", lambda: len(self.clients()) == 1)
        with self.assertRaisesRegex(dataload.Error, "closed"):
            next(iter(inner))
        inner.close()

    def test_no_growth(self):
        """Memory, descriptors and references over many batches."""
        self.serve(shards=1, records=64, feed={"fields": [{"name": "raw", "from": "cls", "kind": "bytes"}, {"name": "label", "from": "cls", "kind": "int"}]})
        loader = self.loader(as_="dlpack", names={"index": "index"})

        def run(count):
            while count > 0:
                for batch in loader:
                    numpy.asarray(batch["label"]), batch["raw"][1].__dlpack__(), batch["index"].__dlpack__(max_version=(1, 0))
                    count -= 1
            return len(os.listdir("/proc/self/fd")), int(pathlib.Path("/proc/self/statm").read_text().split()[1])

        run(1000)
        fds, pages = run(1000)
        more_fds, more_pages = run(100_000 if LONG else 3_000)
        self.assertEqual(more_fds, fds)
        if not SANITIZE:  # which keeps what was freed for a while
            self.assertLess((more_pages - pages) * resource.getpagesize(), 2 << 20)
        fds = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            self.loader(job="again").close()
        self.assertEqual(len(os.listdir("/proc/self/fd")), fds)


class Processes(PythonCase):
    def test_ctrl_c(self):
        """Whatever it waits for, without the interpreter: a batch, an epoch, an attach."""
        self.serve()
        for what, waits in (("next", "sum(1 for _ in made)"), ("set_epoch", "made.set_epoch(5)"), ("attach", "loader(job='another')")):
            process = self.script(f"""
                import threading
                made = loader(timeout=None, job={what!r})
                sum(1 for _ in made)
                print("ready", flush=True)
                sys.stdin.readline()
                try:
                    threading.Timer(0.3, print, ["waits"], {{"flush": True}}).start()
                    {waits}
                    {waits}
                except KeyboardInterrupt:
                    print("interrupted", flush=True)
                """)
            self.assertEqual(process.stdout.readline(), "ready\n")
            self.daemon.send_signal(signal.SIGSTOP)
            process.stdin.write("go\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "waits\n")
            start = time.monotonic()
            self.interrupt(process)
            self.assertEqual(process.stdout.readline(), "interrupted\n", what)
            print(f"Ctrl-C in {what}: {(time.monotonic() - start) * 1e3:.0f} ms")
            self.daemon.send_signal(signal.SIGCONT)
            process.communicate()
            self.until_gone()

    def interrupt(self, process):
        """As a person does: once more where nothing happens."""
        process.send_signal(signal.SIGINT)
        while not select.select([process.stdout], [], [], 5)[0]:
            process.send_signal(signal.SIGINT)

    def test_exit(self):
        """With tensors alive, in daemon threads too; also without a close, by an exception."""
        self.serve()
        out, _ = self.run_script("""
            made = loader()
            batch = next(iter(made))
            image = batch["image"]
            class Late:
                def __init__(self): self.image = image
                def __del__(self): print(int(self.image[0, 0, 0, 0]) >= 0)
            late = Late()
            """)
        self.assertEqual(out, "True\n")
        self.until_gone()
        self.run_script("""
            import threading
            started = threading.Event()
            made = loader(timeout=None)
            def loop():
                while True:
                    for batch in made:
                        started.set()
            threading.Thread(target=loop, daemon=True).start()
            started.wait()
            """)
        self.until_gone()
        _, err = self.run_script("made = loader(); batch = next(iter(made)); 1 / 0", code=1)
        self.assertIn("ZeroDivisionError", err)
        self.assertEqual(err.count("Traceback"), 1)
        self.until_gone()

    def test_fork(self):
        self.serve()
        out, _ = self.run_script("""
            import gc, os, numpy
            made = loader(as_="dlpack")
            iterator = iter(made)
            field = next(iterator)["image"]
            pid = os.fork()
            if pid == 0:
                for what in (lambda: next(iterator), made.stats, made.state_dict, made.__len__, field.__dlpack__,
                             lambda: numpy.asarray(field), lambda: next(iter(made)), lambda: made.explain()):
                    try:
                        what()
                    except dataload.Forked as error:
                        assert "num_workers=0" in str(error) and str(os.getppid()) in str(error), error
                    else:
                        os._exit(3)
                made.close()
                del field, iterator, made
                gc.collect()
                sys.exit(5)
            status = os.waitpid(pid, 0)[1]
            print(os.waitstatus_to_exitcode(status), int(numpy.asarray(field).sum()) > 0, sum(1 for _ in made))
            """)
        self.assertEqual(out, "5 True 13\n")

    def test_workers_of_a_dataloader(self):
        need("torch")
        self.serve()
        out, _ = self.run_script("""
            import torch
            made = loader(as_="torch")
            class Wrapped(torch.utils.data.IterableDataset):
                def __iter__(self): return iter(made)
            for workers in (0, 1):
                try:
                    print(sum(1 for _ in torch.utils.data.DataLoader(Wrapped(), batch_size=None, num_workers=workers)))
                except dataload.Forked as error:
                    print("num_workers=0" in str(error))
            """)
        self.assertEqual(out, "13\nTrue\n")

    def test_no_pickle(self):
        import copy
        self.serve()
        loader = self.loader()
        for what in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "num_workers=0"):
                what(loader)

    def test_write_to_shared_memory(self):
        """PyTorch cannot know that a mirror's tensors are read-only: the warning says what a write does."""
        need("torch")
        self.serve(feed={"share": "mirror"})
        _, err = self.run_script("""
            made = loader(as_="torch")
            next(iter(made))["image"].add_(1)
            """, code=-signal.SIGSEGV if not SANITIZE else 1)
        self.assertIn("copy=True", err)

    def test_import_alone(self):
        """Neither torch nor numpy comes with the module."""
        out, _ = self.run_script("print(sorted({'torch', 'numpy', 'jax'} & set(sys.modules)), dataload.__version__)")
        self.assertRegex(out, r"^\[\] \d+\.\d+\.\d+\n$")


main()
