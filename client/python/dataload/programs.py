"""The commands that are installed with this package: each becomes the program of its name in the package's folder bin."""
import os
import sys
from pathlib import Path

__all__ = ["dataload_pack", "dataloadctl", "dataloadd", "program"]


def program(name):
    """Path of a program of this package, or None where it was built without."""
    path = Path(__file__).with_name("bin") / name
    return str(path) if path.exists() else None


def _become(name):
    path = program(name)
    if path is None:
        sys.exit(f"this copy of the package dataload was built without {name}: install a wheel, or the Debian package {name}")
    os.execv(path, [name, *sys.argv[1:]])


def dataloadd():
    _become("dataloadd")


def dataloadctl():
    _become("dataloadctl")


def dataload_pack():
    _become("dataload-pack")
