"""Imported first: the package dataload without its extension, for tests of what is Python alone, with any build."""
import os
import pathlib
import sys
import types

SOURCE = pathlib.Path(os.environ.get("DATALOADD_SOURCE", ".")).resolve()
package = types.ModuleType("dataload")
package.__path__ = [str(SOURCE / "client/python/dataload")]
sys.modules["dataload"] = package
