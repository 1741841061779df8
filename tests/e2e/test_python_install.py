"""pip install from the source tree, as a user does it; with DATALOADD_LONG=1, since it builds anew."""
import importlib.util

from python_case import *

if not LONG:
    skip("only with DATALOADD_LONG=1: a build of its own")
if SANITIZE:
    skip("builds without sanitizers")
for module in ("venv", "setuptools", "wheel"):
    if not importlib.util.find_spec(module):
        skip(f"no {module}")


class Install(PythonCase):
    def test_pip_install(self):
        self.serve()
        venv = self.folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", venv], check=True)
        done = subprocess.run([venv / "bin/pip", "install", "--no-build-isolation", "--no-index", "--no-deps", SOURCE / "client/python"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        out = subprocess.run([venv / "bin/python", "-c", textwrap.dedent(f"""
            import dataload
            loader = dataload.Loader("feed", socket={str(self.socket)!r}, as_="dlpack")
            print(dataload.__file__, sum(1 for _ in loader))
            """)], capture_output=True, text=True, check=True, cwd=self.folder).stdout
        self.assertRegex(out, rf"^{venv}.*site-packages/dataload/__init__.py 13$")
        left = [path for pattern in ("build", "*.egg-info") for path in (SOURCE / "client/python").glob(pattern)]
        self.assertEqual(left, [])


main()
