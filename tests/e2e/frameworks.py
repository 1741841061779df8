"""The releases of frequent frameworks that tests run with: their packages from PyPI, in an environment outside the tree."""
import fcntl
import hashlib

from python_case import *

WANTED = pathlib.Path(__file__).with_name("frameworks.txt")


def environment():
    """Its Python; made on first use, which takes gigabytes and minutes, so only in long runs."""
    if not LONG:
        skip("frameworks from PyPI are for long runs (DATALOADD_LONG=1)")
    digest = hashlib.sha256(WANTED.read_bytes()).hexdigest()[:12]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dataloadd-tests"
    folder = cache / f"frameworks-{digest}"
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "frameworks.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            subprocess.run([folder / "bin/pip", "install", "--quiet", "-r", WANTED], check=True)
            (folder / "done").touch()
    return folder / "bin/python"
