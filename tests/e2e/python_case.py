"""What the tests of the Python module have in common: the module as built here, in this process and in others."""
import textwrap

from harness import *

PACKAGE = BUILD / "client/python"
if not (PACKAGE / "dataload/_dataload.abi3.so").exists():
    skip("the Python module was not built: no headers of Python")
if SANITIZE == "thread":
    skip("Python itself knows nothing of the thread sanitizer")
if SANITIZE == "address" and "libasan" not in os.environ.get("LD_PRELOAD", ""):
    # The sanitizer has to be there before a Python that was built without it; what Python itself never frees is no leak of ours.
    preloaded = [subprocess.run(["gcc", "-print-file-name=" + name], capture_output=True, text=True, check=True).stdout.strip()
                 for name in ("libasan.so", "libstdc++.so.6")]
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]],
              dict(os.environ, LD_PRELOAD=":".join(preloaded), ASAN_OPTIONS="detect_leaks=0", PYTHONMALLOC="malloc"))

PRELOADED = {name: os.environ.pop(name) for name in ("LD_PRELOAD", "ASAN_OPTIONS") if name in os.environ}  # not for daemons
sys.path.insert(0, str(PACKAGE))
os.environ["PATH"] = f"{CTL.parent}:{os.environ['PATH']}"

import dataload


def need(module):
    """A module of Debian's that a test cannot do without."""
    try:
        return __import__(module)
    except ImportError:
        return skip(f"no {module}")


class PythonCase(Case):
    """Loaders of a feed of small pictures."""

    def serve(self, shards=4, records=25, feed=None, **settings):
        write_shards(self.folder / "data", shards=shards, records=records)
        self.config({"source": str(self.folder / "data/*.tar"), "batch": 8, "shuffle": 32, "seed": 7, **(feed or {})}, **settings)
        self.start_daemon()

    def loader(self, feed="feed", **options):
        loader = dataload.Loader(feed, socket=self.socket, **{"as_": "numpy", **options})
        self.addCleanup(loader.close)
        return loader

    def script(self, text, env=None):
        """Another Python; `loader(**options)` makes a Loader there."""
        start = textwrap.dedent(f"""
            import sys
            sys.path.insert(0, {str(PACKAGE)!r})
            import dataload
            def loader(**options):
                return dataload.Loader("feed", socket={str(self.socket)!r}, **{{"as_": "numpy", **options}})
            """)
        process = subprocess.Popen([sys.executable, "-B", "-c", start + textwrap.dedent(text)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env={**os.environ, **PRELOADED, **(env or {})})
        self.addCleanup(self.end_script, process)
        return process

    def end_script(self, process):
        if process.poll() is None:
            process.kill()
            process.communicate()

    def run_script(self, text, env=None, code=0):
        process = self.script(text, env)
        out, err = process.communicate(timeout=60 * SLACK)
        self.assertEqual(process.returncode, code, err)
        return out, err

    def clients(self):
        return self.status()["clients"]

    def until_gone(self):
        wait_for("no client to be left", lambda: not self.clients())
